package runs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubeopera/platform/shared/api"
)

// cancelTries bounds how often a cancel starts over because the run has changed
// meanwhile.
const cancelTries = 10

// Cancel ends a run because somebody asked for it. A queued one is cancelled at
// once. One that is at work becomes cancelling, and its Job is deleted: its pod has
// its grace period to save its work, and what it reports then decides how the run
// ends. Cancelling it again changes nothing. With force the pod gets one more
// second: a TooEarlyError says from when on that may be. An EndedError means that
// the run has ended.
func (e *Engine) Cancel(ctx context.Context, id ID, force bool, by string) (Run, error) {
	for range cancelTries {
		run, again, err := e.cancel(ctx, id, force, by)
		if err != nil {
			return Run{}, fmt.Errorf("cancel run: %w", err)
		}
		if !again {
			return run, nil
		}
	}
	return Run{}, fmt.Errorf("cancel run %s: it keeps changing: %w", id, ErrConflict)
}

// cancel cancels a run, unless it changes meanwhile: again is true then.
func (e *Engine) cancel(ctx context.Context, id ID, force bool, by string) (run Run, again bool, err error) {
	// Not from the row alone: it may have ended without anybody having looked.
	run, err = e.Get(ctx, id)
	if err != nil {
		return Run{}, false, err
	}
	switch {
	case Final(run.Status):
		return Run{}, false, &EndedError{ID: id, Status: run.Status}
	case run.Status == api.StatusQueued:
		return e.cancelQueued(ctx, run, by)
	case run.Status == api.StatusCancelling && force:
		return e.kill(ctx, run, by)
	case run.Status == api.StatusCancelling:
		return run, false, nil
	case force:
		return Run{}, false, &TooEarlyError{ID: id}
	}
	c := run.changing()
	c.Status, c.ErrorCode = api.StatusCancelling, ""
	c.Message = fmt.Sprintf("asked to stop; it has up to %s to save its work", e.cfg.GracePeriod)
	run, again, err = e.storeCancel(ctx, run, c, by)
	if again || err != nil {
		return Run{}, again, err
	}
	if err := e.stop(ctx, id); err != nil { // the next sweep does it
		e.cfg.Log.WarnContext(ctx, "job of a cancelled run not deleted yet", "run_id", id, "error", err)
	}
	return run, false, nil
}

// cancelQueued cancels a run that has no Job. One that has a slot may have a Job,
// or get it any moment: launching it, as somebody has begun to, shows.
func (e *Engine) cancelQueued(ctx context.Context, run Run, by string) (_ Run, again bool, err error) {
	if !run.ClaimedAt.IsZero() {
		err := e.launchOne(ctx, run)
		if !errors.Is(err, ErrWait) && !errors.Is(err, ErrRefused) {
			return Run{}, err == nil || errors.Is(err, ErrGiveUp), err
		}
		if run, err = e.cfg.Store.Get(ctx, run.ID); err != nil {
			return Run{}, false, err
		}
		if run.Status != api.StatusQueued {
			return Run{}, true, nil
		}
	}
	c := run.changing()
	c.Status, c.ErrorCode, c.Message = api.StatusCancelled, "", "cancelled before it was launched"
	run, again, err = e.storeCancel(ctx, run, c, by)
	if again || err != nil {
		return Run{}, again, err
	}
	look, stop := context.WithTimeout(ctx, lookTimeout)
	defer stop()
	if err := e.clean(look, run); err != nil { // the next sweep does it
		e.cfg.Log.WarnContext(ctx, "credential of a cancelled run not deleted yet", "run_id", run.ID, "error", err)
	}
	return run, false, nil
}

// storeCancel stores that somebody asked for a run's end.
func (e *Engine) storeCancel(ctx context.Context, run Run, c Change, by string) (_ Run, again bool, err error) {
	next, _, err := run.with(c, e.now())
	if err != nil {
		return Run{}, false, err
	}
	next.CancelRequestedAt, next.CancelledBy = e.now(), by
	next, err = e.update(ctx, run, next, by)
	if errors.Is(err, ErrConflict) {
		return Run{}, true, nil
	}
	return next, false, err
}

// kill ends the pod of a run that has had its time.
func (e *Engine) kill(ctx context.Context, run Run, by string) (_ Run, again bool, err error) {
	seen, err := e.cfg.Cluster.Inspect(ctx, run.ID)
	if err != nil {
		return Run{}, false, err
	}
	told := run.CancelRequestedAt
	if seen.Job != nil {
		if seen.Job.DeletionTimestamp.IsZero() { // Kubernetes did not answer when it was cancelled
			if err := e.stop(ctx, run.ID); err != nil {
				return Run{}, false, err
			}
			told = e.now()
		} else if at := seen.Job.DeletionTimestamp.UTC(); at.After(told) {
			told = at
		}
	}
	if at := told.Add(e.cfg.GracePeriod); e.now().Before(at) {
		return Run{}, false, &TooEarlyError{ID: run.ID, NotBefore: at}
	}
	if err := e.cfg.Cluster.DeletePod(ctx, run.ID); err != nil {
		return Run{}, false, err
	}
	c := run.changing()
	c.Message = "killed on request; what it did since its state was last saved may be lost"
	next, changed, err := run.with(c, e.now())
	if err != nil || !changed {
		return run, false, err
	}
	next, err = e.update(ctx, run, next, by)
	if errors.Is(err, ErrConflict) {
		return Run{}, true, nil
	}
	return next, false, err
}

// stop deletes a run's Job. Its pod's object goes with its end, and with it the
// log, which is followed from now on; a node that gives no log does not keep the
// Job from being deleted.
func (e *Engine) stop(ctx context.Context, id ID) error {
	ctx = context.WithoutCancel(ctx) // the row says that it stops, so the caller's leaving changes nothing
	open, opened := context.WithTimeout(ctx, captureOpen)
	e.capture(open, id)
	opened()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return e.cfg.Cluster.DeleteJob(ctx, id)
}

// lookTimeout bounds the look at Kubernetes that a caller waits for.
const lookTimeout = 5 * time.Second
