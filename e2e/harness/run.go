package harness

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/sim"
)

// Provisioner is a client of cluster-provisioner.
func (p *Platform) Provisioner(tb testing.TB) *client.Provisioner {
	tb.Helper()
	c, err := client.NewProvisioner(client.Config{BaseURL: p.ClusterProvisioner.URL(), APIKey: p.ClusterProvisioner.Key()})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// Request asks for a small EKS cluster.
func (p *Platform) Request(name string) api.ProvisionRequest {
	return api.ProvisionRequest{
		Name:               name,
		Topology:           api.TopologyEKS,
		Region:             "eu-west-1",
		CredentialID:       p.Credential,
		KubernetesVersion:  "1.35",
		WorkerCount:        new(2),
		WorkerInstanceType: "t3.large",
		Tags:               map[string]string{"team": "e2e"},
	}
}

// Start starts a run.
func (p *Platform) Start(tb testing.TB, request api.ProvisionRequest) api.Provision {
	tb.Helper()
	run, err := p.Provisioner(tb).StartProvision(tb.Context(), request)
	if err != nil {
		tb.Fatal(err)
	}
	return run
}

// Wait follows a run to its end.
func (p *Platform) Wait(tb testing.TB, id string, progress func(api.Provision)) api.Provision {
	tb.Helper()
	return wait(tb, p.Provisioner(tb).Wait, id, func(run api.Provision) {
		logStatus(tb, run.RunStatus)
		if progress != nil {
			progress(run)
		}
	})
}

// wait follows a run of any service to its end, for at most five minutes.
func wait[Run any](tb testing.TB, follow func(context.Context, string, func(Run)) (Run, error), id string, progress func(Run)) Run {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 5*time.Minute)
	defer cancel()
	run, err := follow(ctx, id, progress)
	if err != nil {
		tb.Fatal(err)
	}
	return run
}

func logStatus(tb testing.TB, run api.RunStatus) {
	tb.Helper()
	tb.Logf("%s %s %v %s", run.Status, run.Phase, run.Progress, run.Message)
}

// Reaches waits until a run is in a phase, or past it and still live.
func (p *Platform) Reaches(tb testing.TB, id string, phase api.Phase) {
	tb.Helper()
	Until(tb, "run "+id+" is in phase "+string(phase), func() (bool, error) {
		run, err := p.Provisioner(tb).Provision(tb.Context(), id)
		if err == nil && run.FinishedAt != nil {
			tb.Fatalf("run %s ended %s (%s) before phase %s: %s", id, run.Status, run.ErrorCode, phase, run.Message)
		}
		return run.Phase == phase, err
	})
}

// WantProblem fails the test unless err is a problem of that status and code.
func WantProblem(tb testing.TB, err error, status int, code string) api.Problem {
	tb.Helper()
	problem, ok := errors.AsType[*api.Problem](err)
	if !ok || problem.Status != status || problem.Code != code {
		tb.Fatalf("got %v, want a problem %d %s", err, status, code)
	}
	return *problem
}

// Until polls a condition, for at most a minute.
func Until(tb testing.TB, what string, condition func() (bool, error)) {
	tb.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := condition()
		if ok {
			return
		}
		select {
		case <-deadline.C:
			tb.Fatalf("waited a minute until %s; last error: %v", what, err)
		case <-tick.C:
		}
	}
}

// Jobs are the Jobs of an environment.
func (p *Platform) Jobs(tb testing.TB, environment string) []batchv1.Job {
	tb.Helper()
	list, err := p.Kubernetes.BatchV1().Jobs(sim.RunNamespace).List(tb.Context(), metav1.ListOptions{
		LabelSelector: runcontract.LabelEnvironment + "=" + environment,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return list.Items
}

// CredentialSecrets are the names of the credential Secrets that there are.
func (p *Platform) CredentialSecrets(tb testing.TB) []string {
	tb.Helper()
	list, err := p.Kubernetes.CoreV1().Secrets(sim.RunNamespace).List(tb.Context(), metav1.ListOptions{
		LabelSelector: runcontract.LabelComponent + "=" + runcontract.ComponentCredential,
	})
	if err != nil {
		tb.Fatal(err)
	}
	var names []string
	for _, secret := range list.Items {
		names = append(names, secret.Name)
	}
	return names
}

// Logs is a run's whole log.
func (p *Platform) Logs(tb testing.TB, id string) string {
	tb.Helper()
	return logs(tb, p.Provisioner(tb).Logs, id)
}

func logs(tb testing.TB, open func(context.Context, string, client.LogOptions) (io.ReadCloser, error), id string) string {
	tb.Helper()
	stream, err := open(tb.Context(), id, client.LogOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	text, err := io.ReadAll(stream)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}
