package runs_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runs/runstest"
)

// TestCrashAtEveryStep lets the process die before and after each of its side
// effects, from the credential Secret to the clean-up, and another one take over:
// there is one Job, the run gets its right end, and no credential stays.
func TestCrashAtEveryStep(t *testing.T) {
	t.Parallel()
	type ending struct {
		name string
		// tick is what Kubernetes and the runner do between two sweeps.
		tick func(*testing.T, *world, runs.ID)
		want api.Status
		log  string
	}
	endings := []ending{
		{name: "success", want: api.StatusSucceeded, log: "the log\n", tick: func(t *testing.T, w *world, id runs.ID) {
			t.Helper()
			work(t, w, id, func() { w.cluster.Finish(id, 0, succeeded) })
		}},
		{name: "failure", want: api.StatusFailed, log: "the log\n", tick: func(t *testing.T, w *world, id runs.ID) {
			t.Helper()
			work(t, w, id, func() { w.cluster.Finish(id, 74, failed) })
		}},
		{name: "a Job that is deleted", want: api.StatusFailed, tick: func(t *testing.T, w *world, id runs.ID) { t.Helper(); work(t, w, id, func() { w.cluster.Vanish(id) }) }},
		{name: "a pod that never starts", want: api.StatusFailed, tick: func(*testing.T, *world, runs.ID) {}},
	}
	const steps = 40
	for _, end := range endings {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			died := 0
			for step := 1; step < steps; step++ {
				for _, after := range []bool{false, true} {
					w := newWorld(runstest.NewStore())
					m := &mortal{left: step, after: after}
					e := w.engine(t, func(c *runs.Config) { c.Store, c.Cluster = mortalStore{w.store, m}, mortalCluster{w.cluster, m} })
					_, _, startErr := e.Start(t.Context(), request("acme"))
					where := fmt.Sprintf("died at side effect %d (done %t)", step, after)

					var id runs.ID
					for range 14 {
						if m.dead {
							e = w.engine(t)
						}
						e.Sweep(t.Context())
						for _, run := range all(t, w) {
							id = run.ID
							end.tick(t, w, id)
							if n := w.cluster.JobsCreated(id); n > 1 {
								t.Fatalf("%s: %d Jobs", where, n)
							}
						}
						w.pass(2 * time.Minute)
					}
					if m.dead {
						died++
					}
					if list, err := w.cluster.Credentials(t.Context()); err != nil || len(list) != 0 {
						t.Errorf("%s: credentials %v stay (%v)", where, list, err)
					}
					if id == "" {
						if startErr == nil {
							t.Errorf("%s: an accepted run is lost", where)
						}
						continue
					}
					run := w.get(t, id)
					if run.Status != end.want || !run.Cleaned || w.cluster.JobsCreated(id) != 1 {
						t.Errorf("%s: ended %s (%s), cleaned %t, %d Jobs", where, run.Status, run.Message, run.Cleaned, w.cluster.JobsCreated(id))
					}
					saved, err := w.engine(t).Logs(t.Context(), id, runs.LogOptions{})
					if end.log == "" {
						if !errors.Is(err, runs.ErrNoLogs) {
							t.Errorf("%s: log of a pod that was not there: %v", where, err)
						}
						continue
					}
					if got := readAll(t, saved, err); got != end.log {
						t.Errorf("%s: log %q", where, got)
					}
				}
			}
			if died < 14 || died > 2*(steps-3) {
				t.Errorf("%d deaths: the steps do not cover the life of a run", died)
			}
		})
	}
}

// work moves a run's pod on by one step: it starts, then it ends.
func work(t *testing.T, w *world, id runs.ID, finish func()) {
	t.Helper()
	job := w.cluster.Job(id)
	if job == nil || len(job.Status.Conditions) > 0 {
		return
	}
	w.cluster.SetLog(id, "the log\n")
	if seen, err := w.cluster.Observe(t.Context(), id); err == nil && seen.Begun() {
		finish()
		return
	}
	w.cluster.Start(id)
}

func all(t *testing.T, w *world) []runs.Run {
	t.Helper()
	list, err := w.store.List(t.Context(), runs.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestCrashDuringACancel lets the process die before and after each side effect of
// a cancel. Either nobody was asked, and the run goes on, or it is cancelled.
func TestCrashDuringACancel(t *testing.T) {
	t.Parallel()
	for _, queued := range []bool{true, false} {
		asked, not := 0, 0
		for step := 1; step < 6; step++ {
			for _, after := range []bool{false, true} {
				where := fmt.Sprintf("queued %t, died at side effect %d (done %t)", queued, step, after)
				w := newWorld(runstest.NewStore())
				healthy := w.engine(t)
				run := begin(t, healthy, "acme")
				if !queued {
					healthy.Sweep(t.Context())
					work(t, w, run.ID, nil)
				}
				m := &mortal{left: step, after: after}
				dying := w.engine(t, func(c *runs.Config) { c.Store, c.Cluster = mortalStore{w.store, m}, mortalCluster{w.cluster, m} })
				_, err := dying.Cancel(t.Context(), run.ID, false, "alice")

				wasAsked := !w.get(t, run.ID).CancelRequestedAt.IsZero()
				if err == nil && !wasAsked {
					t.Errorf("%s: an accepted cancel is lost", where)
				}
				for range 6 {
					healthy.Sweep(t.Context())
					if job := w.cluster.Job(run.ID); job != nil {
						work(t, w, run.ID, func() {
							if job.DeletionTimestamp != nil {
								w.cluster.Finish(run.ID, 77, interrupted)
								return
							}
							w.cluster.Finish(run.ID, 0, succeeded)
						})
					}
				}
				want := api.StatusSucceeded
				if wasAsked {
					want = api.StatusCancelled
					asked++
				} else {
					not++
				}
				if got := w.get(t, run.ID); got.Status != want || !got.Cleaned || w.cluster.Credential(run.ID) != nil {
					t.Errorf("%s: got %+v, want %s", where, got, want)
				}
			}
		}
		if asked == 0 || not == 0 {
			t.Errorf("queued %t: the steps do not cover a cancel: %d, %d", queued, asked, not)
		}
	}
}
