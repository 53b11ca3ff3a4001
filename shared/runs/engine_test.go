package runs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runs/runstest"
)

func TestLifeOfARun(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) runs.Store{
		"memory": func(*testing.T) runs.Store { return runstest.NewStore() },
		"sqlite": sqliteStore,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(open(t))
			e := w.engine(t)
			run := begin(t, e, "acme")
			if run.Status != api.StatusQueued || run.QueuePosition != 1 || run.Version != 1 {
				t.Errorf("after start: %+v", run)
			}
			if w.cluster.Job(run.ID) != nil || string(w.cluster.Credential(run.ID)["credentials"]) != "secret" {
				t.Error("start makes the credential, and no Job")
			}

			e.Sweep(t.Context())
			run = w.expect(t, run.ID, api.StatusRunning)
			if run.Phase != api.PhaseStarting || run.StartedAt.IsZero() || !w.cluster.Owned(run.ID) || w.cluster.Files(run.ID)["run.json"] != string(run.ID) {
				t.Errorf("after launch: %+v", run)
			}

			w.cluster.Start(run.ID)
			w.cluster.Publish(run.ID, runcontract.KeyProgress, runcontract.Progress{Phase: api.PhaseApply, Done: 2, Total: 9, Message: "applying"})
			e.Sweep(t.Context())
			run = w.expect(t, run.ID, api.StatusRunning)
			if diff := cmp.Diff(api.Progress{Done: 2, Total: 9}, run.Progress); diff != "" || run.Phase != api.PhaseApply || run.Message != "applying" {
				t.Errorf("at work: %+v", run)
			}

			w.cluster.SetLog(run.ID, "one\ntwo\nthree\n")
			w.cluster.Publish(run.ID, runcontract.KeyKubeconfig, []byte("apiVersion: v1"))
			w.cluster.Finish(run.ID, 0, succeeded)
			got, err := e.Get(t.Context(), run.ID) // before any sweep
			if err != nil {
				t.Fatal(err)
			}
			if got.Status != api.StatusSucceeded || got.Phase != api.PhaseDone || got.Message != "all done" || got.Progress.Done != 9 || got.FinishedAt.IsZero() {
				t.Errorf("sync on read: %+v", got)
			}
			text, err := e.Logs(t.Context(), run.ID, runs.LogOptions{})
			if got := readAll(t, text, err); got != "one\ntwo\nthree\n" {
				t.Errorf("log of an ended pod: %q", got)
			}
			if out, err := e.Output(t.Context(), run.ID, runcontract.KeyKubeconfig); err != nil || string(out) != "apiVersion: v1" {
				t.Errorf("output: %q, %v", out, err)
			}

			e.Sweep(t.Context())
			if run = w.expect(t, run.ID, api.StatusSucceeded); !run.Cleaned || w.cluster.Credential(run.ID) != nil {
				t.Errorf("after cleaning: %+v", run)
			}
			w.cluster.Vanish(run.ID)
			for tail, want := range map[int]string{0: "one\ntwo\nthree\n", 1: "three\n", 2: "two\nthree\n", 9: "one\ntwo\nthree\n"} {
				text, err = e.Logs(t.Context(), run.ID, runs.LogOptions{Tail: tail})
				if got := readAll(t, text, err); got != want {
					t.Errorf("tail %d of the archived log: %q", tail, got)
				}
			}
			begin(t, e, "acme")
		})
	}
}

func TestStartOnABusyEnvironment(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t)
	holder := begin(t, e, "acme")
	for when, engine := range map[string]*runs.Engine{
		"seen at once": e,
		// The look before finds nothing, as when two requests come at the same time.
		"seen by the database": w.engine(t, func(c *runs.Config) { c.Store = blind{w.store} }),
	} {
		_, _, err := engine.Start(t.Context(), request("acme"))
		busy, ok := errors.AsType[*runs.BusyError](err)
		if !ok || busy.Holder != holder.ID || !errors.Is(err, runs.ErrConflict) {
			t.Errorf("%s: got %v, want a BusyError with %s", when, err, holder.ID)
		}
	}
	if list, err := w.cluster.Credentials(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("credentials %v, want the holder's alone (%v)", list, err)
	}
}

// blind lists nothing.
type blind struct{ runs.Store }

func (blind) List(context.Context, runs.Filter) ([]runs.Run, error) { return nil, nil }

// flaky fails chosen calls.
type flaky struct {
	runs.Store
	insert func(context.Context, runs.Run) error
	get    func(context.Context, runs.ID) (runs.Run, error)
}

func (s flaky) Insert(ctx context.Context, run runs.Run) error { return s.insert(ctx, run) }

func (s flaky) Get(ctx context.Context, id runs.ID) (runs.Run, error) {
	if s.get != nil {
		return s.get(ctx, id)
	}
	return s.Store.Get(ctx, id)
}

func TestStartWhenTheDatabaseFails(t *testing.T) {
	t.Parallel()
	down := fmt.Errorf("%w: %w", runs.ErrDatabase, errDown)
	tests := []struct {
		name            string
		insert          func(*world) func(context.Context, runs.Run) error
		getFails        bool
		accepted        bool
		wantCredentials int
	}{
		{name: "the row is not there, so the credential goes", insert: func(*world) func(context.Context, runs.Run) error {
			return func(context.Context, runs.Run) error { return down }
		}},
		{name: "the row is there although the answer was lost, so the run goes on", accepted: true, wantCredentials: 1, insert: func(w *world) func(context.Context, runs.Run) error {
			return func(ctx context.Context, run runs.Run) error { return errors.Join(down, w.store.Insert(ctx, run)) }
		}},
		{name: "nobody knows, so the credential stays for now", getFails: true, wantCredentials: 1, insert: func(*world) func(context.Context, runs.Run) error {
			return func(context.Context, runs.Run) error { return down }
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(runstest.NewStore())
			broken := flaky{Store: w.store, insert: test.insert(w)}
			if test.getFails {
				broken.get = func(context.Context, runs.ID) (runs.Run, error) { return runs.Run{}, down }
			}
			run, _, err := w.engine(t, func(c *runs.Config) { c.Store = broken }).Start(t.Context(), request("acme"))
			if test.accepted != (err == nil) || !test.accepted && !errors.Is(err, runs.ErrDatabase) {
				t.Fatalf("got %+v, %v", run, err)
			}
			list, err := w.cluster.Credentials(t.Context())
			if err != nil || len(list) != test.wantCredentials {
				t.Errorf("credentials %v, want %d (%v)", list, test.wantCredentials, err)
			}
		})
	}
}

func TestStartDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t)
	run := begin(t, e, "acme")
	e.Sweep(t.Context())
	w.cluster.SetProblems(run.ID, runs.StartProblem{Reason: "FailedMount", Message: `configmap "x" not found`})
	w.cluster.SetPod(run.ID, runstest.Pod(corev1.PodPending, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}))
	e.Sweep(t.Context())
	if got := w.expect(t, run.ID, api.StatusRunning); !strings.Contains(got.Message, `configmap "x" not found`) {
		t.Errorf("the reason is not said at once: %q", got.Message)
	}
	if got, err := e.Get(t.Context(), run.ID); err != nil || !strings.Contains(got.Message, `configmap "x" not found`) {
		t.Errorf("a look without events loses the reason: %q, %v", got.Message, err)
	}
	w.pass(10 * time.Minute)
	got, err := e.Get(t.Context(), run.ID)
	if err != nil || got.Status != api.StatusRunning || got.ErrorCode != string(runs.CodeConfigMissing) {
		t.Fatalf("at the deadline: %+v, %v", got, err)
	}
	if w.cluster.Job(run.ID) != nil {
		t.Error("the Job was not deleted")
	}
	if _, _, err := e.Start(t.Context(), request("acme")); !errors.Is(err, runs.ErrConflict) {
		t.Errorf("the environment is free before the Job was seen to be gone: %v", err)
	}
	e.Sweep(t.Context())
	if got := w.expect(t, run.ID, api.StatusFailed); !strings.Contains(got.Message, `configmap "x" not found`) || got.ErrorCode != string(runs.CodeConfigMissing) {
		t.Errorf("got %+v", got)
	}
	begin(t, e, "acme")
}

// amnesiac has a cache that knows nothing.
type amnesiac struct{ runs.Cluster }

func (amnesiac) Observe(context.Context, runs.ID) (runs.Observation, error) {
	return runs.Observation{}, nil
}

func TestAStaleCacheEndsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t, func(c *runs.Config) { c.Cluster = amnesiac{w.cluster} })
	run := begin(t, e, "acme")
	e.Sweep(t.Context())
	w.cluster.Start(run.ID)
	e.Sweep(t.Context())
	if got, err := e.Get(t.Context(), run.ID); err != nil || got.Status != api.StatusRunning || got.Phase != api.PhasePreparingState {
		t.Errorf("got %+v, %v", got, err)
	}
}

// unreachable is a Cluster that does not answer.
type unreachable struct{ runs.Cluster }

func (unreachable) Observe(context.Context, runs.ID) (runs.Observation, error) {
	return runs.Observation{}, fmt.Errorf("%w: %w", runs.ErrKubernetes, errDown)
}

func (unreachable) Ping(context.Context) error {
	return fmt.Errorf("%w: %w", runs.ErrKubernetes, errDown)
}

func (unreachable) EnsureCredential(context.Context, runs.Run, map[string][]byte) error {
	return fmt.Errorf("%w: %w", runs.ErrKubernetes, errDown)
}

func TestWithoutKubernetes(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t)
	run := begin(t, e, "acme")
	e.Sweep(t.Context())
	cut := w.engine(t, func(c *runs.Config) { c.Cluster = unreachable{w.cluster} })
	if got, err := cut.Get(t.Context(), run.ID); err != nil || got.Status != api.StatusRunning {
		t.Errorf("the row is not the answer: %+v, %v", got, err)
	}
	if err := cut.Ready(t.Context()); !errors.Is(err, runs.ErrKubernetes) {
		t.Errorf("ready: %v", err)
	}
	if _, _, err := cut.Start(t.Context(), request("other")); !errors.Is(err, runs.ErrKubernetes) {
		t.Errorf("start: %v", err)
	}
	if got := len(all(t, w)); got != 1 {
		t.Errorf("%d rows, want 1", got)
	}
	if err := e.Ready(t.Context()); err != nil {
		t.Errorf("ready: %v", err)
	}
}

func TestOrphansAreSwept(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t)
	run := begin(t, e, "acme")
	w.cluster.PutCredential("orphan", map[string][]byte{"x": []byte("y")})
	e.Sweep(t.Context())
	w.cluster.Start(run.ID)
	w.pass(5 * time.Minute)
	e.Sweep(t.Context())
	if w.cluster.Credential("orphan") == nil {
		t.Error("a credential was swept before its time")
	}
	w.pass(6 * time.Minute)
	e.Sweep(t.Context())
	if w.cluster.Credential("orphan") != nil {
		t.Error("the orphan stays")
	}
	if w.cluster.Credential(run.ID) == nil {
		t.Error("a run lost its credential")
	}
}

// TestRun checks the loop under a fake clock: a start launches at once, an end is
// seen within an interval and a slot that it frees is used at once.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(runstest.NewStore())
		e := w.engine(t, func(c *runs.Config) { c.Now, c.MaxConcurrent, c.SweepInterval = time.Now, 1, 10*time.Second })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		synctest.Wait()

		first, second := begin(t, e, "a"), begin(t, e, "b")
		synctest.Wait() // no time passes
		w.expect(t, first.ID, api.StatusRunning)
		w.expect(t, second.ID, api.StatusQueued)

		w.cluster.Start(first.ID)
		w.cluster.Finish(first.ID, 0, succeeded)
		time.Sleep(12 * time.Second) //nolint:forbidigo // a fake clock's
		synctest.Wait()
		if got := w.expect(t, first.ID, api.StatusSucceeded); !got.Cleaned {
			t.Error("not cleaned by the sweep that ended it")
		}
		w.expect(t, second.ID, api.StatusRunning)

		stop()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

func TestFollowingALogThatHasNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(runstest.NewStore())
		e := w.engine(t)
		run := begin(t, e, "a")
		if _, err := e.Logs(t.Context(), run.ID, runs.LogOptions{}); !errors.Is(err, runs.ErrNoLogs) {
			t.Errorf("not following: %v", err)
		}
		follow := func(ctx context.Context) (chan string, error) {
			text, err := e.Logs(ctx, run.ID, runs.LogOptions{Follow: true})
			got := make(chan string, 1)
			go func() {
				data, err := io.ReadAll(text)
				got <- fmt.Sprint(string(data), err)
				_ = text.Close()
			}()
			return got, err
		}
		got, err := follow(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stopped, err := follow(ctx)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second) //nolint:forbidigo // a fake clock's
		stop()
		if text := <-stopped; !strings.Contains(text, "context canceled") {
			t.Errorf("a follower that leaves got %q", text)
		}
		e.Sweep(t.Context())
		w.cluster.SetLog(run.ID, "hello\n")
		w.cluster.Start(run.ID)
		time.Sleep(5 * time.Second) //nolint:forbidigo // a fake clock's
		w.cluster.SetLog(run.ID, "hello\nthere\n")
		w.cluster.Finish(run.ID, 0, succeeded)
		if text := <-got; text != "hello\nthere\n<nil>" {
			t.Errorf("got %q", text)
		}
	})
}

func TestFollowingEndsWithARunThatNeverBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(runstest.NewStore())
		e := w.engine(t)
		run := begin(t, e, "a")
		text, err := e.Logs(t.Context(), run.ID, runs.LogOptions{Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		e.Sweep(t.Context())
		w.cluster.Vanish(run.ID)
		e.Sweep(t.Context())
		w.expect(t, run.ID, api.StatusFailed)
		if got := readAll(t, text, nil); got != "" {
			t.Errorf("got %q", got)
		}
	})
}

func TestUnknownRuns(t *testing.T) {
	t.Parallel()
	e := newWorld(runstest.NewStore()).engine(t)
	_, get := e.Get(t.Context(), "nobody")
	_, logs := e.Logs(t.Context(), "nobody", runs.LogOptions{Follow: true})
	_, output := e.Output(t.Context(), "nobody", "kubeconfig")
	for what, err := range map[string]error{"get": get, "logs": logs, "output": output} {
		if !errors.Is(err, runs.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestNewRefusesBadConfigs(t *testing.T) {
	t.Parallel()
	good := runs.Config{Kind: "provision", Store: runstest.NewStore(), Cluster: runstest.NewCluster("provision", nil), Render: render}
	if _, err := runs.New(good); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*runs.Config){
		"no kind": func(c *runs.Config) { c.Kind = "" }, "no store": func(c *runs.Config) { c.Store = nil },
		"no cluster": func(c *runs.Config) { c.Cluster = nil }, "no renderer": func(c *runs.Config) { c.Render = nil },
		"a negative limit": func(c *runs.Config) { c.MaxConcurrent = -1 },
	} {
		bad := good
		edit(&bad)
		if _, err := runs.New(bad); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
