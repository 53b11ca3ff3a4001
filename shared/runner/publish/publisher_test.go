package publish

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runcontract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// secrets is an API server with one Secret. fail answers in its place.
type secrets struct {
	mu     sync.Mutex
	stored *corev1.Secret
	calls  []string
	times  []time.Time
	fail   func(call int) error
	lose   map[int]bool // calls that are carried out, but whose answer is lost
}

func resource() schema.GroupResource { return schema.GroupResource{Resource: "secrets"} }

func (s *secrets) call(name string, secret *corev1.Secret, refused error) (*corev1.Secret, error) {
	n := len(s.calls)
	s.calls, s.times = append(s.calls, name), append(s.times, time.Now())
	if s.fail != nil {
		if err := s.fail(n); err != nil {
			return nil, err
		}
	}
	if refused != nil {
		return nil, refused
	}
	s.stored = secret.DeepCopy()
	if s.lose[n] {
		return nil, errors.New("connection reset by peer")
	}
	return secret, nil
}

// Create implements Secrets.
func (s *secrets) Create(_ context.Context, secret *corev1.Secret, _ metav1.CreateOptions) (*corev1.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var refused error
	if s.stored != nil {
		refused = apierrors.NewAlreadyExists(resource(), secret.Name)
	}
	return s.call("create", secret, refused)
}

// Update implements Secrets.
func (s *secrets) Update(_ context.Context, secret *corev1.Secret, _ metav1.UpdateOptions) (*corev1.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var refused error
	if s.stored == nil {
		refused = apierrors.NewNotFound(resource(), secret.Name)
	}
	return s.call("update", secret, refused)
}

func (s *secrets) progress(t *testing.T) runcontract.Progress {
	t.Helper()
	var p runcontract.Progress
	if err := json.Unmarshal(s.stored.Data[runcontract.KeyProgress], &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func publisher(t *testing.T, s *secrets) *Publisher {
	t.Helper()
	return New(Config{
		Secrets: s, Name: "provision-1-outputs", Namespace: "ns", Labels: map[string]string{"a": "b"},
		TerminationMessage: filepath.Join(t.TempDir(), "message"),
		Redactor:           redact.New("canary-secret"),
		Warn:               t.Logf,
	})
}

func TestPublisher_creates_once_and_replaces_from_then_on(t *testing.T) {
	t.Parallel()
	s := &secrets{}
	p := publisher(t, s)
	if err := p.Open(t.Context(), runcontract.Progress{Phase: api.PhaseInit}); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{runcontract.KeyKubeconfig: []byte("kubeconfig")}
	if err := p.Finish(t.Context(), runcontract.Progress{Phase: api.PhaseDone}, runcontract.Result{Outcome: runcontract.OutcomeSucceeded}, files); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"create", "update"}, s.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "provision-1-outputs", Namespace: "ns", Labels: map[string]string{"a": "b"}},
		Type:       corev1.SecretTypeOpaque,
		Data: map[string][]byte{
			runcontract.KeyProgress:   []byte(`{"phase":"done","done":0,"total":0,"updated_at":"0001-01-01T00:00:00Z"}`),
			runcontract.KeyResult:     []byte(`{"outcome":"succeeded"}`),
			runcontract.KeyKubeconfig: []byte("kubeconfig"),
		},
	}
	if diff := cmp.Diff(want, s.stored); diff != "" {
		t.Errorf("Secret (-want +got):\n%s", diff)
	}
}

func TestPublisher_survives_lost_answers_and_deletions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		s    *secrets
		want []string
	}{
		{"the answer to the creation was lost", &secrets{lose: map[int]bool{0: true}}, []string{"create", "create", "update", "update"}},
		{"the Secret of an earlier attempt is there", &secrets{stored: &corev1.Secret{}}, []string{"create", "update", "update"}},
		{
			"the API server is away for a while",
			&secrets{fail: func(n int) error {
				if n < 4 {
					return apierrors.NewInternalError(errors.New("etcd"))
				}
				return nil
			}},
			[]string{"create", "create", "create", "create", "create", "update"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				p := New(Config{Secrets: tt.s, Name: "n", TerminationMessage: filepath.Join(dir, "m"), Redactor: redact.New(), Warn: t.Logf})
				if err := p.Open(t.Context(), runcontract.Progress{}); err != nil {
					t.Fatal(err)
				}
				if err := p.Finish(t.Context(), runcontract.Progress{}, runcontract.Result{}, nil); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, tt.s.calls); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		})
	}

	t.Run("somebody deletes the Secret", func(t *testing.T) {
		t.Parallel()
		s := &secrets{}
		p := publisher(t, s)
		if err := p.Open(t.Context(), runcontract.Progress{}); err != nil {
			t.Fatal(err)
		}
		s.stored = nil
		if err := p.Finish(t.Context(), runcontract.Progress{}, runcontract.Result{}, nil); err != nil || s.stored == nil {
			t.Errorf("error %v, stored %v", err, s.stored)
		}
	})
}

func TestPublisher_gives_up_when_it_is_hopeless_or_late(t *testing.T) {
	t.Parallel()
	t.Run("forbidden", func(t *testing.T) {
		t.Parallel()
		s := &secrets{fail: func(int) error { return apierrors.NewForbidden(resource(), "n", errors.New("no")) }}
		if err := publisher(t, s).Open(t.Context(), runcontract.Progress{}); !apierrors.IsForbidden(err) || len(s.calls) != 1 {
			t.Errorf("error %v after %d calls", err, len(s.calls))
		}
	})
	t.Run("deadline", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			s := &secrets{fail: func(int) error { return errors.New("connection refused") }}
			p := New(Config{Secrets: s, TerminationMessage: filepath.Join(dir, "m"), Redactor: redact.New(), Warn: t.Logf})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			start := time.Now()
			err := p.Open(ctx, runcontract.Progress{})
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "connection refused") {
				t.Errorf("error %v", err)
			}
			if took := time.Since(start); took != time.Minute || len(s.calls) < 5 || len(s.calls) > 20 {
				t.Errorf("%d calls in %s", len(s.calls), took)
			}
		})
	})
}

func TestPublisher_writes_progress_at_most_every_two_seconds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &secrets{}
		p := New(Config{Secrets: s, TerminationMessage: filepath.Join(dir, "m"), Redactor: redact.New(), Warn: t.Logf})
		if err := p.Open(t.Context(), runcontract.Progress{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { p.Run(ctx) })
		for i := range 1000 { // 10 s
			p.Report(runcontract.Progress{Done: i + 1})
			<-time.After(10 * time.Millisecond)
		}
		<-time.After(Interval)
		synctest.Wait()
		if got := s.progress(t).Done; got != 1000 {
			t.Errorf("the last progress is %d", got)
		}
		writes := s.times[1:] // less the creation
		if len(writes) < 4 || len(writes) > 7 {
			t.Errorf("%d writes in 10 s", len(writes))
		}
		for i := 1; i < len(writes); i++ {
			if gap := writes[i].Sub(writes[i-1]); gap < Interval {
				t.Errorf("only %s between two writes", gap)
			}
		}
		cancel()
		wg.Wait()
	})
}

func TestPublisher_writes_the_newest_progress_after_an_outage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var down bool
		s := &secrets{}
		s.fail = func(int) error {
			if down {
				return errors.New("connection refused")
			}
			return nil
		}
		warnings := 0
		p := New(Config{Secrets: s, TerminationMessage: filepath.Join(dir, "m"), Redactor: redact.New(), Warn: func(string, ...any) { warnings++ }})
		if err := p.Open(t.Context(), runcontract.Progress{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { p.Run(ctx) })
		s.mu.Lock()
		down = true
		s.mu.Unlock()
		p.Report(runcontract.Progress{Done: 7})
		<-time.After(30 * time.Second)
		s.mu.Lock()
		down = false
		s.mu.Unlock()
		<-time.After(2 * Interval)
		synctest.Wait()
		if got := s.progress(t).Done; got != 7 || warnings != 1 {
			t.Errorf("progress %d, %d warnings", got, warnings)
		}
		cancel()
		wg.Wait()
	})
}

func TestPublisher_masks_secrets(t *testing.T) {
	t.Parallel()
	s := &secrets{}
	p := publisher(t, s)
	const leak = "x canary-secret y"
	progress := runcontract.Progress{Current: leak, Message: leak}
	result := runcontract.Result{
		Message: leak, Diagnostic: &runcontract.Diagnostic{Summary: leak, Detail: leak, Address: leak}, Lock: &api.StateLock{ID: leak, Who: leak},
	}
	if err := p.Finish(t.Context(), progress, result, nil); err != nil {
		t.Fatal(err)
	}
	if err := p.Terminate(result); err != nil {
		t.Fatal(err)
	}
	message, err := os.ReadFile(p.cfg.TerminationMessage)
	if err != nil {
		t.Fatal(err)
	}
	for place, text := range map[string]string{
		"progress": string(s.stored.Data[runcontract.KeyProgress]), "result": string(s.stored.Data[runcontract.KeyResult]), "message": string(message),
	} {
		if strings.Contains(text, "canary") || !strings.Contains(text, redact.Marker) {
			t.Errorf("%s: %s", place, text)
		}
	}
	if result.Message != leak || result.Diagnostic.Summary != leak || result.Lock.Who != leak {
		t.Error("the caller's result was changed")
	}
}

func TestLabels(t *testing.T) {
	t.Parallel()
	got := Labels(runcontract.KindProvision, "1", "acme")
	want := map[string]string{
		"app.kubernetes.io/managed-by": "cluster-provisioner", "app.kubernetes.io/component": "outputs",
		"kubeopera.io/run-id": "1", "kubeopera.io/kind": "provision", "kubeopera.io/environment": "acme",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}
