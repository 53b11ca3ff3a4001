package clusters

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/kubeopera/platform/scaffolder/internal/scaffold"
	"github.com/kubeopera/platform/shared/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const id = "0f8b7a52-2f3c-7b63-9a0e-0c1d2e3f4a5b"

// provisioner answers as cluster-provisioner does.
func provisioner(status api.Status, kubeconfigStatus int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		problem := func(status int, code, detail string) {
			w.Header().Set("Content-Type", api.ProblemContentType)
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(api.Problem{Status: status, Code: code, Detail: detail})
		}
		switch {
		case r.Header.Get("X-Api-Key") != "key":
			problem(http.StatusUnauthorized, "unauthorized", "no")
		case !strings.Contains(r.URL.Path, id):
			problem(http.StatusNotFound, "provision_not_found", "there is no run of that id")
		case strings.HasSuffix(r.URL.Path, "/kubeconfig") && kubeconfigStatus != http.StatusOK:
			problem(kubeconfigStatus, "kubeconfig_gone", "the cluster was destroyed by run x")
		case strings.HasSuffix(r.URL.Path, "/kubeconfig"):
			_, _ = w.Write([]byte("kind: Config\n"))
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(api.Provision{ID: id, CredentialID: "c", RunStatus: api.RunStatus{Status: status}})
		}
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name    string
		handler http.HandlerFunc
		key, id string
		want    error
		says    string
	}{
		{"it has succeeded", provisioner(api.StatusSucceeded, 200), "key", id, nil, ""},
		{"it is running", provisioner(api.StatusRunning, 200), "key", id, scaffold.ErrNoCluster, "running"},
		{"it has failed", provisioner(api.StatusFailed, 200), "key", id, scaffold.ErrNoCluster, "retry"},
		{"it was destroyed", provisioner(api.StatusSucceeded, 410), "key", id, scaffold.ErrNoCluster, "destroyed by run x"},
		{"it was a plan", provisioner(api.StatusSucceeded, 409), "key", id, scaffold.ErrNoCluster, "succeeded"},
		{"nobody knows it", provisioner(api.StatusSucceeded, 200), "key", "0f8b7a52-2f3c-7b63-9a0e-0c1d2e3f4a5c", scaffold.ErrProvisionNotFound, ""},
		{"the key is refused", provisioner(api.StatusSucceeded, 200), "other", id, scaffold.ErrProvisionerForbidden, ""},
		{"a proxy answers", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such host", http.StatusNotFound) }, "key", id, scaffold.ErrProvisionerUnavailable, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(c.handler)
			t.Cleanup(server.Close)
			file := filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(file, []byte(c.key+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			p, err := New(server.URL, file)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.http.CloseIdleConnections)
			got, err := p.Cluster(t.Context(), c.id)
			if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %v that says %q", err, c.want, c.says)
			}
			if c.want == nil && (string(got.Kubeconfig) != "kind: Config\n" || got.CredentialID != "c") {
				t.Errorf("cluster %+v", got)
			}
		})
	}
}

func TestACallerWhoLeaves(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(provisioner(api.StatusSucceeded, 200))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("key"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := New(server.URL, file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.http.CloseIdleConnections)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Cluster(ctx, id); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
