package runs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kubeopera/platform/shared/api"
)

const (
	// sweepers bounds how many runs one sweep looks at side by side.
	sweepers = 4
	// runTimeout bounds what a sweep spends on one run, so that a node which
	// does not answer delays no other run for long.
	runTimeout = 30 * time.Second
	// cleanBatch bounds how many ended runs one sweep cleans up after.
	cleanBatch = 100
	// orphanInterval is how often credential Secrets without a row are looked for.
	orphanInterval = time.Minute
)

// Run is the engine's loop: it launches queued runs, follows live ones, cleans up
// after ended ones and deletes orphaned credentials, every SweepInterval and,
// except for the following, whenever a run is queued or has ended. It returns nil
// when ctx ends, and nobody waits for a run any more then.
func (e *Engine) Run(ctx context.Context) error {
	defer e.captures.close()
	defer e.waiters.dismiss()
	e.sweep(ctx)
	timer := time.NewTimer(e.interval())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.wake:
			e.sweepQueue(ctx)
			e.cleanEnded(ctx)
		case <-timer.C:
			e.sweep(ctx)
			timer.Reset(e.interval())
		}
	}
}

// interval is the time to the next sweep, with a fifth of jitter, so that
// replicas do not go in step.
func (e *Engine) interval() time.Duration {
	return time.Duration(float64(e.cfg.SweepInterval) * (0.8 + 0.4*rand.Float64())) //nolint:gosec // jitter needs no secrecy
}

// sweep does all there is to do, once.
func (e *Engine) sweep(ctx context.Context) {
	unfinished, err := e.cfg.Store.Unfinished(ctx)
	if err != nil {
		e.complain(ctx, "", "sweep without a look at the runs", err)
		return
	}
	e.launchQueued(ctx, unfinished)
	e.syncLive(ctx, unfinished)
	e.cleanEnded(ctx)
	if e.orphansDue() {
		if err := e.sweepOrphans(ctx); err != nil {
			e.complain(ctx, "", "orphaned credentials not swept", err)
		}
	}
}

// sweepQueue only launches.
func (e *Engine) sweepQueue(ctx context.Context) {
	unfinished, err := e.cfg.Store.Unfinished(ctx)
	if err != nil {
		e.complain(ctx, "", "queue not read", err)
		return
	}
	e.launchQueued(ctx, unfinished)
}

// syncLive follows the runs that have a Job, with one read of their outputs.
func (e *Engine) syncLive(ctx context.Context, unfinished []Run) {
	var live []Run
	var ids []ID
	for _, run := range unfinished {
		if run.Status != api.StatusQueued {
			live, ids = append(live, run), append(ids, run.ID)
		}
	}
	if len(live) == 0 {
		return
	}
	look, cancel := context.WithTimeout(ctx, runTimeout)
	outputs, err := e.cfg.Cluster.Outputs(look, ids)
	cancel()
	if err != nil {
		e.complain(ctx, "", "outputs of live runs not read", err)
	}
	e.each(ctx, live, "run not synced", func(ctx context.Context, run Run) error {
		var published *Outputs
		if o, ok := outputs[run.ID]; ok {
			published = &o
		}
		_, err := e.sync(ctx, run, published, true)
		return err
	})
}

// sync makes of a live run what is seen of it. A cached look is enough to move it
// on; what ends it, or gives it up, takes a fresh one. So does, if thorough, a
// run that has not begun: only events say why.
func (e *Engine) sync(ctx context.Context, run Run, published *Outputs, thorough bool) (Run, error) {
	seen, err := e.cfg.Cluster.Observe(ctx, run.ID)
	if err != nil {
		return run, err
	}
	seen.Outputs = published
	c := Next(run, seen, e.now(), e.cfg.StartDeadline)
	if Final(c.Status) || c.DeleteJob || thorough && !seen.Begun() {
		if seen, err = e.cfg.Cluster.Inspect(ctx, run.ID); err != nil {
			return run, err
		}
		c = Next(run, seen, e.now(), e.cfg.StartDeadline)
	}
	next, err := e.store(ctx, run, c)
	if errors.Is(err, ErrConflict) { // somebody else was first and knows as much
		return e.cfg.Store.Get(ctx, run.ID)
	}
	if err != nil {
		return run, err
	}
	switch {
	case c.DeleteJob: // after the row says why
		return next, e.stop(ctx, run.ID)
	case !Final(next.Status) && seen.leaving():
		e.capture(ctx, run.ID)
	}
	return next, nil
}

// cleanEnded cleans up after runs that have ended.
func (e *Engine) cleanEnded(ctx context.Context) {
	ended, err := e.cfg.Store.Uncleaned(ctx, cleanBatch)
	if err != nil {
		e.complain(ctx, "", "ended runs not read", err)
		return
	}
	e.each(ctx, ended, "run not cleaned up yet", e.clean)
}

// clean keeps an ended run's log and deletes its credential, and after a destroy
// what was published of the environment. The credential does not wait for the log.
func (e *Engine) clean(ctx context.Context, run Run) error {
	seen, err := e.cfg.Cluster.Inspect(ctx, run.ID)
	if err != nil {
		return err
	}
	if !seen.ended() {
		// A Job that came to be after its run had ended: a launch that crashed.
		if seen.deleted() {
			return nil
		}
		return e.cfg.Cluster.DeleteJob(ctx, run.ID)
	}
	if err := e.cfg.Cluster.DeleteCredential(ctx, run.ID); err != nil {
		return err
	}
	if err := e.archive(ctx, run); err != nil {
		return fmt.Errorf("archive log: %w", err)
	}
	if destroyed(run) {
		if err := e.dropOutputs(ctx, run); err != nil {
			return fmt.Errorf("delete the outputs of what was destroyed: %w", err)
		}
	}
	return e.cfg.Store.MarkCleaned(ctx, run.ID)
}

// destroyed says that a run has taken down its environment.
func destroyed(run Run) bool {
	return run.Operation == api.OperationDestroy && run.Status == api.StatusSucceeded
}

// dropOutputs deletes what the runs before a destroy have published: kubeconfigs
// of what is no more, which may hold a cloud credential that still is. What came
// before an earlier destroy went with that one.
func (e *Engine) dropOutputs(ctx context.Context, destroy Run) error {
	filter := Filter{Environment: destroy.Environment, Before: destroy.ID, Limit: cleanBatch}
	for {
		list, err := e.cfg.Store.List(ctx, filter)
		if err != nil {
			return err
		}
		for _, run := range list {
			if destroyed(run) {
				return nil
			}
			if err := e.cfg.Cluster.DeleteOutputs(ctx, run.ID); err != nil {
				return err
			}
		}
		if len(list) < filter.Limit {
			return nil
		}
		filter.Before = list[len(list)-1].ID
	}
}

// orphansDue says whether it is time to look for orphans, and notes that it was.
func (e *Engine) orphansDue() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := e.now(); now.Sub(e.orphansSeen) >= min(orphanInterval, e.cfg.OrphanAge) {
		e.orphansSeen = now
		return true
	}
	return false
}

// sweepOrphans deletes credential Secrets that are old and have no row: a start
// that ended between the two.
func (e *Engine) sweepOrphans(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	secrets, err := e.cfg.Cluster.Credentials(ctx)
	if err != nil {
		return err
	}
	var old []ID
	for _, s := range secrets {
		if e.now().Sub(s.CreatedAt) > e.cfg.OrphanAge {
			old = append(old, s.Run)
		}
	}
	if len(old) == 0 {
		return nil
	}
	known, err := e.cfg.Store.Known(ctx, old)
	if err != nil {
		return err
	}
	for _, id := range old {
		if known[id] {
			continue
		}
		if err := e.cfg.Cluster.DeleteCredential(ctx, id); err != nil {
			return err
		}
		e.cfg.Log.InfoContext(ctx, "orphaned credential deleted", "run_id", id)
	}
	return nil
}

// each does something with each run, a few at a time, and logs what fails; the
// next sweep tries again.
func (e *Engine) each(ctx context.Context, list []Run, complaint string, do func(context.Context, Run) error) {
	var group errgroup.Group
	group.SetLimit(sweepers)
	for _, run := range list {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, runTimeout)
			defer cancel()
			if err := do(ctx, run); err != nil {
				e.complain(ctx, run.ID, complaint, err)
			}
			return nil
		})
	}
	_ = group.Wait() // no function gives an error
}

// complain logs what a sweep could not do, unless it was told to stop.
func (e *Engine) complain(ctx context.Context, id ID, what string, err error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	log := e.cfg.Log
	if id != "" {
		log = log.With("run_id", id)
	}
	log.WarnContext(ctx, "sweep incomplete", "what", what, "error", err)
}
