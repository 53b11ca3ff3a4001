package httpapi

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kubeopera/platform/provisioner/internal/provision"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/cloudcred"
	edge "github.com/kubeopera/platform/shared/httpapi"
	"github.com/kubeopera/platform/shared/runapi/runapitest"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runservice"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const unknownCredential = "00000000-0000-7000-8000-000000000000"

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

func (f *fakeRuns) Start(_ context.Context, n runs.NewRun) (runs.Run, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return runs.Run{}, false, f.fail
	}
	for _, r := range f.runs {
		if r.Environment == n.Environment && !runs.Final(r.Status) {
			return runs.Run{}, false, &runs.BusyError{Environment: n.Environment, Holder: r.ID}
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
	return run, false, nil
}

// What goes on with runs is tested with the real engine; see engine_test.go.

func (f *fakeRuns) Replay(context.Context, string, string, []byte) (runs.Run, bool, error) {
	return runs.Run{}, false, nil
}

func (f *fakeRuns) Cancel(context.Context, runs.ID, bool, string) (runs.Run, error) {
	return runs.Run{}, runs.ErrConflict
}

func (f *fakeRuns) Occupied(context.Context, string) ([]string, error) { return nil, nil }

func (f *fakeRuns) Events(context.Context, runs.ID) ([]api.Event, error) { return nil, nil }

func (f *fakeRuns) Wait(ctx context.Context, id runs.ID, _ int64, _ time.Duration) (runs.Run, error) {
	return f.Get(ctx, id)
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
			filter.Operation != "" && r.Operation != filter.Operation ||
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
	role  bool
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
	key := cloudcred.Credential{ID: id, Kind: cloudcred.KindAccessKey, AccessKey: &cloudcred.AccessKey{ID: "AKIAIOSFODNN7EXAMPLE", ExpiresAt: f.ends}}
	if f.role {
		return cloudcred.Credential{ID: id, Kind: cloudcred.KindAssumeRole, AssumeRole: &cloudcred.AssumeRole{RoleARN: "arn:aws:iam::123456789012:role/x", Base: key}}, nil
	}
	return key, nil
}

func (f *fakeCredentials) ResolveSSH(_ context.Context, id string) (cloudcred.SSHCredential, error) {
	switch {
	case f.fail != nil:
		return cloudcred.SSHCredential{}, f.fail
	case id == unknownCredential:
		return cloudcred.SSHCredential{}, fmt.Errorf("credential: %w", cloudcred.ErrNotFound)
	}
	return cloudcred.SSHCredential{ID: id, PrivateKey: "key"}, nil
}

type fixture struct {
	runapitest.API
	runs        *fakeRuns
	credentials *fakeCredentials
}

// setup serves the API over runs that stay as they are put.
func setup(tb testing.TB) fixture {
	tb.Helper()
	fake := &fakeRuns{outputs: map[runs.ID]string{}, internal: map[runs.ID]string{}, logs: map[runs.ID]string{}}
	f := serve(tb, fake, func() time.Time { return time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC) }, "development", "staging", "production")
	f.runs = fake
	return f
}

func serve(tb testing.TB, engine runservice.Runs, now func() time.Time, reserved ...string) fixture {
	tb.Helper()
	f := fixture{credentials: &fakeCredentials{}}
	service, err := provision.New(provision.Config{
		Runs: engine, Credentials: f.credentials, SSHCredentials: f.credentials,
		Limits:     provision.Limits{MaxWorkers: 100, ReservedEnvironments: reserved, APIAllowedCIDRs: []string{"203.0.113.0/24"}},
		RunTimeout: 90 * time.Minute, Now: now,
	})
	if err != nil {
		tb.Fatal(err)
	}
	f.API = runapitest.Serve(tb, func(cfg edge.Config) (*edge.API, error) { return New(service, cfg) })
	return f
}
