package runs_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/database"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runs/runstest"
	"github.com/kubeopera/platform/shared/runs/store"
)

// world is what engines live in, and outlive in tests.
type world struct {
	store   runs.Store
	cluster *runstest.Cluster

	mu  sync.Mutex
	now time.Time
}

func newWorld(store runs.Store) *world {
	w := &world{store: store, now: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)}
	w.cluster = runstest.NewCluster(runcontract.KindProvision, w.clock)
	return w
}

func sqliteStore(t *testing.T) runs.Store {
	t.Helper()
	return sqlStore(t, "sqlite://"+filepath.Join(t.TempDir(), "runs.db"))
}

func sqlStore(t *testing.T, address string) runs.Store {
	t.Helper()
	db, err := database.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := store.Migrate(t.Context(), db, "provision_jobs"); err != nil {
		t.Fatal(err)
	}
	return store.New(db, "provision_jobs")
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// engine makes an Engine over the world, its parts replaced by edit.
func (w *world) engine(t *testing.T, edit ...func(*runs.Config)) *runs.Engine {
	t.Helper()
	cfg := runs.Config{
		Kind: runcontract.KindProvision, Store: w.store, Cluster: w.cluster, Render: render, MaxConcurrent: 3,
		Now: w.clock, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	for _, f := range edit {
		f(&cfg)
	}
	e, err := runs.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Stop)
	return e
}

func render(run runs.Run) (runs.Launch, error) {
	return runs.Launch{
		Files: map[string]string{"run.json": string(run.ID)},
		Job:   &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: runcontract.JobName(runcontract.KindProvision, string(run.ID))}},
	}, nil
}

func request(environment string) runs.NewRun {
	return runs.NewRun{
		Operation: api.OperationApply, Name: environment, Environment: environment, RequestedBy: "tests",
		Inputs: json.RawMessage(`{}`), Credential: map[string][]byte{"credentials": []byte("secret")},
	}
}

func begin(t *testing.T, e *runs.Engine, environment string) runs.Run {
	t.Helper()
	run, _, err := e.Start(t.Context(), request(environment))
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func (w *world) get(t *testing.T, id runs.ID) runs.Run {
	t.Helper()
	run, err := w.store.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// expect checks the stored status of a run.
func (w *world) expect(t *testing.T, id runs.ID, want api.Status) runs.Run {
	t.Helper()
	run := w.get(t, id)
	if run.Status != want {
		t.Fatalf("run is %s (%s: %s), want %s", run.Status, run.ErrorCode, run.Message, want)
	}
	return run
}

var (
	succeeded = &runcontract.Result{Outcome: runcontract.OutcomeSucceeded, Message: "all done"}
	failed    = &runcontract.Result{Outcome: runcontract.OutcomeFailed, ErrorCode: runcontract.CodeTerraformApply, Message: "no"}
)

func readAll(t *testing.T, r io.ReadCloser, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var errDown = errors.New("down")

// mortal is the dependencies of a process that dies at its nth side effect:
// before it is done, or after, without getting to know. Dead, it does nothing.
type mortal struct {
	mu    sync.Mutex
	left  int
	after bool
	dead  bool
}

// do does a side effect, unless it is too late for that.
func (m *mortal) do(effect func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return errDown
	}
	m.left--
	if m.left > 0 {
		return effect()
	}
	m.dead = true
	if m.after {
		_ = effect() // done, but nobody lives to see it
	}
	return errDown
}

func (m *mortal) look() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return errDown
	}
	return nil
}

type mortalStore struct {
	runs.Store
	*mortal
}

func (s mortalStore) Insert(ctx context.Context, run runs.Run) error {
	return s.do(func() error { return s.Store.Insert(ctx, run) })
}

func (s mortalStore) Update(ctx context.Context, run runs.Run, event *api.Event) (stored runs.Run, err error) {
	err = s.do(func() error { stored, err = s.Store.Update(ctx, run, event); return err })
	return stored, err
}

func (s mortalStore) Claim(ctx context.Context, run runs.Run, slots int, at time.Time) (claimed runs.Run, err error) {
	err = s.do(func() error { claimed, err = s.Store.Claim(ctx, run, slots, at); return err })
	return claimed, err
}

func (s mortalStore) MarkCleaned(ctx context.Context, id runs.ID) error {
	return s.do(func() error { return s.Store.MarkCleaned(ctx, id) })
}

func (s mortalStore) SaveLog(ctx context.Context, id runs.ID, log runs.ArchivedLog) error {
	return s.do(func() error { return s.Store.SaveLog(ctx, id, log) })
}

func (s mortalStore) Get(ctx context.Context, id runs.ID) (runs.Run, error) {
	if err := s.look(); err != nil {
		return runs.Run{}, err
	}
	return s.Store.Get(ctx, id)
}

type mortalCluster struct {
	runs.Cluster
	*mortal
}

func (c mortalCluster) EnsureCredential(ctx context.Context, run runs.Run, files map[string][]byte) error {
	return c.do(func() error { return c.Cluster.EnsureCredential(ctx, run, files) })
}

func (c mortalCluster) EnsureConfigMap(ctx context.Context, run runs.Run, files map[string]string) error {
	return c.do(func() error { return c.Cluster.EnsureConfigMap(ctx, run, files) })
}

func (c mortalCluster) EnsureJob(ctx context.Context, run runs.Run, job *batchv1.Job) (made *batchv1.Job, err error) {
	err = c.do(func() error { made, err = c.Cluster.EnsureJob(ctx, run, job); return err })
	return made, err
}

func (c mortalCluster) Own(ctx context.Context, run runs.Run, job *batchv1.Job) error {
	return c.do(func() error { return c.Cluster.Own(ctx, run, job) })
}

func (c mortalCluster) DeleteJob(ctx context.Context, id runs.ID) error {
	return c.do(func() error { return c.Cluster.DeleteJob(ctx, id) })
}

func (c mortalCluster) DeleteCredential(ctx context.Context, id runs.ID) error {
	return c.do(func() error { return c.Cluster.DeleteCredential(ctx, id) })
}

func (c mortalCluster) DeletePod(ctx context.Context, id runs.ID) error {
	return c.do(func() error { return c.Cluster.DeletePod(ctx, id) })
}
