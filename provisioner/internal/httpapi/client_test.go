package httpapi

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
	"github.com/kubeopera/platform/shared/runapi/runapitest"
	"github.com/kubeopera/platform/shared/runs"
)

// TestTheClientSpeaksThisAPI: what other services use is what is served.
func TestTheClientSpeaksThisAPI(t *testing.T) {
	t.Parallel()
	f := setup(t)
	server := httptest.NewServer(f.Handler)
	t.Cleanup(server.Close)
	t.Cleanup(server.Client().CloseIdleConnections)
	c, err := client.NewProvisioner(client.Config{BaseURL: server.URL, APIKey: runapitest.Key, HTTPClient: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	run, err := c.StartProvision(ctx, api.ProvisionRequest{
		Name: "acme-prod", Topology: api.TopologyEKS, Region: "eu-west-1", CredentialID: "0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b", KubernetesVersion: "1.35",
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Provision(ctx, run.ID); err != nil || got.ID != run.ID || got.Status != api.StatusQueued {
		t.Errorf("get: %+v, %v", got, err)
	}
	_, err = c.Kubeconfig(ctx, run.ID)
	if p, ok := errors.AsType[*api.Problem](err); !ok || p.Status != http.StatusConflict || p.Code != codeKubeconfigNotReady {
		t.Errorf("kubeconfig before success: %v", err)
	}
	f.runs.change(func(r *runs.Run) { r.Status = api.StatusSucceeded })
	f.runs.outputs[runs.ID(run.ID)] = "apiVersion: v1\n"
	f.runs.logs[runs.ID(run.ID)] = "one\ntwo\n"
	if kubeconfig, err := c.Kubeconfig(ctx, run.ID); err != nil || string(kubeconfig) != "apiVersion: v1\n" {
		t.Errorf("kubeconfig: %q, %v", kubeconfig, err)
	}
	f.runs.internal[runs.ID(run.ID)] = "kind: Config\n"
	if kubeconfig, err := c.InternalKubeconfig(ctx, run.ID); err != nil || string(kubeconfig) != "kind: Config\n" {
		t.Errorf("internal kubeconfig: %q, %v", kubeconfig, err)
	}
	log, err := c.Logs(ctx, run.ID, client.LogOptions{Follow: true, Tail: 1})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(log); err != nil || string(text) != "two\n" {
		t.Errorf("log: %q, %v", text, err)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	if list, err := c.Provisions(ctx, client.ListOptions{Status: api.StatusSucceeded, Environment: "acme-prod", Limit: 1}); err != nil || len(list.Provisions) != 1 {
		t.Errorf("list: %+v, %v", list, err)
	}
}
