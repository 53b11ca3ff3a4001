package runs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runs/runstest"
)

// finished starts a run and ends it, with a kubeconfig among its outputs. It is
// not cleaned up after.
func (w *world) finished(t *testing.T, e *runs.Engine, environment string, operation api.Operation, code runcontract.ExitCode, result *runcontract.Result) runs.ID {
	t.Helper()
	r := request(environment)
	r.Operation = operation
	run, _, err := e.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	e.Sweep(t.Context())
	w.cluster.Start(run.ID)
	w.cluster.Publish(run.ID, runcontract.KeyKubeconfig, []byte("apiVersion: v1"))
	w.cluster.Finish(run.ID, code, result)
	if _, err := e.Get(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	return run.ID
}

// lasting is a cluster that deletes no outputs.
type lasting struct{ runs.Cluster }

func (lasting) DeleteOutputs(context.Context, runs.ID) error {
	return fmt.Errorf("%w: the API server is away", runs.ErrKubernetes)
}

// TestKubeconfigsGoWithTheirCluster: a kubeconfig may hold a cloud credential.
func TestKubeconfigsGoWithTheirCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t)
	has := func(id runs.ID) bool {
		_, err := w.cluster.Output(t.Context(), id, runcontract.KeyKubeconfig)
		if err != nil && !errors.Is(err, runs.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	expect := func(when string, want bool, ids ...runs.ID) {
		t.Helper()
		for _, id := range ids {
			if has(id) != want {
				t.Errorf("%s: run %s has a kubeconfig: %v", when, id, !want)
			}
		}
	}
	first := w.finished(t, e, "acme", api.OperationApply, 0, succeeded)
	second := w.finished(t, e, "acme", api.OperationApply, 74, failed)
	other := w.finished(t, e, "umbrella", api.OperationApply, 0, succeeded)
	w.finished(t, e, "acme", api.OperationDestroy, 74, failed)
	e.Sweep(t.Context())
	expect("after a destroy that failed", true, first, second, other)

	destroy := w.finished(t, e, "acme", api.OperationDestroy, 0, succeeded)
	w.engine(t, func(c *runs.Config) { c.Cluster = lasting{w.cluster} }).Sweep(t.Context())
	if w.get(t, destroy).Cleaned {
		t.Error("the destroy counts as cleaned up after, though it is not")
	}
	expect("while Kubernetes is away", true, first)
	e.Sweep(t.Context())
	expect("after the destroy", false, first, second)
	expect("of another environment", true, other)
	if !w.get(t, destroy).Cleaned {
		t.Error("the destroy is not cleaned up after")
	}

	third := w.finished(t, e, "acme", api.OperationApply, 0, succeeded)
	e.Sweep(t.Context())
	expect("after another apply", true, third)
	w.finished(t, e, "acme", api.OperationDestroy, 0, succeeded)
	e.Sweep(t.Context())
	expect("after another destroy", false, third)
}

// TestReportsThatNoDatabaseTakes: what a runner, or whoever may write its outputs,
// puts there must not keep the run from ending.
func TestReportsThatNoDatabaseTakes(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) runs.Store{
		"memory": func(*testing.T) runs.Store { return runstest.NewStore() },
		"sqlite": sqliteStore,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(open(t))
			e := w.engine(t)
			late := time.Date(9999, time.December, 31, 23, 0, 0, 0, time.FixedZone("west", -3600)) // in the year 10000 of UTC
			id := w.finished(t, e, "acme", api.OperationApply, 74, &runcontract.Result{
				Outcome: runcontract.OutcomeFailed, ErrorCode: runcontract.ErrorCode("a\x00" + strings.Repeat("b", 1<<16)),
				Lock: &api.StateLock{ID: "x\x00", Created: late},
			})
			run := w.expect(t, id, api.StatusFailed)
			if len(run.ErrorCode) > 256 || strings.Contains(run.ErrorCode, "\x00") {
				t.Errorf("error code of %d bytes: %.80q", len(run.ErrorCode), run.ErrorCode)
			}
			if run.Details.Lock == nil || run.Details.Lock.ID != "x" || !run.Details.Lock.Created.IsZero() {
				t.Errorf("lock %+v", run.Details.Lock)
			}
		})
	}
}

// TestIDsGoOnWhenTheClockGoesBack: the order of ids is that of an environment's runs.
func TestIDsGoOnWhenTheClockGoesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t)
	const future = runs.ID("0fff0000-ffff-7000-8000-000000000000")
	before := runs.Run{ID: future, Operation: api.OperationDestroy, Name: "acme", Environment: "acme", Inputs: []byte("{}"), Status: api.StatusQueued, Version: 1}
	if err := w.store.Insert(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	before.Status, before.ErrorCode, before.FinishedAt = api.StatusFailed, string(runs.CodeLaunch), w.clock()
	if _, err := w.store.Update(t.Context(), before, nil); err != nil {
		t.Fatal(err)
	}
	if run := begin(t, e, "acme"); run.ID <= future || len(run.ID) != len(future) {
		t.Errorf("the run after %s is %s", future, run.ID)
	}
	if run := begin(t, e, "umbrella"); run.ID >= future {
		t.Errorf("another environment's run is %s", run.ID)
	}
}
