package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runserver/runservertest"
	"github.com/kubeopera/platform/sim/authservice"
	"github.com/kubeopera/platform/sim/controlplane"
	"github.com/kubeopera/platform/sim/controlplane/controlplanetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const namespace = "kubeopera-provisioning"

func TestHelp(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, func(string) string { return "" }, &stdout, &stderr); err != nil || !strings.Contains(stdout.String(), "GITOPS_REPOSITORY_URL") {
		t.Errorf("error %v, stdout %s", err, &stdout)
	}
}

// TestServe runs the whole service against a real API server: a request becomes a
// Secret, a row, a ConfigMap and a Job, and no secret leaves the Secret.
func TestServe(t *testing.T) {
	t.Parallel()
	const canary = "canary-of-the-test"
	plane := controlplanetest.Start(t, controlplane.Config{})
	admin := kubernetes.NewForConfigOrDie(plane.RESTConfig())
	if _, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	authServer := httptest.NewServer(authservice.New("auth-key"))
	t.Cleanup(authServer.Close)
	kubeconfig, err := plane.AdminKubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256([]byte("caller-key"))
	database := filepath.Join(t.TempDir(), "runs.db")
	service := runservertest.Start(t, run, map[string]string{
		"LISTEN_ADDRESS":            "127.0.0.1:0",
		"DATABASE_URL":              "sqlite://" + database,
		"API_KEYS_FILE":             runservertest.File(t, "keys", "tester:"+hex.EncodeToString(digest[:])),
		"AUTH_SERVICE_URL":          authServer.URL,
		"AUTH_SERVICE_API_KEY_FILE": runservertest.File(t, "auth-key", "auth-key"),
		"KUBECONFIG":                runservertest.File(t, "kubeconfig", string(kubeconfig)),
		"GITOPS_REPOSITORY_URL":     "https://git.example.com/platform/gitops.git",
		"GITOPS_TOKEN_FILE":         runservertest.File(t, "token", canary),
		"DIGEST_KEY_FILE":           runservertest.File(t, "digest", strings.Repeat(canary, 3)),
		"LOG_LEVEL":                 "debug",
	})
	for _, path := range []string{"/health", "/ready", "/openapi.json", "/metrics"} {
		if status, body := service.Get(t, path); status != http.StatusOK {
			t.Errorf("%s: status %d: %s", path, status, body)
		}
	}
	c, err := client.NewScaffolder(client.Config{BaseURL: service.URL, APIKey: "caller-key"})
	if err != nil {
		t.Fatal(err)
	}
	request := api.ScaffoldRequest{
		Environment: "acme-prod", Domain: "acme.example.com", Region: "eu-west-1", Email: "ops@acme.example.com",
		Target:   api.ScaffoldTarget{Kubeconfig: string(kubeconfig)},
		Registry: api.ScaffoldRegistry{Server: "registry.example.com", Username: "robot", Password: canary},
	}
	started, err := c.StartScaffold(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if started.Status != api.StatusQueued || started.RequestedBy != "tester" || started.Server == "" {
		t.Errorf("new run %+v", started)
	}
	job := runservertest.WaitForJob(t, admin, namespace, runcontract.JobName(runcontract.KindScaffold, started.ID))
	configMap, err := admin.CoreV1().ConfigMaps(namespace).Get(t.Context(), job.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runcontract.ReadScaffoldSpec([]byte(configMap.Data[runcontract.SpecFile])); err != nil {
		t.Errorf("the runner cannot read the spec: %v", err)
	}
	secret, err := admin.CoreV1().Secrets(namespace).Get(t.Context(), runcontract.CredentialSecretName(runcontract.KindScaffold, started.ID), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if string(secret.Data[runcontract.CredentialRegistryPasswordFile]) != canary || string(secret.Data[runcontract.CredentialGitTokenFile]) != canary {
		t.Error("the credential Secret does not hold what the run needs")
	}
	if _, err := c.StartScaffold(t.Context(), request); !client.IsConflict(err) {
		t.Errorf("second run of the environment: %v", err)
	}
	request.Environment, request.Target = "other", api.ScaffoldTarget{ProvisionID: "0f8b7a52-2f3c-7b63-9a0e-0c1d2e3f4a5b"}
	if _, err := c.StartScaffold(t.Context(), request); client.Status(err) != http.StatusUnprocessableEntity {
		t.Errorf("a provisioned cluster without a cluster-provisioner: %v", err)
	}

	log := service.Stop(t)
	stored, err := os.ReadFile(database)
	if err != nil {
		t.Fatal(err)
	}
	text := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for where, content := range map[string]string{"Job": text(job), "ConfigMap": text(configMap), "log": log, "database": string(stored)} {
		if strings.Contains(content, canary) || strings.Contains(content, "PRIVATE KEY") {
			t.Errorf("the %s holds a secret", where)
		}
		if content == "" {
			t.Errorf("no %s to look at", where)
		}
	}
}
