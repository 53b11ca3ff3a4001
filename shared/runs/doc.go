// Package runs is the run engine of both services: what a run is, what may
// become of it, and the loop that makes it so.
//
// Nouns: a Run is one row of a service's run table; its Status follows the table
// in state.go (state_machine.md draws it), its Phase only ever grows. A Launch is
// what a service renders of a run: ConfigMap and Job. An Observation is all that
// can be seen of a run in Kubernetes; Next, a pure function, says what the run
// becomes by it. The Engine starts runs, launches queued ones in order below a
// cap, follows live ones, cancels them, archives their logs and deletes their
// credentials. An Event is an entry of a run's timeline.
//
// Each step of a start is idempotent and named after the run's id: credential
// Secret, row, ConfigMap, Job, owner references, status. A crash between two of
// them is repaired by the next sweep, by doing the step again. Every change of a
// row is a compare-and-set, so several replicas may share a database; none holds
// state that another would miss. Compare-and-set cannot count, so that a slot is
// claimed in the database, one claim after the other, before a Job is made. A claim
// is a lease without owner or end: launching is idempotent, and any replica goes
// on with it. What has no claim has no Job, and may be cancelled at once.
//
// The database is the truth. A cached view of Kubernetes may move a run forward,
// but only a fresh one, with the run's outputs, may end it.
//
// Errors: ErrNotFound, ErrConflict (BusyError, EndedError, TooEarlyError,
// TransitionError), ErrKeyReused, ErrTooManyWaiters, ErrTooManyFollowers, ErrNoLogs for callers;
// ErrDatabase and ErrKubernetes name the dependency that failed; ErrWait,
// ErrRefused and ErrGiveUp are what a Cluster says about a launch.
//
// The package leaves SQL to runs/store, the Kubernetes client to shared/jobrun,
// and what a run does to the service that renders it. Tests of services use the
// fakes in runs/runstest.
package runs
