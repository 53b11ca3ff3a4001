package runservice

import (
	"context"
	"io"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runs"
)

// Runs is the run engine as services use it.
type Runs interface {
	Starter
	Reader
	Outputs
}

// Starter starts and stops runs.
type Starter interface {
	Start(ctx context.Context, run runs.NewRun) (started runs.Run, replayed bool, err error)
	Replay(ctx context.Context, requestedBy, key string, digest []byte) (run runs.Run, found bool, err error)
	Cancel(ctx context.Context, id runs.ID, force bool, by string) (runs.Run, error)
	// Occupied names the pods of an environment that may still be at work.
	Occupied(ctx context.Context, environment string) (pods []string, err error)
}

// Reader reads runs.
type Reader interface {
	Get(ctx context.Context, id runs.ID) (runs.Run, error)
	Wait(ctx context.Context, id runs.ID, version int64, most time.Duration) (runs.Run, error)
	List(ctx context.Context, filter runs.Filter) ([]runs.Run, error)
	Events(ctx context.Context, id runs.ID) ([]api.Event, error)
}

// Outputs reads what runs leave.
type Outputs interface {
	Logs(ctx context.Context, id runs.ID, opts runs.LogOptions) (io.ReadCloser, error)
	Output(ctx context.Context, id runs.ID, key string) ([]byte, error)
}
