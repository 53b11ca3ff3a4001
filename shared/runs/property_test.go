package runs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runs/runstest"
)

// uncountedLogs lets a process store logs without that being one of the side
// effects at which it may die: some are stored in the background, at any time.
type uncountedLogs struct{ mortalStore }

func (s uncountedLogs) SaveLog(ctx context.Context, id runs.ID, log runs.ArchivedLog) error {
	return s.Store.SaveLog(ctx, id, log)
}

// drama is several replicas, their callers and Kubernetes, all doing anything at
// any time.
type drama struct {
	t        *testing.T
	rt       *rapid.T
	w        *world
	replicas []*replica
	seen     map[runs.ID]runs.Run // the rows as they were
	accepted map[runs.ID]bool
}

type replica struct {
	*runs.Engine
	life *mortal
}

const (
	dramaSlots = 2
	immortal   = 1 << 30
)

func (d *drama) replica() *replica {
	life := &mortal{left: immortal}
	return &replica{life: life, Engine: d.w.engine(d.t, func(c *runs.Config) {
		c.Store, c.Cluster = uncountedLogs{mortalStore{d.w.store, life}}, mortalCluster{d.w.cluster, life}
		c.MaxConcurrent, c.GracePeriod, c.Log = dramaSlots, 5*time.Minute, nil
	})}
}

// anyone is a replica that lives; one that has died is replaced.
func (d *drama) anyone() *replica {
	i := rapid.IntRange(0, len(d.replicas)-1).Draw(d.rt, "replica")
	if d.replicas[i].life.dead {
		d.replicas[i] = d.replica()
	}
	return d.replicas[i]
}

// anyRun is a run, if there is one.
func (d *drama) anyRun() (runs.Run, bool) {
	list := all(d.t, d.w)
	if len(list) == 0 {
		return runs.Run{}, false
	}
	return rapid.SampledFrom(list).Draw(d.rt, "run"), true
}

func (d *drama) allow(err error, allowed ...error) {
	if err != nil && !slices.ContainsFunc(append(allowed, errDown, runs.ErrConflict), func(a error) bool { return errors.Is(err, a) }) {
		d.rt.Fatalf("unexpected error: %v", err)
	}
}

func (d *drama) actions() map[string]func(*rapid.T) {
	sweep := func(*rapid.T) { d.anyone().Sweep(d.t.Context()) }
	return map[string]func(*rapid.T){
		"sweep": sweep, "sweep too": sweep,
		"start": func(rt *rapid.T) {
			env := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "environment")
			key := rapid.SampledFrom([]string{"", "k1", "k2"}).Draw(rt, "key")
			run, replayed, err := d.anyone().Start(d.t.Context(), keyed(env, "me", key, env))
			d.allow(err, runs.ErrKeyReused)
			if err == nil {
				if replayed && !d.accepted[run.ID] && d.seen[run.ID].ID == "" {
					rt.Fatalf("a replay of a run that nobody knows")
				}
				d.accepted[run.ID] = true
			}
		},
		"cancel": func(rt *rapid.T) {
			if run, ok := d.anyRun(); ok {
				_, err := d.anyone().Cancel(d.t.Context(), run.ID, rapid.Bool().Draw(rt, "force"), "bob")
				d.allow(err)
			}
		},
		"look": func(*rapid.T) {
			if run, ok := d.anyRun(); ok {
				_, err := d.anyone().Get(d.t.Context(), run.ID)
				d.allow(err)
			}
		},
		"a process is about to die": func(rt *rapid.T) {
			r := d.anyone()
			r.life.left, r.life.after = rapid.IntRange(1, 8).Draw(rt, "side effects"), rapid.Bool().Draw(rt, "after")
		},
		"time passes": func(rt *rapid.T) {
			d.w.pass(time.Duration(rapid.IntRange(1, 400).Draw(rt, "seconds")) * time.Second)
		},
		"a pod starts": func(*rapid.T) {
			if run, ok := d.anyRun(); ok {
				d.startPod(run.ID)
			}
		},
		"a runner reports": func(rt *rapid.T) {
			if run, ok := d.anyRun(); ok && d.podLives(run.ID) {
				phase := rapid.SampledFrom([]api.Phase{api.PhaseInit, api.PhasePlan, api.PhaseApply, api.PhasePublishing}).Draw(rt, "phase")
				d.w.cluster.Publish(run.ID, runcontract.KeyProgress, runcontract.Progress{Phase: phase, Done: 1, Total: 3, Message: "at it", UpdatedAt: d.w.clock()})
			}
		},
		"a pod ends": func(rt *rapid.T) {
			if run, ok := d.anyRun(); ok && d.podLives(run.ID) {
				end := rapid.SampledFrom([]*runcontract.Result{succeeded, failed, interrupted, nil}).Draw(rt, "result")
				code := rapid.SampledFrom([]runcontract.ExitCode{0, 74, 77, 137}).Draw(rt, "exit code")
				d.w.cluster.Finish(run.ID, code, end)
			}
		},
		"somebody deletes a Job": func(rt *rapid.T) {
			// While the row is queued a replica has died between Job and row; that
			// there was a Job shows nowhere then, and the run gets another.
			if run, ok := d.anyRun(); ok && run.Status != api.StatusQueued {
				if err := d.w.cluster.DeleteJob(d.t.Context(), run.ID); err != nil {
					rt.Fatal(err)
				}
			}
		},
		"": func(*rapid.T) { d.check() },
	}
}

// startPod lets the run's pod begin, if it can: without its credential it does not.
func (d *drama) startPod(id runs.ID) {
	seen, err := d.w.cluster.Observe(d.t.Context(), id)
	if err == nil && seen.Job != nil && len(seen.Job.Status.Conditions) == 0 && len(seen.Pods) == 0 && d.w.cluster.Credential(id) != nil {
		d.w.cluster.Start(id)
	}
}

func (d *drama) podLives(id runs.ID) bool {
	seen, err := d.w.cluster.Observe(d.t.Context(), id)
	return err == nil && seen.Job != nil && seen.Begun() && len(seen.Job.Status.Conditions) == 0
}

// check checks what must hold at any time.
func (d *drama) check() {
	atWork, held := 0, map[string]runs.ID{}
	for _, run := range all(d.t, d.w) {
		was, known := d.seen[run.ID]
		complain := func(what string) {
			d.rt.Fatalf("%s\nwas %+v\nis  %+v", what, was, run)
		}
		if n := d.w.cluster.JobsCreated(run.ID); n > 1 {
			complain(fmt.Sprintf("%d Jobs", n))
		}
		if run.Status == api.StatusRunning || run.Status == api.StatusCancelling || run.Status == api.StatusQueued && !run.ClaimedAt.IsZero() {
			atWork++
		}
		if run.Status == api.StatusQueued && run.ClaimedAt.IsZero() && d.w.cluster.Job(run.ID) != nil {
			complain("a Job without a slot")
		}
		if runs.Final(run.Status) && d.podLives(run.ID) {
			complain("ended, and yet at work")
		}
		if !runs.Final(run.Status) {
			if other, taken := held[run.Environment]; taken {
				complain("its environment is held by " + string(other))
			}
			held[run.Environment] = run.ID
		}
		if run.Status == api.StatusCancelled && run.CancelRequestedAt.IsZero() || run.Status == api.StatusFailed && (run.ErrorCode == "" || run.Message == "") {
			complain("no reason")
		}
		if known && (run.Version < was.Version || runs.Final(was.Status) && (run.Version != was.Version || run.Status != was.Status) || was.Cleaned && !run.Cleaned) {
			complain("went back")
		}
		events, err := d.w.store.Events(d.t.Context(), run.ID)
		if err != nil {
			d.rt.Fatal(err)
		}
		if last := events[len(events)-1]; last.Status != run.Status || last.Phase != run.Phase || last.ErrorCode != run.ErrorCode {
			complain(fmt.Sprintf("its timeline ends with %+v", last))
		}
		d.seen[run.ID] = run
	}
	if atWork > dramaSlots {
		d.rt.Fatalf("%d runs hold %d slots", atWork, dramaSlots)
	}
	for id := range d.accepted {
		if _, ok := d.seen[id]; !ok {
			d.rt.Fatalf("run %s was accepted and is lost", id)
		}
	}
}

// end lets everything come to its end.
func (d *drama) end() {
	last := d.replica()
	for range 20 {
		for _, run := range all(d.t, d.w) {
			d.startPod(run.ID)
			if d.podLives(run.ID) {
				d.w.cluster.Finish(run.ID, 0, succeeded)
			}
		}
		d.w.pass(4 * time.Minute)
		last.Sweep(d.t.Context())
		d.check()
	}
	for _, run := range all(d.t, d.w) {
		if !runs.Final(run.Status) || !run.Cleaned {
			d.rt.Fatalf("never ends: %+v", run)
		}
		if job := d.w.cluster.Job(run.ID); job != nil && len(job.Status.Conditions) == 0 {
			d.rt.Fatalf("its Job stays: %+v", run)
		}
	}
	if list, err := d.w.cluster.Credentials(d.t.Context()); err != nil || len(list) != 0 {
		d.rt.Fatalf("credentials stay: %v, %v", list, err)
	}
}

// TestAnythingAtAnyTime plays random dramas.
func TestAnythingAtAnyTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		d := &drama{t: t, rt: rt, w: newWorld(runstest.NewStore()), seen: map[runs.ID]runs.Run{}, accepted: map[runs.ID]bool{}}
		for range 3 {
			d.replicas = append(d.replicas, d.replica())
		}
		rt.Repeat(d.actions())
		d.end()
	})
}
