package runs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runs/runstest"
)

func TestQueueIsFirstInFirstOut(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t)
	var ids []runs.ID
	for i := range 6 {
		ids = append(ids, begin(t, e, fmt.Sprint("env", i)).ID)
	}
	check := func(want ...api.Status) {
		t.Helper()
		e.Sweep(t.Context())
		var got []api.Status
		for _, id := range ids {
			got = append(got, w.get(t, id).Status)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("statuses (-want +got):\n%s", diff)
		}
	}
	const q, r, s = api.StatusQueued, api.StatusRunning, api.StatusSucceeded
	check(r, r, r, q, q, q)
	if got := w.get(t, ids[4]).QueuePosition; got != 2 {
		t.Errorf("position %d, want 2", got)
	}
	check(r, r, r, q, q, q)
	w.cluster.Start(ids[1])
	w.cluster.Finish(ids[1], 0, succeeded)
	check(r, s, r, q, q, q) // the slot is free now
	check(r, s, r, r, q, q)
}

// refusing makes EnsureJob fail while err is set.
type refusing struct {
	runs.Cluster
	mu  *sync.Mutex
	err *error
}

func (c refusing) EnsureJob(ctx context.Context, run runs.Run, job *batchv1.Job) (*batchv1.Job, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *c.err != nil {
		return nil, *c.err
	}
	return c.Cluster.EnsureJob(ctx, run, job)
}

// slow is a replica that is overtaken before it makes the Job an owner.
type slow struct {
	runs.Cluster
	meanwhile func()
}

func (c slow) Own(ctx context.Context, run runs.Run, job *batchv1.Job) error {
	c.meanwhile()
	return c.Cluster.Own(ctx, run, job)
}

// TestAnotherReplicasRunKeepsItsJob lets a second replica launch a run and see it
// end while the first one is still launching it.
func TestAnotherReplicasRunKeepsItsJob(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	var id runs.ID
	overtaken := false
	other := w.engine(t)
	e := w.engine(t, func(c *runs.Config) {
		c.Cluster = slow{w.cluster, func() {
			overtaken = true
			other.Sweep(t.Context())
			w.cluster.Start(id)
			w.cluster.Finish(id, 0, succeeded)
			other.Sweep(t.Context())
		}}
	})
	id = begin(t, e, "acme").ID
	e.Sweep(t.Context())
	w.expect(t, id, api.StatusSucceeded)
	if job := w.cluster.Job(id); !overtaken || job == nil || job.DeletionTimestamp != nil {
		t.Errorf("overtaken %t; the Job of the run, and with it its log, was deleted: %v", overtaken, job)
	}
}

// hung is an API server that takes requests and never answers.
type hung struct{ runs.Cluster }

func (hung) Observe(ctx context.Context, _ runs.ID) (runs.Observation, error) {
	<-ctx.Done()
	return runs.Observation{}, fmt.Errorf("%w: %w", runs.ErrKubernetes, ctx.Err())
}

func (hung) EnsureConfigMap(ctx context.Context, _ runs.Run, _ map[string]string) error {
	<-ctx.Done()
	return fmt.Errorf("%w: %w", runs.ErrKubernetes, ctx.Err())
}

func TestAnAPIServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(runstest.NewStore())
		live := begin(t, w.engine(t), "live")
		w.engine(t).Sweep(t.Context())
		e := w.engine(t, func(c *runs.Config) { c.Cluster = hung{w.cluster} })
		start := time.Now()
		if run, err := e.Get(t.Context(), live.ID); err != nil || run.Status != api.StatusRunning {
			t.Errorf("got %+v, %v, want the row", run, err)
		}
		if waited := time.Since(start); waited > 10*time.Second {
			t.Errorf("a reader waited %s", waited)
		}
		queued := begin(t, e, "queued")
		start = time.Now()
		e.Sweep(t.Context())
		if waited := time.Since(start); waited > 2*time.Minute {
			t.Errorf("a sweep took %s", waited)
		}
		w.expect(t, queued.ID, api.StatusQueued)
	})
}

func TestRefusedLaunches(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		err     error
		soon    api.Status // after the first sweep
		late    api.Status // after the start deadline
		code    runcontract.ErrorCode
		message string
	}{
		{name: "a quota keeps it queued", err: fmt.Errorf("%w: exceeded quota: jobs", runs.ErrWait), soon: api.StatusQueued, late: api.StatusQueued, message: "exceeded quota: jobs"},
		{name: "a policy fails it at the start deadline", err: fmt.Errorf("%w: denied by policy", runs.ErrRefused), soon: api.StatusQueued, late: api.StatusFailed, code: runs.CodeLaunch, message: "denied by policy"},
		{name: "what cannot work fails it at once", err: fmt.Errorf("%w: spec is invalid", runs.ErrGiveUp), soon: api.StatusFailed, late: api.StatusFailed, code: runs.CodeLaunch, message: "spec is invalid"},
		{name: "an API server that is down is waited for", err: fmt.Errorf("%w: %w", runs.ErrKubernetes, errDown), soon: api.StatusQueued, late: api.StatusQueued, message: "waiting for a free slot"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(runstest.NewStore())
			refuse := refusing{w.cluster, &sync.Mutex{}, &test.err}
			e := w.engine(t, func(c *runs.Config) { c.Cluster = refuse })
			run := begin(t, e, "acme")
			for at, want := range []api.Status{test.soon, test.soon, test.late} {
				e.Sweep(t.Context())
				got := w.expect(t, run.ID, want)
				if !strings.Contains(got.Message, test.message) {
					t.Errorf("message %q has no %q", got.Message, test.message)
				}
				if runs.Final(want) && got.ErrorCode != string(test.code) {
					t.Errorf("code %q, want %q", got.ErrorCode, test.code)
				}
				if at == 1 {
					w.pass(11 * time.Minute)
				}
			}
			if runs.Final(test.late) {
				begin(t, e, "acme")
				return
			}
			refuse.mu.Lock()
			test.err = nil
			refuse.mu.Unlock()
			e.Sweep(t.Context())
			if got := w.expect(t, run.ID, api.StatusRunning); got.ErrorCode != "" {
				t.Errorf("a launched run has code %q", got.ErrorCode)
			}
		})
	}
}

func TestQuotaStopsTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	err := fmt.Errorf("%w: quota", runs.ErrWait)
	e := w.engine(t, func(c *runs.Config) { c.Cluster = refusing{w.cluster, &sync.Mutex{}, &err} })
	begin(t, e, "first")
	second := begin(t, e, "second")
	e.Sweep(t.Context())
	if w.cluster.Files(second.ID) != nil {
		t.Error("the second run overtook the first")
	}
}

func TestRenderErrorFailsTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t, func(c *runs.Config) {
		c.Render = func(run runs.Run) (runs.Launch, error) {
			if run.Environment == "empty" {
				return runs.Launch{}, nil
			}
			return runs.Launch{}, errors.New("no such region")
		}
	})
	bad, empty := begin(t, e, "acme"), begin(t, e, "empty")
	e.Sweep(t.Context())
	if got := w.expect(t, bad.ID, api.StatusFailed); got.ErrorCode != string(runs.CodeLaunch) || !strings.Contains(got.Message, "no such region") || !got.Cleaned {
		t.Errorf("got %+v", got)
	}
	w.expect(t, empty.ID, api.StatusFailed)
	if w.cluster.Credential(bad.ID) != nil {
		t.Error("the credential stays")
	}
}

// ending ends a run, and has it cleaned, just before its row would become running.
type ending struct {
	runs.Store
	t *testing.T
}

func (s ending) Update(ctx context.Context, run runs.Run, event *api.Event) (runs.Run, error) {
	if run.Status == api.StatusRunning {
		other := run
		other.Status, other.StartedAt, other.FinishedAt = api.StatusCancelled, time.Time{}, run.UpdatedAt // it was queued
		other.CancelRequestedAt = run.UpdatedAt
		if _, err := s.Store.Update(ctx, other, nil); err != nil {
			s.t.Error(err)
		}
		if err := s.MarkCleaned(ctx, run.ID); err != nil { // so that no clean-up comes to help
			s.t.Error(err)
		}
	}
	return s.Store.Update(ctx, run, event)
}

func TestALaunchThatComesTooLateIsWithdrawn(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t, func(c *runs.Config) { c.Store = ending{w.store, t} })
	run := begin(t, e, "acme")
	e.Sweep(t.Context())
	w.expect(t, run.ID, api.StatusCancelled)
	if w.cluster.Job(run.ID) != nil {
		t.Error("a cancelled run has a Job")
	}
}

func TestAJobOfAnEndedRunIsStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t)
	run := begin(t, e, "acme")
	launch, _ := render(run)
	if _, err := w.cluster.EnsureJob(t.Context(), run, launch.Job); err != nil { // a launch that crashed
		t.Fatal(err)
	}
	w.cluster.Start(run.ID)
	cancelled := w.get(t, run.ID)
	cancelled.Status, cancelled.FinishedAt, cancelled.CancelRequestedAt = api.StatusCancelled, w.clock(), w.clock()
	if _, err := w.store.Update(t.Context(), cancelled, nil); err != nil {
		t.Fatal(err)
	}
	e.Sweep(t.Context())
	if job := w.cluster.Job(run.ID); job == nil || job.DeletionTimestamp.IsZero() {
		t.Error("the Job was not deleted")
	}
	if got := w.get(t, run.ID); got.Cleaned {
		t.Error("cleaned while its pod runs")
	}
	w.cluster.Finish(run.ID, 77, nil)
	e.Sweep(t.Context())
	if got := w.get(t, run.ID); !got.Cleaned || got.Status != api.StatusCancelled {
		t.Errorf("got %+v", got)
	}
}
