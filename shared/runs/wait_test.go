package runs_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runs/runstest"
)

// waited is what a caller of Wait gets, and how long it took.
type waited struct {
	run  runs.Run
	err  error
	took time.Duration
}

func wait(ctx context.Context, e *runs.Engine, run runs.Run, most time.Duration) chan waited {
	got := make(chan waited, 1)
	go func() {
		begin := time.Now()
		now, err := e.Wait(ctx, run.ID, run.Version, most)
		got <- waited{now, err, time.Since(begin)}
	}()
	return got
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(runstest.NewStore())
		e := w.engine(t, func(c *runs.Config) { c.MaxConcurrent = 1 })
		run := begin(t, e, "acme")

		if got := <-wait(t.Context(), e, runs.Run{ID: run.ID}, time.Minute); got.err != nil || got.took != 0 || got.run.Version != 1 {
			t.Errorf("what is newer already: %+v", got)
		}
		if got := <-wait(t.Context(), e, run, 30*time.Second); got.err != nil || got.took != 30*time.Second || got.run.Version != run.Version {
			t.Errorf("nothing happens: %+v", got)
		}
		changed := wait(t.Context(), e, run, time.Minute)
		synctest.Wait()
		e.Sweep(t.Context())
		if got := <-changed; got.err != nil || got.took != 0 || got.run.Version <= run.Version {
			t.Errorf("a change: %+v", got)
		}
		run = w.expect(t, run.ID, api.StatusRunning)

		next, last := begin(t, e, "second"), begin(t, e, "third")
		moved := wait(t.Context(), e, last, time.Minute)
		elsewhere := wait(t.Context(), e, run, time.Minute)
		synctest.Wait()
		w.cluster.Start(run.ID)
		cancel(t, e, next.ID)
		if got := <-moved; got.err != nil || got.run.QueuePosition != 1 || got.took > 2*time.Second {
			t.Errorf("a new place in the queue: %+v", got)
		}
		other := w.engine(t)
		w.cluster.Finish(run.ID, 0, succeeded)
		other.Sweep(t.Context())
		if got := <-elsewhere; got.err != nil || got.took > 4*time.Second || got.run.Status != api.StatusSucceeded {
			t.Errorf("another replica's change: %+v", got)
		}
		if got := <-wait(t.Context(), e, w.get(t, run.ID), time.Minute); got.err != nil || got.took != 0 {
			t.Errorf("an ended run: %+v", got)
		}
		if got := <-wait(t.Context(), e, runs.Run{ID: "nobody"}, time.Minute); !errors.Is(got.err, runs.ErrNotFound) {
			t.Errorf("no run: %+v", got)
		}
		ctx, leave := context.WithCancel(t.Context())
		left := wait(ctx, e, w.get(t, last.ID), time.Minute)
		synctest.Wait()
		leave()
		if got := <-left; !errors.Is(got.err, context.Canceled) {
			t.Errorf("one that leaves: %+v", got)
		}
	})
}

func TestWaitersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(runstest.NewStore())
		e := w.engine(t, func(c *runs.Config) { c.MaxWaiters = 2 })
		run := begin(t, e, "acme")
		first, second := wait(t.Context(), e, run, time.Minute), wait(t.Context(), e, run, time.Minute)
		synctest.Wait()
		if got := <-wait(t.Context(), e, run, time.Minute); !errors.Is(got.err, runs.ErrTooManyWaiters) {
			t.Errorf("the third: %+v", got)
		}
		<-first
		<-second
		if got := <-wait(t.Context(), e, run, time.Second); got.err != nil {
			t.Errorf("after the others: %+v", got)
		}
	})
}

func TestWaitersLeaveWithTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(runstest.NewStore())
		err := runs.ErrWait
		e := w.engine(t, func(c *runs.Config) { c.Cluster = fails{w.cluster, err} })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		run := begin(t, e, "acme")
		synctest.Wait()
		got := wait(t.Context(), e, w.get(t, run.ID), time.Minute)
		synctest.Wait()
		stop()
		if got := <-got; got.err != nil || got.took != 0 || got.run.ID != run.ID {
			t.Errorf("got %+v", got)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
