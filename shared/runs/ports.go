package runs

import (
	"context"
	"io"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/kubeopera/platform/shared/api"
)

// Store keeps runs. Implementations: runs/store (SQL), runs/runstest (memory);
// runs/store/storetest says how they behave.
type Store interface {
	Reader
	Writer
	LogStore
}

// Reader reads runs. Runs of a status that is queued carry their queue position.
type Reader interface {
	// Get gives one run, or ErrNotFound.
	Get(ctx context.Context, id ID) (Run, error)
	// List gives the runs that the filter selects, newest first.
	List(ctx context.Context, f Filter) ([]Run, error)
	// Unfinished gives all live runs, oldest first, in one consistent read.
	Unfinished(ctx context.Context) ([]Run, error)
	// Uncleaned gives terminal runs that are not cleaned, oldest first, at most limit.
	Uncleaned(ctx context.Context, limit int) ([]Run, error)
	// ByKey gives the run that a caller started with an idempotency key, or ErrNotFound.
	ByKey(ctx context.Context, requestedBy, key string) (Run, error)
	// Events gives a run's timeline, oldest first; empty if there is no such run.
	Events(ctx context.Context, id ID) ([]api.Event, error)
	// Count gives how many runs there are of each status; a status may be absent.
	Count(ctx context.Context) (map[api.Status]int, error)
	// Known gives those of the ids that have a row.
	Known(ctx context.Context, ids []ID) (map[ID]bool, error)
}

// Writer changes runs.
type Writer interface {
	// Insert adds a new run, with the first event of its timeline, or says with a
	// BusyError who holds its environment. A key that its caller has used is
	// ErrConflict too, if nothing is worse. An error that matches ErrConflict means
	// that nothing was stored; after any other the run may be stored all the same.
	Insert(ctx context.Context, run Run) error
	// Update stores the changing part of a run whose Version is still the stored
	// one and whose stored status may become the new one, and gives it back with
	// its new Version; else ErrConflict, or ErrNotFound. The event, unless nil, is
	// stored with it or not at all.
	Update(ctx context.Context, run Run, event *api.Event) (Run, error)
	// Claim gives a queued run whose Version is still the stored one a slot:
	// ClaimedAt becomes at. ErrNoSlot means that slots runs have one already,
	// however many replicas claim at a time; ErrConflict that the run has changed.
	Claim(ctx context.Context, run Run, slots int, at time.Time) (Run, error)
	// MarkCleaned sets Cleaned on a terminal run; doing it again is no error. The
	// Version stays: nothing that a caller sees changes.
	MarkCleaned(ctx context.Context, id ID) error
	// Ping says whether runs can be read and written.
	Ping(ctx context.Context) error
}

// LogStore keeps logs of runs that have ended.
type LogStore interface {
	// SaveLog stores a run's log. Of two logs the longer text stays: what was
	// followed to its end is not lost to the tail that another replica found.
	SaveLog(ctx context.Context, id ID, log ArchivedLog) error
	// Log gives a stored log, or ErrNoLogs.
	Log(ctx context.Context, id ID) (ArchivedLog, error)
}

// ArchivedLog is the log of a run that has ended.
type ArchivedLog struct {
	Gzip      []byte
	Bytes     int64 // length of the text in Gzip
	Truncated bool  // the beginning is missing
	SavedAt   time.Time
}

// Cluster is the namespace where runs live. Implementations: shared/jobrun
// (client-go), runs/runstest (memory). Its errors match ErrKubernetes.
type Cluster interface {
	Launcher
	Observer
	LogReader
	Janitor
}

// Launcher makes a run's objects. Doing any of it again is no error.
type Launcher interface {
	// EnsureCredential makes the credential Secret.
	EnsureCredential(ctx context.Context, run Run, files map[string][]byte) error
	// EnsureConfigMap makes the ConfigMap.
	EnsureConfigMap(ctx context.Context, run Run, files map[string]string) error
	// EnsureJob makes the Job, or adopts it if it is this run's already.
	EnsureJob(ctx context.Context, run Run, job *batchv1.Job) (*batchv1.Job, error)
	// Own makes the Job the owner of the ConfigMap and the credential Secret.
	Own(ctx context.Context, run Run, job *batchv1.Job) error
	// DeleteJob deletes the Job; it stays visible until its pod has ended.
	DeleteJob(ctx context.Context, id ID) error
	// DeletePod gives what lives of the run's pods one more second.
	DeletePod(ctx context.Context, id ID) error
}

// Observer looks at runs.
type Observer interface {
	// Observe gives what caches hold of a run. An absent Job is always confirmed.
	Observe(ctx context.Context, id ID) (Observation, error)
	// Inspect asks the API server itself for all there is to know of a run, its
	// outputs and the events of a pod that has not started among it.
	Inspect(ctx context.Context, id ID) (Observation, error)
	// Outputs reads what the runners of these runs have published so far.
	Outputs(ctx context.Context, ids []ID) (map[ID]Outputs, error)
	// Output gives one key of a run's outputs, or ErrNotFound.
	Output(ctx context.Context, id ID, key string) ([]byte, error)
	// EnvironmentPods asks the API server for the names of an environment's pods
	// that have not ended, of all its runs.
	EnvironmentPods(ctx context.Context, environment string) ([]string, error)
	// Ping says whether the API server answers and lets us see Jobs.
	Ping(ctx context.Context) error
}

// LogReader reads logs of pods.
type LogReader interface {
	// Logs streams the log of a run's containers in order, or gives ErrNoLogs if
	// it has no pod or none that has begun.
	Logs(ctx context.Context, id ID, opts LogOptions) (io.ReadCloser, error)
}

// Janitor removes what must not stay.
type Janitor interface {
	// Credentials lists the credential Secrets that there are.
	Credentials(ctx context.Context) ([]CredentialSecret, error)
	// DeleteCredential deletes a run's credential Secret, if there is one.
	DeleteCredential(ctx context.Context, id ID) error
	// DeleteOutputs deletes what a run has published, if it has.
	DeleteOutputs(ctx context.Context, id ID) error
}

// CredentialSecret is a credential Secret, without its content.
type CredentialSecret struct {
	Run       ID
	CreatedAt time.Time
}
