package runs

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

// Renderer is a service's own part: it makes a run's ConfigMap and Job. It is
// pure: the same run gives the same launch, at any time and in any replica.
type Renderer func(Run) (Launch, error)

// Config is what an Engine needs.
type Config struct {
	Kind          runcontract.Kind
	Store         Store
	Cluster       Cluster
	Render        Renderer
	MaxConcurrent int           // runs with a Job at a time; 0: 5
	StartDeadline time.Duration // a pod that has not started by then fails the run with the reason; 0: 10 min
	SweepInterval time.Duration // how often live runs are looked at; 0: 2 s
	OrphanAge     time.Duration // credential Secrets without a row older than that are deleted; 0: 10 min
	GracePeriod   time.Duration // what a cancelled run has before it may be killed; 0: 20 min
	MaxWaiters    int           // callers of Wait at a time; 0: 500
	MaxFollowers  int           // logs that are followed at a time; 0: 200
	Now           func() time.Time
	Log           *slog.Logger
}

// Engine runs the runs of one service. All its state is in the Store and the
// Cluster; any number of Engines may share them.
type Engine struct {
	cfg       Config
	wake      chan struct{} // a run was queued or has ended
	waiters   *waiters
	followers chan struct{} // holds a token for each log that is followed
	captures  captures
	metrics   *metrics

	mu          sync.Mutex
	orphansSeen time.Time // when credential Secrets were last checked
}

// New makes an Engine. Its loop is Run, which is called once.
func New(cfg Config) (*Engine, error) {
	switch {
	case cfg.Kind == "":
		return nil, errors.New("run engine: no kind")
	case cfg.Store == nil || cfg.Cluster == nil || cfg.Render == nil:
		return nil, errors.New("run engine: store, cluster and renderer are required")
	case cfg.MaxConcurrent < 0 || cfg.StartDeadline < 0 || cfg.SweepInterval < 0 || cfg.OrphanAge < 0,
		cfg.GracePeriod < 0, cfg.MaxWaiters < 0, cfg.MaxFollowers < 0:
		return nil, errors.New("run engine: negative limit")
	}
	if cfg.MaxConcurrent == 0 {
		cfg.MaxConcurrent = 5
	}
	if cfg.StartDeadline == 0 {
		cfg.StartDeadline = 10 * time.Minute
	}
	if cfg.SweepInterval == 0 {
		cfg.SweepInterval = 2 * time.Second
	}
	if cfg.OrphanAge == 0 {
		cfg.OrphanAge = 10 * time.Minute
	}
	if cfg.GracePeriod == 0 {
		cfg.GracePeriod = 20 * time.Minute
	}
	if cfg.MaxWaiters == 0 {
		cfg.MaxWaiters = 500
	}
	if cfg.MaxFollowers == 0 {
		cfg.MaxFollowers = 200
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{
		cfg: cfg, wake: make(chan struct{}, 1),
		waiters: newWaiters(cfg.MaxWaiters), followers: make(chan struct{}, cfg.MaxFollowers),
	}
	e.metrics = newMetrics(cfg.Kind, cfg.Store, e.waiters)
	return e, nil
}

// Start accepts a run: its credential Secret is written, then its row. It is
// launched soon after, by Run. A BusyError says who holds the environment. An
// idempotency key that was used gives the run that it stands for, replayed.
func (e *Engine) Start(ctx context.Context, req NewRun) (run Run, replayed bool, err error) {
	if req.Name == "" || req.Environment == "" || req.Operation == "" {
		return Run{}, false, errors.New("start run: name, environment and operation are required")
	}
	// Looked at before anything is written; Insert decides if two come at once.
	if run, replayed, err := e.Replay(ctx, req.RequestedBy, req.IdempotencyKey, req.RequestDigest); replayed || err != nil {
		return run, replayed, err
	}
	if err := e.checkFree(ctx, req.Environment); err != nil {
		return e.replayOr(ctx, req.RequestedBy, req.IdempotencyKey, req.RequestDigest, err)
	}
	id, err := e.newID(ctx, req.Environment)
	if err != nil {
		return Run{}, false, fmt.Errorf("start run: %w", err)
	}
	now := e.now()
	run = Run{
		ID: id, Operation: req.Operation, RetryOf: req.RetryOf, Name: req.Name, Environment: req.Environment,
		RequestedBy: req.RequestedBy, Inputs: req.Inputs, CreatedAt: now,
		IdempotencyKey: req.IdempotencyKey, RequestDigest: req.RequestDigest,
		Status: api.StatusQueued, Phase: api.PhaseWaitingForSlot, Message: "waiting for a free slot", UpdatedAt: now, Version: 1,
	}
	if err := e.cfg.Cluster.EnsureCredential(ctx, run, req.Credential); err != nil {
		return Run{}, false, fmt.Errorf("start run: %w", err)
	}
	if err := e.cfg.Store.Insert(ctx, run); err != nil {
		return e.undoStart(ctx, run, err)
	}
	e.cfg.Log.InfoContext(ctx, "run queued", "run_id", run.ID, "environment", run.Environment, "operation", run.Operation, "requested_by", run.RequestedBy)
	e.kick()
	if stored, err := e.cfg.Store.Get(ctx, run.ID); err == nil {
		return stored, false, nil
	}
	return run, false, nil // accepted all the same; only its position is not known
}

// newID makes an id that sorts after those of the environment's earlier runs, also
// when the clock was set back since, or is behind that of another replica: which
// run is the newest says what became of the environment.
func (e *Engine) newID(ctx context.Context, environment string) (ID, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make run id: %w", err)
	}
	newest, err := e.cfg.Store.List(ctx, Filter{Environment: environment, Limit: 1})
	if err != nil || len(newest) == 0 || newest[0].ID < ID(id.String()) {
		return ID(id.String()), err
	}
	last, err := uuid.Parse(string(newest[0].ID))
	if err != nil {
		return "", fmt.Errorf("make run id: after %s: %w", newest[0].ID, err)
	}
	// The first six bytes are milliseconds (RFC 9562); the next one is free.
	for i := 5; i >= 0; i-- {
		if last[i]++; last[i] != 0 {
			break
		}
	}
	copy(id[:6], last[:6])
	return ID(id.String()), nil
}

// Replay gives the run that a caller's idempotency key stands for, if it was used
// before. ErrKeyReused means that it was, with another request.
func (e *Engine) Replay(ctx context.Context, requestedBy, key string, digest []byte) (run Run, replayed bool, err error) {
	if key == "" {
		return Run{}, false, nil
	}
	run, err = e.cfg.Store.ByKey(ctx, requestedBy, key)
	switch {
	case errors.Is(err, ErrNotFound):
		return Run{}, false, nil
	case err != nil:
		return Run{}, false, err
	case !hmac.Equal(run.RequestDigest, digest):
		return Run{}, false, fmt.Errorf("%w: it stands for run %s", ErrKeyReused, run.ID)
	}
	return run, true, nil
}

// undoStart deletes the credential Secret of a run that was not stored. After a
// failure that leaves open whether it was, the row decides; if that cannot be
// read either, the Secret stays for the sweep of orphans. If the same request has
// won a race against this one, its run is the answer.
func (e *Engine) undoStart(ctx context.Context, run Run, cause error) (Run, bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if !errors.Is(cause, ErrConflict) {
		stored, err := e.cfg.Store.Get(ctx, run.ID)
		switch {
		case err == nil:
			e.kick()
			return stored, false, nil
		case !errors.Is(err, ErrNotFound):
			return Run{}, false, fmt.Errorf("start run: %w", cause)
		}
	}
	if err := e.cfg.Cluster.DeleteCredential(ctx, run.ID); err != nil {
		e.cfg.Log.WarnContext(ctx, "credential of a refused run not deleted yet", "run_id", run.ID, "error", err)
	}
	return e.replayOr(ctx, run.RequestedBy, run.IdempotencyKey, run.RequestDigest, fmt.Errorf("start run: %w", cause))
}

// replayOr gives the run of the same request, if that has come first and is why
// this one cannot start; else the cause.
func (e *Engine) replayOr(ctx context.Context, requestedBy, key string, digest []byte, cause error) (Run, bool, error) {
	if errors.Is(cause, ErrConflict) {
		if first, replayed, err := e.Replay(ctx, requestedBy, key, digest); replayed || errors.Is(err, ErrKeyReused) {
			return first, replayed, err
		}
	}
	return Run{}, false, cause
}

// checkFree says with a BusyError who holds an environment.
func (e *Engine) checkFree(ctx context.Context, environment string) error {
	for _, status := range LiveStatuses() {
		held, err := e.cfg.Store.List(ctx, Filter{Environment: environment, Status: status, Limit: 1})
		if err != nil {
			return fmt.Errorf("start run: %w", err)
		}
		if len(held) > 0 {
			return &BusyError{Environment: environment, Holder: held[0].ID}
		}
	}
	return nil
}

// Get gives a run as it is now: what Kubernetes shows of a live one is taken
// into account, and stored. If Kubernetes does not answer, the row is the answer.
func (e *Engine) Get(ctx context.Context, id ID) (Run, error) {
	run, err := e.cfg.Store.Get(ctx, id)
	if err != nil || run.Status == api.StatusQueued || Final(run.Status) {
		return run, err
	}
	look, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	now, err := e.sync(look, run, nil, false)
	if errors.Is(err, ErrKubernetes) || err != nil && look.Err() != nil && ctx.Err() == nil {
		e.cfg.Log.WarnContext(ctx, "run read without a look at Kubernetes", "run_id", id, "error", err)
		return run, nil
	}
	return now, err
}

// List gives runs, newest first.
func (e *Engine) List(ctx context.Context, f Filter) ([]Run, error) {
	return e.cfg.Store.List(ctx, f)
}

// Events gives a run's timeline, oldest first.
func (e *Engine) Events(ctx context.Context, id ID) ([]api.Event, error) {
	if _, err := e.cfg.Store.Get(ctx, id); err != nil {
		return nil, err
	}
	return e.cfg.Store.Events(ctx, id)
}

// Occupied gives the names of an environment's pods that have not ended: while
// there are any, what one of them holds must not be taken from it.
func (e *Engine) Occupied(ctx context.Context, environment string) (pods []string, err error) {
	return e.cfg.Cluster.EnvironmentPods(ctx, environment)
}

// Output gives one key of what a run has published, or ErrNotFound.
func (e *Engine) Output(ctx context.Context, id ID, key string) ([]byte, error) {
	if _, err := e.cfg.Store.Get(ctx, id); err != nil {
		return nil, err
	}
	return e.cfg.Cluster.Output(ctx, id, key)
}

// Ready says whether database and Kubernetes can be used; the error names which
// cannot.
func (e *Engine) Ready(ctx context.Context) error {
	if err := e.cfg.Store.Ping(ctx); err != nil {
		return err
	}
	return e.cfg.Cluster.Ping(ctx)
}

// now is the time to store: both databases keep microseconds.
func (e *Engine) now() time.Time { return e.cfg.Now().UTC().Truncate(time.Microsecond) }

// kick makes Run look at the queue soon.
func (e *Engine) kick() {
	select {
	case e.wake <- struct{}{}:
	default: // it will anyway
	}
}
