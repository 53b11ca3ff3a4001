package runservice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runs"
)

// Cases are the use cases that every service has; View is how it shows a run.
type Cases[View any] struct {
	runs Runs
	view func(runs.Run) (View, error)
}

// New makes Cases.
func New[View any](engine Runs, view func(runs.Run) (View, error)) Cases[View] {
	return Cases[View]{runs: engine, view: view}
}

// Caller is who asks for something to be done, and how a repetition of the same
// request is known.
type Caller struct {
	Name   string // of the API key
	Key    string // the request's idempotency key; empty: none
	Digest []byte // keyed digest of the request; only with Key
}

// Started is a run that was started, now or, if replayed, by an earlier request
// with the same idempotency key.
type Started[View any] struct {
	Run      View
	Replayed bool
}

// Replay gives the run that an earlier request of the same idempotency key
// started. What is known by its key was right when it came first: the rules may
// have changed since, the run has not.
func (c Cases[View]) Replay(ctx context.Context, caller Caller) (started Started[View], known bool, err error) {
	if caller.Key == "" {
		return Started[View]{}, false, nil
	}
	run, known, err := c.runs.Replay(ctx, caller.Name, caller.Key, caller.Digest)
	if err != nil || !known {
		return Started[View]{}, false, err
	}
	view, err := c.view(run)
	return Started[View]{Run: view, Replayed: true}, true, err
}

// Refuse gives the problems of a request, unless it is one that was accepted before
// and comes again: starting it says what there is to say then.
func (c Cases[View]) Refuse(ctx context.Context, caller Caller, problems []api.FieldProblem) []api.FieldProblem {
	if len(problems) == 0 {
		return nil
	}
	if _, known, err := c.Replay(ctx, caller); known || errors.Is(err, runs.ErrKeyReused) {
		return nil
	}
	return problems
}

// Begin queues a run for a caller.
func (c Cases[View]) Begin(ctx context.Context, caller Caller, n runs.NewRun) (Started[View], error) {
	n.RequestedBy, n.IdempotencyKey, n.RequestDigest = caller.Name, caller.Key, caller.Digest
	run, replayed, err := c.runs.Start(ctx, n)
	if err != nil {
		return Started[View]{}, fmt.Errorf("start a run: %w", err)
	}
	view, err := c.view(run)
	return Started[View]{Run: view, Replayed: replayed}, err
}

// Watch is what a reader of a run waits for.
type Watch struct {
	// Seen says whether the reader has that revision already; nil: it has none.
	Seen func(revision string) bool
	// Most is how long to wait for the next revision, or for one that was not seen.
	Most time.Duration
}

// Get gives a run as it is, at once or when there is something new to see, and
// the revision of it.
func (c Cases[View]) Get(ctx context.Context, id string, watch Watch) (view View, revision string, err error) {
	run, err := c.Find(ctx, id)
	if err != nil {
		return view, "", err
	}
	if watch.Most > 0 && (watch.Seen == nil || watch.Seen(Revision(run))) {
		if run, err = c.runs.Wait(ctx, run.ID, run.Version, watch.Most); err != nil {
			return view, "", fmt.Errorf("wait for run %s: %w", id, err)
		}
	}
	view, err = c.view(run)
	return view, Revision(run), err
}

var runID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// Find finds a run. What does not look like an id cannot be one.
func (c Cases[View]) Find(ctx context.Context, id string) (runs.Run, error) {
	if !runID.MatchString(id) {
		return runs.Run{}, fmt.Errorf("get a run: %w", runs.ErrNotFound)
	}
	run, err := c.runs.Get(ctx, runs.ID(id))
	if err != nil {
		return runs.Run{}, fmt.Errorf("get run %s: %w", id, err)
	}
	return run, nil
}

// FindFailed finds a run that may be retried: it has ended, and not well.
func (c Cases[View]) FindFailed(ctx context.Context, id string) (runs.Run, error) {
	run, err := c.Find(ctx, id)
	switch {
	case err != nil:
		return runs.Run{}, err
	case !runs.Final(run.Status):
		return runs.Run{}, fmt.Errorf("retry run %s: %w", id, ErrNotEnded)
	case run.Status == api.StatusSucceeded:
		return runs.Run{}, fmt.Errorf("retry run %s: %w", id, ErrSucceeded)
	}
	return run, nil
}

// Logs opens a run's log: its pod's, or what was kept of it.
func (c Cases[View]) Logs(ctx context.Context, id string, opts runs.LogOptions) (io.ReadCloser, error) {
	if !runID.MatchString(id) {
		return nil, fmt.Errorf("get the log of a run: %w", runs.ErrNotFound)
	}
	log, err := c.runs.Logs(ctx, runs.ID(id), opts)
	if err != nil {
		return nil, fmt.Errorf("get the log of run %s: %w", id, err)
	}
	return log, nil
}

// Events gives a run's timeline, oldest first.
func (c Cases[View]) Events(ctx context.Context, id string) (api.EventList, error) {
	if _, err := c.Find(ctx, id); err != nil { // what is seen of it now belongs to it
		return api.EventList{}, err
	}
	events, err := c.runs.Events(ctx, runs.ID(id))
	if err != nil {
		return api.EventList{}, fmt.Errorf("get the events of run %s: %w", id, err)
	}
	if events == nil {
		events = []api.Event{}
	}
	return api.EventList{Events: events}, nil
}

// Cancel asks a run to stop; with force, one that has not in its grace period is
// killed. A queued run is cancelled at once.
func (c Cases[View]) Cancel(ctx context.Context, id string, force bool, caller Caller) (view View, err error) {
	if _, err := c.Find(ctx, id); err != nil {
		return view, err
	}
	run, err := c.runs.Cancel(ctx, runs.ID(id), force, caller.Name)
	if err != nil {
		return view, fmt.Errorf("cancel run %s: %w", id, err)
	}
	return c.view(run)
}
