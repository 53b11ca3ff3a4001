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

	Status     api.Status
	Phase      api.Phase
	Message    string
	ErrorCode  string
	Progress   api.Progress
	StartedAt  time.Time // zero until the Job was created
	UpdatedAt  time.Time
	FinishedAt time.Time // zero until terminal
	Version    int64     // grows by one with every change; the compare-and-set guard
	Cleaned    bool      // log archived and credential Secret deleted (terminal runs only)

	QueuePosition int // from 1 while queued, computed on read; not stored
}

// NewRun is what a service asks the engine to start.
type NewRun struct {
	Operation   api.Operation
	RetryOf     ID
	Name        string
	Environment string
	RequestedBy string
	Inputs      json.RawMessage
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
	Status      api.Status // empty: all
	Environment string     // empty: all
	Limit       int        // 1 to 200; 0: 50
	Before      ID         // only runs with a smaller id (keyset cursor); empty: from the newest
}

// LogOptions selects what Engine.Logs gives.
type LogOptions struct {
	Follow bool
	Tail   int // last lines only; 0: all
}
