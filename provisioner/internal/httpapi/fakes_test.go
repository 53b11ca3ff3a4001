package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/kubeopera/platform/provisioner/internal/provision"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/cloudcred"
	edge "github.com/kubeopera/platform/shared/httpapi"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testKey           = "a-key-of-the-test"
	unknownCredential = "00000000-0000-7000-8000-000000000000"
)

// fakeRuns is a run engine without Kubernetes: runs stay as they are put.
type fakeRuns struct {
	mu       sync.Mutex
	runs     []runs.Run // oldest first
	started  []runs.NewRun
	outputs  map[runs.ID]string // kubeconfigs
	internal map[runs.ID]string // kubeconfigs for internal endpoints
	logs     map[runs.ID]string
	follows  bool  // what the last call of Logs asked for
	fail     error // of every call, if set
}

func (f *fakeRuns) Start(_ context.Context, n runs.NewRun) (runs.Run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return runs.Run{}, f.fail
	}
	for _, r := range f.runs {
		if r.Environment == n.Environment && !runs.Final(r.Status) {
			return runs.Run{}, &runs.BusyError{Environment: n.Environment, Holder: r.ID}
		}
	}
	at := time.Date(2026, 11, 30, 9, 0, len(f.runs), 0, time.UTC)
	run := runs.Run{
		ID: runs.ID(fmt.Sprintf("01938f3a-1c2d-7abc-8def-%012d", len(f.runs)+1)), Operation: n.Operation, Name: n.Name,
		Environment: n.Environment, RequestedBy: n.RequestedBy, Inputs: n.Inputs, CreatedAt: at, UpdatedAt: at,
		Status: api.StatusQueued, Phase: api.PhaseWaitingForSlot, QueuePosition: 1,
	}
	f.runs = append(f.runs, run)
	f.started = append(f.started, n)
	return run, nil
}

func (f *fakeRuns) Get(_ context.Context, id runs.ID) (runs.Run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return runs.Run{}, f.fail
	}
	if i := slices.IndexFunc(f.runs, func(r runs.Run) bool { return r.ID == id }); i >= 0 {
		return f.runs[i], nil
	}
	return runs.Run{}, runs.ErrNotFound
}

func (f *fakeRuns) List(_ context.Context, filter runs.Filter) ([]runs.Run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, f.fail
	}
	var out []runs.Run
	for _, r := range slices.Backward(f.runs) {
		if filter.Status != "" && r.Status != filter.Status || filter.Environment != "" && r.Environment != filter.Environment ||
			filter.Before != "" && r.ID >= filter.Before || len(out) == filter.Limit {
			continue
		}
		out = append(out, r)
	}
	return out, nil
}

func (f *fakeRuns) Logs(_ context.Context, id runs.ID, opts runs.LogOptions) (io.ReadCloser, error) {
	if _, err := f.Get(context.Background(), id); err != nil {
		return nil, err
	}
	f.follows = opts.Follow
	text, ok := f.logs[id]
	if !ok {
		return nil, runs.ErrNoLogs
	}
	if lines := strings.SplitAfter(text, "\n"); opts.Tail > 0 && opts.Tail < len(lines)-1 {
		text = strings.Join(lines[len(lines)-1-opts.Tail:], "")
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

func (f *fakeRuns) Output(_ context.Context, id runs.ID, key string) ([]byte, error) {
	of := f.outputs
	if key == runcontract.KeyKubeconfigInternal {
		of = f.internal
	}
	if text, ok := of[id]; ok {
		return []byte(text), nil
	}
	return nil, runs.ErrNotFound
}

// change edits the newest run, as the engine's sync would.
func (f *fakeRuns) change(edit func(*runs.Run)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit(&f.runs[len(f.runs)-1])
}

// fakeCredentials knows every credential but one.
type fakeCredentials struct {
	fail  error
	ends  time.Time
	calls int
}

func (f *fakeCredentials) Resolve(_ context.Context, id string) (cloudcred.Credential, error) {
	f.calls++
	if f.fail != nil {
		return cloudcred.Credential{}, f.fail
	}
	if id == unknownCredential {
		return cloudcred.Credential{}, fmt.Errorf("credential: %w", cloudcred.ErrNotFound)
	}
	return cloudcred.Credential{ID: id, Kind: cloudcred.KindAccessKey, AccessKey: &cloudcred.AccessKey{ID: "AKIAIOSFODNN7EXAMPLE", ExpiresAt: f.ends}}, nil
}

type fixture struct {
	handler     *edge.API
	runs        *fakeRuns
	credentials *fakeCredentials
}

func setup(tb testing.TB) fixture {
	tb.Helper()
	f := fixture{runs: &fakeRuns{outputs: map[runs.ID]string{}, internal: map[runs.ID]string{}, logs: map[runs.ID]string{}}, credentials: &fakeCredentials{}}
	service, err := provision.New(provision.Config{
		Runs: f.runs, Credentials: f.credentials,
		Limits: provision.Limits{
			MaxWorkers: 100, ReservedEnvironments: []string{"development", "staging", "production"}, APIAllowedCIDRs: []string{"203.0.113.0/24"},
		},
		RunTimeout: 90 * time.Minute,
		Now:        func() time.Time { return time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC) },
	})
	if err != nil {
		tb.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	path := filepath.Join(tb.TempDir(), "keys")
	digest := sha256.Sum256([]byte(testKey))
	if err := os.WriteFile(path, []byte("tester:"+hex.EncodeToString(digest[:])+"\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	keys, err := edge.OpenKeys(path, log)
	if err != nil {
		tb.Fatal(err)
	}
	f.handler, err = New(service, edge.Config{Keys: keys, Log: log, Registry: prometheus.NewRegistry()})
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// do sends a request with the test's key; headers override, empty ones remove.
func (f fixture) do(method, path, body string, headers map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	r.Header.Set("X-Api-Key", testKey)
	if body != "" || method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for k, v := range headers {
		r.Header.Del(k)
		if v != "" {
			r.Header.Set(k, v)
		}
	}
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	return w
}
