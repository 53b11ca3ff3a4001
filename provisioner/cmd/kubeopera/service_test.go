package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kubeopera/platform/provisioner/internal/httpapi"
	"github.com/kubeopera/platform/provisioner/internal/kube"
	"github.com/kubeopera/platform/provisioner/internal/launch"
	"github.com/kubeopera/platform/provisioner/internal/provision"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/cloudcred"
	edge "github.com/kubeopera/platform/shared/httpapi"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner/runnertest"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runs/runstest"
)

// realService is the service's own API and engine; what is in memory is the
// database and Kubernetes, whose pods the test plays.
type realService struct {
	tb      testing.TB
	url     string
	cluster *runstest.Cluster
}

type anyCredential struct{}

func (anyCredential) Resolve(_ context.Context, id string) (cloudcred.Credential, error) {
	return cloudcred.Credential{ID: id, Kind: cloudcred.KindAccessKey, AccessKey: &cloudcred.AccessKey{ID: "AKIAIOSFODNN7EXAMPLE"}}, nil
}

func (anyCredential) ResolveSSH(context.Context, string) (cloudcred.SSHCredential, error) {
	return cloudcred.SSHCredential{}, cloudcred.ErrNotFound
}

func newRealService(tb testing.TB) *realService {
	tb.Helper()
	s := &realService{tb: tb, cluster: runstest.NewCluster(runcontract.KindProvision, nil)}
	engine, err := runs.New(runs.Config{
		Kind: runcontract.KindProvision, Store: runstest.NewStore(), Cluster: s.cluster,
		Render: launch.Renderer(launch.Config{
			Namespace: "kubeopera-provisioning", ManagedBy: "cluster-provisioner", Modules: kube.Modules{RepositoryURL: "https://git.example.com/x.git", RepositoryRef: "v1"},
			Timeout: 90 * time.Minute, GracePeriod: time.Minute, StartDeadline: 10 * time.Minute,
		}),
		MaxConcurrent: 3, GracePeriod: time.Minute, SweepInterval: 20 * time.Millisecond,
	})
	if err != nil {
		tb.Fatal(err)
	}
	service, err := provision.New(provision.Config{
		Runs: engine, Credentials: anyCredential{}, SSHCredentials: anyCredential{}, Limits: provision.Limits{MaxWorkers: 100, APIAllowedCIDRs: []string{"203.0.113.0/24"}}, RunTimeout: 90 * time.Minute, Now: time.Now,
	})
	if err != nil {
		tb.Fatal(err)
	}
	digest := sha256.Sum256([]byte(apiKey))
	file, log := filepath.Join(tb.TempDir(), "keys"), slog.New(slog.DiscardHandler)
	if err := os.WriteFile(file, []byte("ops:"+hex.EncodeToString(digest[:])+"\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	keys, err := edge.OpenKeys(file, log)
	if err != nil {
		tb.Fatal(err)
	}
	handler, err := httpapi.New(service, edge.Config{Keys: keys, Log: log, Registry: prometheus.NewRegistry(), DigestKey: []byte("a-digest-key-of-the-test")})
	if err != nil {
		tb.Fatal(err)
	}
	server := httptest.NewServer(handler)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if err := engine.Run(tb.Context()); err != nil {
			tb.Errorf("engine: %v", err)
		}
	}()
	tb.Cleanup(func() { <-stopped }) // the context ends before
	tb.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// call runs the program and gives what it printed; the exit code must be the one
// that is wanted.
func (s *realService) call(want int, args ...string) (stdout, stderr string) {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(s.tb.Context(), time.Minute)
	defer cancel()
	var out, diagnostics strings.Builder
	cmd := exec.CommandContext(ctx, "kubeopera", args...)
	cmd.Env = []string{searchPath(s.tb), runnertest.NoExitSleep, "HOME=" + s.tb.TempDir(), "KUBEOPERA_URL=" + s.url, "KUBEOPERA_API_KEY=" + apiKey}
	cmd.Stdout, cmd.Stderr = &out, &diagnostics
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		s.tb.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != want {
		s.tb.Fatalf("%q: exit code %d, want %d\n%s%s", args, got, want, out.String(), diagnostics.String())
	}
	return out.String(), diagnostics.String()
}

// launched waits for the Job of a run.
func (s *realService) launched(id string) runs.ID {
	s.tb.Helper()
	for deadline := time.Now().Add(30 * time.Second); s.cluster.Job(runs.ID(id)) == nil; {
		if time.Now().After(deadline) {
			s.tb.Fatalf("run %s has no Job", id)
		}
		<-time.After(5 * time.Millisecond)
	}
	s.cluster.Start(runs.ID(id))
	return runs.ID(id)
}

// TestAgainstTheService: the program and the service's own handlers understand each
// other in every command.
func TestAgainstTheService(t *testing.T) {
	t.Parallel()
	s := newRealService(t)
	create := []string{"provision", "create", "--name", "acme", "--topology", "eks", "--region", "eu-west-1", "--kubernetes-version", "1.35", "--credential-id", "0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b", "-o", "name"}
	id := func(args ...string) string {
		t.Helper()
		out, _ := s.call(0, args...)
		return strings.TrimSpace(out)
	}
	run := id(append(create, "--idempotency-key", "k1")...)
	if again := id(append(create, "--idempotency-key", "k1")...); again != run {
		t.Errorf("the same key gave %s and %s", run, again)
	}
	if _, stderr := s.call(1, append(create, "--idempotency-key", "k1", "--worker-count", "5")...); !strings.Contains(stderr, "idempotency_key_reused") {
		t.Errorf("another request with the key: %s", stderr)
	}
	if _, stderr := s.call(9, create...); !strings.Contains(stderr, "see: kubeopera provision get "+run) {
		t.Errorf("a busy environment: %s", stderr)
	}
	if _, stderr := s.call(1, "provision", "create", "--name", "Acme"); !strings.Contains(stderr, "body.name: ") || !strings.Contains(stderr, "request id: ") {
		t.Errorf("a wrong request: %s", stderr)
	}

	// A wait sees what the pod does, and its end.
	job := s.launched(run)
	s.cluster.SetLog(job, "one\ntwo\n")
	ended := make(chan [2]string)
	go func() {
		stdout, stderr := s.call(0, "provision", "get", run, "--wait", "-o", "json")
		ended <- [2]string{stdout, stderr}
	}()
	s.call(5, "provision", "get", run, "--wait", "-q", "--timeout", "200ms")
	s.cluster.Publish(job, runcontract.KeyKubeconfig, kubeconfigOf(t, newFakeAPI(t)))
	s.cluster.Finish(job, 0, &runcontract.Result{Outcome: runcontract.OutcomeSucceeded, Phase: api.PhaseDone})
	got := <-ended
	var last api.Provision
	if err := json.Unmarshal([]byte(got[0]), &last); err != nil || last.Status != api.StatusSucceeded {
		t.Errorf("wait: %v\n%s", err, got[0])
	}
	if !strings.Contains(got[1], "succeeded") {
		t.Errorf("lines:\n%s", got[1])
	}

	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"get", run}, "succeeded"},
		{[]string{"list", "--environment", "acme", "--status", "succeeded", "--operation", "apply", "--created-after", "1h"}, run},
		{[]string{"list", "--created-before", "1h", "-o", "json"}, `"provisions": []`},
		{[]string{"logs", run, "--tail", "1"}, "two"},
		{[]string{"logs", run, "--follow"}, "one\ntwo\n"},
		{[]string{"events", run}, "succeeded"},
		{[]string{"kubeconfig", run}, "https://acme.example.com:6443"},
	} {
		if out, _ := s.call(0, append([]string{"provision"}, c.args...)...); !strings.Contains(out, c.want) {
			t.Errorf("%q: no %q in\n%s", c.args, c.want, out)
		}
	}
	s.call(6, "provision", "get", "019ae2c5-6d1f-7c3e-8a55-0d6f6e6f2b11")
	s.call(9, "provision", "retry", run)
	s.call(9, "provision", "cancel", run)

	// Destroy, cancelled; then again.
	destroy := id("provision", "destroy", run, "--yes", "-o", "name")
	s.cluster.Finish(s.launched(destroy), runcontract.ExitInternal, &runcontract.Result{Outcome: runcontract.OutcomeFailed, Phase: api.PhaseDestroy, ErrorCode: runcontract.CodeTerraformApply, Message: "no"})
	if _, stderr := s.call(3, "provision", "get", destroy, "--wait", "-q"); !strings.Contains(stderr, "failed: no") {
		t.Errorf("a run that failed: %s", stderr)
	}
	retry := id("provision", "retry", destroy, "-o", "name")
	s.launched(retry)
	s.call(9, "provision", "cancel", retry, "--force")
	s.call(0, "provision", "cancel", retry)
	s.cluster.Finish(runs.ID(retry), 0, &runcontract.Result{Outcome: runcontract.OutcomeSucceeded, Phase: api.PhaseDone})
	s.call(0, "provision", "get", retry, "--wait", "-q") // a destroy that finished has succeeded
	if _, stderr := s.call(1, "provision", "kubeconfig", run); !strings.Contains(stderr, "kubeconfig_gone") {
		t.Errorf("kubeconfig of a destroyed cluster: %s", stderr)
	}
	unlock := id("provision", "unlock", destroy, "--lock-id", "6a3e0c3e-9f7e-4f2e-b2a4-0e6f3a1d2c11", "-o", "name")
	s.launched(unlock)
	s.call(0, "provision", "cancel", unlock)
	s.cluster.Finish(runs.ID(unlock), runcontract.ExitInternal, &runcontract.Result{Outcome: runcontract.OutcomeCancelled, Phase: api.PhaseUnlock})
	s.call(4, "provision", "get", unlock, "--wait", "-q")

	plan := create
	plan[1] = "plan"
	planned := id(plan...)
	s.cluster.Finish(s.launched(planned), 0, &runcontract.Result{Outcome: runcontract.OutcomeSucceeded, Phase: api.PhaseDone, Message: "plan: 3 to add, 0 to change, 0 to destroy", Changes: &api.Changes{Add: 3}})
	if out, _ := s.call(0, "provision", "get", planned, "--wait", "-q"); !strings.Contains(out, "3 to add, 0 to change") || !strings.Contains(out, "plan") {
		t.Errorf("plan:\n%s", out)
	}
}

// kubeconfigOf is what the fake publishes for acme.
func kubeconfigOf(tb testing.TB, f *fakeAPI) []byte {
	tb.Helper()
	defer f.server.Close()
	w := httptest.NewRecorder()
	f.kubeconfig(w, api.Provision{ID: "run-1", Name: "acme", TerraformEnvironment: "acme", RunStatus: api.RunStatus{Status: api.StatusSucceeded}})
	return w.Body.Bytes()
}
