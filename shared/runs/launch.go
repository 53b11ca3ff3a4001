package runs

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubeopera/platform/shared/api"
)

// launchQueued launches queued runs in order while slots are free. The count and
// the queue come from one consistent read and launching is idempotent, so that
// several replicas together stay below the cap.
func (e *Engine) launchQueued(ctx context.Context, unfinished []Run) {
	var queued []Run
	slots := e.cfg.MaxConcurrent
	for _, run := range unfinished {
		if run.Status == api.StatusQueued {
			queued = append(queued, run)
		} else {
			slots--
		}
	}
	for _, run := range queued {
		if slots <= 0 || ctx.Err() != nil {
			return
		}
		slots--
		err := e.launchOne(ctx, run)
		if errors.Is(err, ErrWait) { // its row says so
			e.cfg.Log.DebugContext(ctx, "run waits for quota", "run_id", run.ID, "error", err)
			return // what has no room for the first has none for the next
		}
		if err != nil {
			e.complain(ctx, run.ID, "run not launched", err)
		}
	}
}

// launchOne launches a run within runTimeout, so that an API server which does not
// answer stops the engine's loop for no longer than that.
func (e *Engine) launchOne(ctx context.Context, run Run) error {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	return e.launch(ctx, run)
}

// launch makes a queued run's objects and then its row running. Each step may
// have been done before, by this process or another.
func (e *Engine) launch(ctx context.Context, run Run) error {
	rendered, err := e.cfg.Render(run)
	if err != nil {
		return e.refuse(ctx, run, fmt.Errorf("%w: %w", ErrGiveUp, err))
	}
	if rendered.Job == nil {
		return e.refuse(ctx, run, fmt.Errorf("%w: the run has no Job", ErrGiveUp))
	}
	if err := e.cfg.Cluster.EnsureConfigMap(ctx, run, rendered.Files); err != nil {
		return e.refuse(ctx, run, err)
	}
	job, err := e.cfg.Cluster.EnsureJob(ctx, run, rendered.Job)
	if err != nil {
		return e.refuse(ctx, run, err)
	}
	if err := e.cfg.Cluster.Own(ctx, run, job); err != nil {
		return err
	}
	c := run.changing()
	c.Status, c.Phase, c.ErrorCode = api.StatusRunning, later(c.Phase, api.PhaseStarting), ""
	c.Message = "waiting for Kubernetes to create the run's pod"
	_, err = e.store(ctx, run, c)
	if errors.Is(err, ErrConflict) {
		return e.withdraw(ctx, run.ID)
	}
	return err
}

// withdraw deletes a Job that was made for a run which had ended meanwhile, while
// it was queued. Any other lost race means that somebody else has launched the
// run, and that the Job, even an ended one, is the run's own.
func (e *Engine) withdraw(ctx context.Context, id ID) error {
	run, err := e.cfg.Store.Get(ctx, id)
	if err != nil || !Final(run.Status) || !run.StartedAt.IsZero() {
		return err
	}
	return e.cfg.Cluster.DeleteJob(ctx, id)
}

// refuse says in a run's row why it was not launched: it fails if that will not
// change, or has not within the start deadline, and else keeps its place.
func (e *Engine) refuse(ctx context.Context, run Run, cause error) error {
	c := run.changing()
	switch {
	case errors.Is(cause, ErrGiveUp),
		errors.Is(cause, ErrRefused) && c.ErrorCode == string(CodePodRefused) && e.now().Sub(run.UpdatedAt) >= e.cfg.StartDeadline:
		c.Status, c.ErrorCode = api.StatusFailed, string(CodeLaunch)
		c.Message = "the run could not be launched: " + cause.Error()
	case errors.Is(cause, ErrRefused) && c.ErrorCode == string(CodePodRefused):
		// The row keeps the first refusal's words: it counts from its last change,
		// and webhooks put a request id into every answer.
		return cause
	case errors.Is(cause, ErrRefused):
		c.ErrorCode = string(CodePodRefused)
		c.Message = "Kubernetes refuses the run; trying again: " + cause.Error()
	case errors.Is(cause, ErrWait):
		c.ErrorCode = ""
		c.Message = "waiting for room in the namespace's quota: " + cause.Error()
	default:
		return cause
	}
	if _, err := e.store(ctx, run, c); err != nil && !errors.Is(err, ErrConflict) {
		return errors.Join(cause, err)
	}
	return cause
}

// store writes a change of a run if it changes anything, and gives the run as it
// is then.
func (e *Engine) store(ctx context.Context, run Run, c Change) (Run, error) {
	next, changed, err := run.with(c, e.now())
	if err != nil || !changed {
		return run, err
	}
	stored, err := e.cfg.Store.Update(ctx, next)
	if err != nil {
		return run, err
	}
	if stored.Status != run.Status || stored.Phase != run.Phase {
		e.cfg.Log.InfoContext(ctx, "run changed", "run_id", run.ID, "environment", run.Environment,
			"status", stored.Status, "phase", stored.Phase, "error_code", stored.ErrorCode, "message", stored.Message)
	}
	if Final(stored.Status) {
		e.kick()
	}
	return stored, nil
}
