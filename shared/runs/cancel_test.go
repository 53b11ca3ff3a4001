package runs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runs/runstest"
)

// interrupted is what a runner reports that was told to stop.
var interrupted = &runcontract.Result{Outcome: runcontract.OutcomeCancelled, ErrorCode: runcontract.CodeInterrupted, Message: "state saved"}

func cancel(t *testing.T, e *runs.Engine, id runs.ID) runs.Run {
	t.Helper()
	run, err := e.Cancel(t.Context(), id, false, "alice")
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func TestCancelQueued(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t)
	run := begin(t, e, "acme")
	got := cancel(t, e, run.ID)
	if got.Status != api.StatusCancelled || got.CancelledBy != "alice" || got.CancelRequestedAt.IsZero() || got.QueuePosition != 0 {
		t.Errorf("got %+v", got)
	}
	if w.cluster.Credential(run.ID) != nil || !w.get(t, run.ID).Cleaned {
		t.Error("the credential stays")
	}
	begin(t, e, "acme") // the environment is free
	e.Sweep(t.Context())
	if w.cluster.JobsCreated(run.ID) != 0 {
		t.Error("a cancelled run was launched")
	}
	_, err := e.Cancel(t.Context(), run.ID, false, "bob")
	if over, ok := errors.AsType[*runs.EndedError](err); !ok || over.Status != api.StatusCancelled || !errors.Is(err, runs.ErrConflict) {
		t.Errorf("again: got %v, want an EndedError", err)
	}
	wantEvents(t, e, run.ID, "queued waiting_for_slot by tests", "cancelled waiting_for_slot by alice")
}

// wantEvents compares a timeline, an event being status, phase, code and caller.
func wantEvents(t *testing.T, e *runs.Engine, id runs.ID, want ...string) {
	t.Helper()
	events, err := e.Events(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, ev := range events {
		text := fmt.Sprintf("%s %s", ev.Status, ev.Phase)
		if ev.ErrorCode != "" {
			text += " " + ev.ErrorCode
		}
		if ev.By != "" {
			text += " by " + ev.By
		}
		got = append(got, text)
		if ev.Message == "" || i > 0 && ev.At.Before(events[i-1].At) {
			t.Errorf("event %+v", ev)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestCancelARunAtWork(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		code   runcontract.ExitCode
		result *runcontract.Result
		want   api.Status
		text   string
	}{
		{"it stops", runcontract.ExitInterrupted, interrupted, api.StatusCancelled, "cancelled: state saved"},
		{"it had finished", 0, succeeded, api.StatusSucceeded, "all done"},
		{"it fails on its own", 74, failed, api.StatusFailed, "no"},
		{"it says nothing", 137, nil, api.StatusCancelled, "left no result"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(runstest.NewStore())
			e := w.engine(t)
			run := begin(t, e, "acme")
			e.Sweep(t.Context())
			w.cluster.Start(run.ID)
			w.cluster.SetLog(run.ID, "begun\n")
			e.Sweep(t.Context())

			got := cancel(t, e, run.ID)
			if got.Status != api.StatusCancelling || !strings.Contains(got.Message, "asked to stop") || got.CancelledBy != "alice" {
				t.Errorf("got %+v", got)
			}
			if job := w.cluster.Job(run.ID); job == nil || job.DeletionTimestamp == nil {
				t.Error("its Job is not being deleted")
			}
			if again := cancel(t, e, run.ID); again.Version != got.Version {
				t.Errorf("a second cancel changed the run: %+v", again)
			}
			e.Sweep(t.Context())
			w.expect(t, run.ID, api.StatusCancelling)
			if w.cluster.Credential(run.ID) == nil {
				t.Error("the credential is gone while the run may need it")
			}
			if _, _, err := e.Start(t.Context(), request("acme")); !errors.Is(err, runs.ErrConflict) {
				t.Errorf("its environment is free: %v", err)
			}

			w.cluster.SetLog(run.ID, "begun\nstopping\n")
			w.cluster.Finish(run.ID, test.code, test.result)
			if job := w.cluster.Job(run.ID); job != nil {
				t.Error("the test's cluster keeps the Job")
			}
			e.Sweep(t.Context())
			run = w.expect(t, run.ID, test.want)
			if !strings.Contains(run.Message, test.text) || !run.Cleaned || w.cluster.Credential(run.ID) != nil {
				t.Errorf("got %+v", run)
			}
			text, err := e.Logs(t.Context(), run.ID, runs.LogOptions{})
			if got := readAll(t, text, err); got != "begun\nstopping\n" {
				t.Errorf("log %q", got)
			}
			begin(t, e, "acme")
		})
	}
}

// deaf does not delete Jobs.
type deaf struct{ runs.Cluster }

func (deaf) DeleteJob(context.Context, runs.ID) error { return runs.ErrKubernetes }

func TestCancelWhileKubernetesIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t)
	run := begin(t, e, "acme")
	e.Sweep(t.Context())
	w.cluster.Start(run.ID)
	cut := w.engine(t, func(c *runs.Config) { c.Cluster = deaf{unreachable{w.cluster}} })
	cancel(t, cut, run.ID)
	if w.cluster.Job(run.ID).DeletionTimestamp != nil {
		t.Fatal("the test's cluster answers")
	}
	e.Sweep(t.Context())
	if w.cluster.Job(run.ID).DeletionTimestamp == nil {
		t.Error("the sweep did not delete the Job")
	}
	w.expect(t, run.ID, api.StatusCancelling)
}

func TestForce(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t, func(c *runs.Config) { c.GracePeriod = 5 * time.Minute })
	run := begin(t, e, "acme")
	e.Sweep(t.Context())
	w.cluster.Start(run.ID)
	e.Sweep(t.Context())
	force := func() (runs.Run, error) { return e.Cancel(t.Context(), run.ID, true, "bob") }

	early := func(err error) *runs.TooEarlyError {
		t.Helper()
		tooEarly, ok := errors.AsType[*runs.TooEarlyError](err)
		if !ok || !errors.Is(err, runs.ErrConflict) {
			t.Fatalf("got %v, want a TooEarlyError", err)
		}
		return tooEarly
	}
	_, err := force()
	if got := early(err); !got.NotBefore.IsZero() {
		t.Errorf("before a graceful cancel: %v", got)
	}
	w.expect(t, run.ID, api.StatusRunning)
	cancel(t, e, run.ID)
	w.pass(4 * time.Minute)
	_, err = force()
	if got := early(err); !got.NotBefore.Equal(w.clock().Add(time.Minute)) {
		t.Errorf("not before %s", got.NotBefore)
	}
	if n := w.cluster.Killed(run.ID); n != 0 {
		t.Errorf("killed %d times", n)
	}
	w.pass(time.Minute)
	got, err := force()
	if err != nil || got.Status != api.StatusCancelling || !strings.Contains(got.Message, "killed") || got.CancelledBy != "alice" {
		t.Errorf("got %+v, %v", got, err)
	}
	if again, err := force(); err != nil || again.Version != got.Version || w.cluster.Killed(run.ID) != 2 {
		t.Errorf("again: got %+v, %v", again, err)
	}
	e.Sweep(t.Context())
	w.cluster.Finish(run.ID, 137, nil)
	e.Sweep(t.Context())
	w.expect(t, run.ID, api.StatusCancelled)
	wantEvents(t, e, run.ID, "queued waiting_for_slot by tests", "running starting", "running preparing_state",
		"cancelling preparing_state by alice", "cancelling preparing_state by bob", "cancelled preparing_state")
	_, err = force()
	if _, ok := errors.AsType[*runs.EndedError](err); !ok {
		t.Errorf("after the end: %v", err)
	}
}

// TestForceCountsFromTheDeletion checks that a pod that was never told to stop,
// since Kubernetes did not answer, is not killed without time to save its work.
func TestForceCountsFromTheDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t, func(c *runs.Config) { c.GracePeriod = 5 * time.Minute })
	run := begin(t, e, "acme")
	e.Sweep(t.Context())
	w.cluster.Start(run.ID)
	cancel(t, w.engine(t, func(c *runs.Config) { c.Cluster = deaf{w.cluster} }), run.ID)
	w.pass(time.Hour)
	for _, wait := range []time.Duration{0, 4 * time.Minute} {
		w.pass(wait)
		if _, err := e.Cancel(t.Context(), run.ID, true, "bob"); !errors.As(err, new(*runs.TooEarlyError)) {
			t.Errorf("after %s: got %v, want a TooEarlyError", wait, err)
		}
	}
	w.pass(time.Minute)
	if _, err := e.Cancel(t.Context(), run.ID, true, "bob"); err != nil || w.cluster.Killed(run.ID) != 1 {
		t.Errorf("got %v, killed %d times", err, w.cluster.Killed(run.ID))
	}
}

// halfway is a replica that dies right after it has made the Job.
type halfway struct{ runs.Cluster }

func (c halfway) EnsureJob(ctx context.Context, run runs.Run, job *batchv1.Job) (*batchv1.Job, error) {
	if _, err := c.Cluster.EnsureJob(ctx, run, job); err != nil {
		return nil, err
	}
	return nil, errDown
}

// TestCancelBesideALaunch cancels a run whose row is queued while its Job exists:
// it must not be called ended before its pod has.
func TestCancelBesideALaunch(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	dying := w.engine(t, func(c *runs.Config) { c.Cluster = halfway{w.cluster} })
	run := begin(t, dying, "acme")
	dying.Sweep(t.Context())
	w.expect(t, run.ID, api.StatusQueued)
	w.cluster.Start(run.ID)

	e := w.engine(t)
	if got := cancel(t, e, run.ID); got.Status != api.StatusCancelling {
		t.Fatalf("got %+v", got)
	}
	w.cluster.Finish(run.ID, 77, interrupted)
	e.Sweep(t.Context())
	w.expect(t, run.ID, api.StatusCancelled)
	if n := w.cluster.JobsCreated(run.ID); n != 1 {
		t.Errorf("%d Jobs", n)
	}
}

func TestCancelARunThatIsRefused(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{runs.ErrWait, runs.ErrRefused} {
		t.Run(cause.Error(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(runstest.NewStore())
			e := w.engine(t, func(c *runs.Config) { c.Cluster = fails{w.cluster, cause} })
			run := begin(t, e, "acme")
			e.Sweep(t.Context())
			w.expect(t, run.ID, api.StatusQueued)
			if got := cancel(t, e, run.ID); got.Status != api.StatusCancelled || got.ErrorCode != "" {
				t.Errorf("got %+v", got)
			}
			if w.cluster.Credential(run.ID) != nil {
				t.Error("the credential stays")
			}
		})
	}
}

// fails makes no Jobs.
type fails struct {
	runs.Cluster
	err error
}

func (c fails) EnsureJob(context.Context, runs.Run, *batchv1.Job) (*batchv1.Job, error) {
	return nil, c.err
}

// TestAVanishingLogIsKept follows logs of pods whose objects go with their end.
func TestAVanishingLogIsKept(t *testing.T) {
	for _, test := range []struct {
		name  string
		leave func(*testing.T, *runs.Engine, *world, runs.ID)
		tail  string // what the runner published
		want  string
	}{
		{"a cancelled run's", func(t *testing.T, e *runs.Engine, _ *world, id runs.ID) { t.Helper(); cancel(t, e, id) }, "the tail\n", "one\ntwo\nthree\n"},
		{"one cancelled by another replica", func(t *testing.T, _ *runs.Engine, w *world, id runs.ID) {
			t.Helper()
			cancel(t, w.engine(t, func(c *runs.Config) { c.Cluster = mute{w.cluster} }), id)
		}, "", "one\ntwo\nthree\n"},
		{"one whose Job is deleted by hand", func(t *testing.T, _ *runs.Engine, w *world, id runs.ID) {
			t.Helper()
			if err := w.cluster.DeleteJob(t.Context(), id); err != nil {
				t.Error(err)
			}
		}, "", "one\ntwo\nthree\n"},
		{"one that nobody could read", func(t *testing.T, e *runs.Engine, w *world, id runs.ID) {
			t.Helper()
			w.cluster.SetLog(id, "")
			cancel(t, e, id)
		}, "the tail\n", "the tail\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(runstest.NewStore())
				e := w.engine(t, func(c *runs.Config) { c.Now = time.Now })
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- e.Run(ctx) }()
				run := begin(t, e, "acme")
				synctest.Wait()
				w.cluster.Start(run.ID)
				w.cluster.SetLog(run.ID, "one\n")
				w.cluster.Publish(run.ID, runcontract.KeyLogTail, zipped(t, test.tail))
				time.Sleep(10 * time.Second) //nolint:forbidigo // a fake clock's
				test.leave(t, e, w, run.ID)
				time.Sleep(10 * time.Second) //nolint:forbidigo // the same
				if test.want != test.tail {
					w.cluster.SetLog(run.ID, "one\ntwo\n")
					time.Sleep(10 * time.Second) //nolint:forbidigo // the same
					w.cluster.SetLog(run.ID, "one\ntwo\nthree\n")
				}
				w.cluster.Finish(run.ID, 77, interrupted)
				time.Sleep(10 * time.Second) //nolint:forbidigo // the same
				if got := w.get(t, run.ID); !runs.Final(got.Status) || !got.Cleaned {
					t.Errorf("got %+v", got)
				}
				text, err := e.Logs(t.Context(), run.ID, runs.LogOptions{})
				if got := readAll(t, text, err); got != test.want {
					t.Errorf("log %q, want %q", got, test.want)
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestStoppingWhileALogIsFollowed checks that Run ends although a pod does not.
func TestStoppingWhileALogIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(runstest.NewStore())
		e := w.engine(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		run := begin(t, e, "acme")
		synctest.Wait()
		w.cluster.Start(run.ID)
		w.cluster.SetLog(run.ID, "one\n")
		cancel(t, e, run.ID)
		synctest.Wait()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		saved, err := w.store.Log(t.Context(), run.ID)
		if err != nil || saved.Bytes != 4 {
			t.Errorf("what was read is lost: %+v, %v", saved, err)
		}
	})
}

func TestOccupied(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t)
	run := begin(t, e, "acme")
	other := begin(t, e, "other")
	e.Sweep(t.Context())
	w.cluster.Start(run.ID)
	w.cluster.Start(other.ID)
	check := func(want ...string) {
		t.Helper()
		got, err := e.Occupied(t.Context(), "acme")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("pods (-want +got):\n%s", diff)
		}
	}
	check(runcontract.JobName(runcontract.KindProvision, string(run.ID)) + "-pod")
	cancel(t, e, run.ID)
	check(runcontract.JobName(runcontract.KindProvision, string(run.ID)) + "-pod")
	w.cluster.Finish(run.ID, 77, interrupted)
	check()
}

func TestFinalStatusesAreNotCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t)
	run := begin(t, e, "acme")
	e.Sweep(t.Context())
	w.cluster.Start(run.ID)
	w.cluster.Finish(run.ID, 0, succeeded) // nobody has looked yet
	_, err := e.Cancel(t.Context(), run.ID, false, "alice")
	if over, ok := errors.AsType[*runs.EndedError](err); !ok || over.Status != api.StatusSucceeded {
		t.Errorf("got %v, want an EndedError", err)
	}
	if job := w.cluster.Job(run.ID); job.DeletionTimestamp != nil {
		t.Error("the Job of an ended run was deleted")
	}
	if _, err := e.Cancel(t.Context(), "nobody", false, "alice"); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("unknown run: %v", err)
	}
	if !slices.Contains(runs.FinalStatuses(), w.get(t, run.ID).Status) {
		t.Error("not ended")
	}
}
