package e2e

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

// request asks for a small EKS cluster.
func request(name string) api.ProvisionRequest {
	return api.ProvisionRequest{
		Name:               name,
		Topology:           api.TopologyEKS,
		Region:             "eu-west-1",
		CredentialID:       platform.Credential,
		KubernetesVersion:  "1.35",
		WorkerCount:        new(2),
		WorkerInstanceType: "t3.large",
		Tags:               map[string]string{"team": "e2e"},
	}
}

// wait follows a run to its end.
func wait(t *testing.T, id string, progress func(api.Provision)) api.Provision {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	run, err := provisioner(t).Wait(ctx, id, func(run api.Provision) {
		t.Logf("%s %s %v %s", run.Status, run.Phase, run.Progress, run.Message)
		if progress != nil {
			progress(run)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// wantProblem fails the test unless err is a problem of that status and code.
func wantProblem(t *testing.T, err error, status int, code string) *api.Problem {
	t.Helper()
	var problem *api.Problem
	if !errors.As(err, &problem) || problem.Status != status || problem.Code != code {
		t.Fatalf("got %v, want a problem %d %s", err, status, code)
	}
	return problem
}

// until polls a condition.
func until(t *testing.T, what string, condition func() (bool, error)) {
	t.Helper()
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
			t.Fatalf("waited a minute until %s; last error: %v", what, err)
		case <-tick.C:
		}
	}
}

// jobs are the Jobs of an environment.
func jobs(t *testing.T, environment string) []batchv1.Job {
	t.Helper()
	list, err := platform.Kubernetes.BatchV1().Jobs(sim.RunNamespace).List(t.Context(), metav1.ListOptions{
		LabelSelector: runcontract.LabelEnvironment + "=" + environment,
	})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// credentialSecrets are the names of the credential Secrets that there are.
func credentialSecrets(t *testing.T) []string {
	t.Helper()
	list, err := platform.Kubernetes.CoreV1().Secrets(sim.RunNamespace).List(t.Context(), metav1.ListOptions{
		LabelSelector: runcontract.LabelComponent + "=" + runcontract.ComponentCredential,
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, secret := range list.Items {
		names = append(names, secret.Name)
	}
	return names
}

// logs is a run's whole log.
func logs(t *testing.T, id string) string {
	t.Helper()
	stream, err := provisioner(t).Logs(t.Context(), id, client.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	text, err := io.ReadAll(stream)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
