package runs

import (
	"encoding/json"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/kubeopera/platform/shared/api"
)

// ID is a run's UUIDv7, lower case; ids sort by the time they were made.
type ID string

// Run is one row of the run table. All above Status is set once, at the start.
type Run struct {
	ID          ID
	Operation   api.Operation
	RetryOf     ID // empty unless a retry
	Name        string
	Environment string          // at most one live run at a time
	RequestedBy string          // name of the API key
	Inputs      json.RawMessage // the service's own inputs; never a secret
	CreatedAt   time.Time

	IdempotencyKey string // as RequestedBy sent it; empty: none
	RequestDigest  []byte // what Replay compares; empty without a key

	Status     api.Status
	Phase      api.Phase
	Message    string
	ErrorCode  string
	Progress   api.Progress
	Details    Details
	ClaimedAt  time.Time // when the run was given a slot; until then it has no Job
	StartedAt  time.Time // zero until the Job was created
	UpdatedAt  time.Time
	FinishedAt time.Time // zero until terminal
	Version    int64     // grows by one with every change; the compare-and-set guard
	Cleaned    bool      // log archived and credential Secret deleted (terminal runs only)

	CancelRequestedAt time.Time // zero: nobody asked
	CancelledBy       string    // name of the API key that asked for it first

	QueuePosition int // from 1 while queued, computed on read; not stored
}

// Details is what a runner says of a run beside its progress.
type Details struct {
	Nodes   []api.Node     `json:"nodes,omitempty"`
	Changes *api.Changes   `json:"changes,omitempty"`
	Lock    *api.StateLock `json:"lock,omitempty"`
	// Scaffold is what a scaffolding run has made so far.
	Scaffold *api.ScaffoldOutput `json:"scaffold,omitempty"`
}

// NewRun is what a service asks the engine to start.
type NewRun struct {
	Operation   api.Operation
	RetryOf     ID
	Name        string
	Environment string
	RequestedBy string
	Inputs      json.RawMessage
	// IdempotencyKey makes starting the run again, by the same caller, give the
	// same run; empty: every start is a new run. It is remembered as long as the run.
	IdempotencyKey string
	// RequestDigest tells the requests of a key apart. It should be keyed: what it
	// is made of may hold secrets.
	RequestDigest []byte
	// Credential is the content of the credential Secret, file name to bytes.
	Credential map[string][]byte
}

// Launch is what a service's renderer makes of a run, ready to be created.
// Rendering it again gives the same objects.
type Launch struct {
	// Files is the content of the ConfigMap, run.json among them.
	Files map[string]string
	// Job is the Job to create, named runcontract.JobName(kind, id).
	Job *batchv1.Job
}

// Filter selects runs of a list.
type Filter struct {
	Status        api.Status    // empty: all
	Environment   string        // empty: all
	Operation     api.Operation // empty: all
	CreatedAfter  time.Time     // at that time or later; zero: all
	CreatedBefore time.Time     // earlier than that; zero: all
	Limit         int           // 1 to 200; 0: 50
	Before        ID            // only runs with a smaller id (keyset cursor); empty: from the newest
}

// LogOptions selects what Engine.Logs gives.
type LogOptions struct {
	Follow bool
	Tail   int // last lines only; 0: all
}
