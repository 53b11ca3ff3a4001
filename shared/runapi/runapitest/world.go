package runapitest

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/database"
	"github.com/kubeopera/platform/shared/httpapi"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runs/runstest"
	"github.com/kubeopera/platform/shared/runs/store"
)

// Sweep is how often an engine looks at its runs in most tests.
const Sweep = 2 * time.Second

// World is a run engine at work, with everything beyond in memory.
type World struct {
	Engine  *runs.Engine
	Cluster *runstest.Cluster
}

// NewWorld starts an engine, whose cluster is made here; it stops with the test,
// which should be in a bubble of synctest: time passes there when everything waits.
func NewWorld(tb testing.TB, cfg runs.Config) World {
	tb.Helper()
	w := World{Cluster: runstest.NewCluster(cfg.Kind, nil)}
	cfg.Cluster = w.Cluster
	var err error
	if w.Engine, err = runs.New(cfg); err != nil {
		tb.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if err := w.Engine.Run(tb.Context()); err != nil {
			tb.Errorf("engine: %v", err)
		}
	}()
	tb.Cleanup(func() { <-stopped }) // the context ends before
	return w
}

// Pass lets time pass, and the engine look at its runs.
func Pass(d time.Duration) { <-time.After(d) }

// Begin launches a run and makes its pod run.
func (w World) Begin(tb testing.TB, id string) {
	tb.Helper()
	Pass(2 * Sweep)
	if w.Cluster.Job(runs.ID(id)) == nil {
		tb.Fatalf("run %s has no Job", id)
	}
	w.Cluster.Start(runs.ID(id))
	Pass(2 * Sweep)
}

// Finish ends a run that has begun.
func (w World) Finish(tb testing.TB, id string, result runcontract.Result) {
	tb.Helper()
	code := runcontract.ExitCode(0)
	if result.Outcome != runcontract.OutcomeSucceeded {
		code = runcontract.ExitInternal
	}
	w.Cluster.Finish(runs.ID(id), code, &result)
	Pass(2 * Sweep)
	if run, err := w.Engine.Get(tb.Context(), runs.ID(id)); err != nil || !runs.Final(run.Status) {
		tb.Fatalf("the run has not ended: %+v, %v", run, err)
	}
}

// Post sends a request that starts something and gives the new run.
func Post[View any](tb testing.TB, a API, path, body string, headers map[string]string) View {
	tb.Helper()
	answer := a.Do(http.MethodPost, httpapi.BasePath+path, body, headers)
	if answer.Code != http.StatusAccepted {
		tb.Fatalf("POST %s: status %d: %s", path, answer.Code, answer.Body)
	}
	return Decode[View](tb, answer)
}

// SQLite is a store in a database of the test's own.
func SQLite(tb testing.TB, table string) runs.Store {
	tb.Helper()
	db, err := database.Open(tb.Context(), "sqlite://"+filepath.Join(tb.TempDir(), "runs.db"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	if err := store.Migrate(tb.Context(), db, table); err != nil {
		tb.Fatal(err)
	}
	return store.New(db, table)
}

// Recent are runs that there are, newest first.
func (w World) Recent(tb testing.TB, filter func(runs.Run) bool) []runs.Run {
	tb.Helper()
	list, err := w.Engine.List(tb.Context(), runs.Filter{Limit: 30})
	if err != nil {
		tb.Fatal(err)
	}
	var out []runs.Run
	for _, r := range list {
		if filter == nil || filter(r) {
			out = append(out, r)
		}
	}
	return out
}

// AtWork selects runs that have a Job and have not ended.
func (w World) AtWork(r runs.Run) bool {
	return w.Cluster.Job(r.ID) != nil && !runs.Final(r.Status)
}

// Live selects runs that have not ended.
func Live(r runs.Run) bool { return !runs.Final(r.Status) }

// Succeeded selects runs of an operation that have.
func Succeeded(operation api.Operation) func(runs.Run) bool {
	return func(r runs.Run) bool { return r.Operation == operation && r.Status == api.StatusSucceeded }
}
