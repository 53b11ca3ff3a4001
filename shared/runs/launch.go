package runs

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubeopera/platform/shared/api"
)

// launchQueued launches queued runs in order while slots are free. A slot is
// claimed in the database before anything of a run is made, so that several
// replicas together stay below the cap, and so that what was not claimed has no
// Job. A claim needs no owner and no end: any replica goes on with it.
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
		run, err := e.claim(ctx, run)
		if errors.Is(err, ErrNoSlot) || errors.Is(err, ErrConflict) {
			return // another replica is at it; the next sweep sees what is left
		}
		if err != nil {
			e.complain(ctx, run.ID, "no slot claimed", err)
			return
		}
		err = e.launchOne(ctx, run)
		if errors.Is(err, ErrWait) { // its row says so
			e.cfg.Log.DebugContext(ctx, "run waits for quota", "run_id", run.ID, "error", err)
			return // what has no room for the first has none for the next
		}
		if err != nil {
			e.complain(ctx, run.ID, "run not launched", err)
		}
	}
}

// claim gives a queued run its slot, unless it has one.
func (e *Engine) claim(ctx context.Context, run Run) (Run, error) {
	if !run.ClaimedAt.IsZero() {
		return run, nil
	}
	claimed, err := e.cfg.Store.Claim(ctx, run, e.cfg.MaxConcurrent, e.now())
	if err != nil {
		return run, err
	}
	e.waiters.notify(run.ID)
	return claimed, nil
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
	return e.update(ctx, run, next, "")
}

// update writes a changed run, with an entry in its timeline if its status, phase
// or error code has changed or somebody asked for it, and tells who waits for it.
func (e *Engine) update(ctx context.Context, was, next Run, by string) (Run, error) {
	var event *api.Event
	moved := next.Status != was.Status || next.Phase != was.Phase || next.ErrorCode != was.ErrorCode
	if moved || by != "" {
		event = &api.Event{At: next.UpdatedAt, Status: next.Status, Phase: next.Phase, Message: next.Message, ErrorCode: next.ErrorCode, By: by}
	}
	stored, err := e.cfg.Store.Update(ctx, next, event)
	if err != nil {
		return was, err
	}
	e.waiters.notify(stored.ID)
	e.metrics.note(was, stored)
	if event != nil {
		e.cfg.Log.InfoContext(ctx, "run changed", "run_id", stored.ID, "environment", stored.Environment,
			"status", stored.Status, "phase", stored.Phase, "error_code", stored.ErrorCode, "message", stored.Message, "by", by)
	}
	if Final(stored.Status) {
		e.kick()
	}
	return stored, nil
}
