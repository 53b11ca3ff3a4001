package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runserver/runservertest"
	"github.com/kubeopera/platform/sim/authservice"
	"github.com/kubeopera/platform/sim/controlplane"
	"github.com/kubeopera/platform/sim/controlplane/controlplanetest"
)

const (
	namespace    = "kubeopera-provisioning"
	credentialID = "0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b"
	canary       = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
)

// TestServe runs the whole service against a real API server: a request becomes
// a Secret, a row, a ConfigMap and a Job, and no credential leaves the Secret.
func TestServe(t *testing.T) {
	t.Parallel()
	plane := controlplanetest.Start(t, controlplane.Config{})
	admin := kubernetes.NewForConfigOrDie(plane.RESTConfig())
	if _, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	auth := authservice.New("auth-key")
	auth.PutAccessKey(credentialID, "acme", cloudcred.AccessKey{ID: "AKIAIOSFODNN7EXAMPLE", Secret: canary})
	authServer := httptest.NewServer(auth)
	t.Cleanup(authServer.Close)

	dir := t.TempDir()
	kubeconfig, err := plane.AdminKubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256([]byte("caller-key"))
	env := map[string]string{
		"LISTEN_ADDRESS":            "127.0.0.1:0",
		"DATABASE_URL":              "sqlite://" + filepath.Join(dir, "runs.db"),
		"API_KEYS_FILE":             runservertest.File(t, "keys", "tester:"+hex.EncodeToString(digest[:])),
		"AUTH_SERVICE_URL":          authServer.URL,
		"AUTH_SERVICE_API_KEY_FILE": runservertest.File(t, "auth-key", "auth-key"),
		"KUBECONFIG":                runservertest.File(t, "kubeconfig", string(kubeconfig)),
		"MODULES_REPOSITORY_URL":    "https://git.example.com/gitops-iac.git",
		"MODULES_REPOSITORY_REF":    "v1.2.3",
		"API_ALLOWED_CIDRS":         "203.0.113.0/24",
		"LOG_LEVEL":                 "debug",
	}
	service := runservertest.Start(t, run, env)
	c, err := client.NewProvisioner(client.Config{BaseURL: service.URL, APIKey: "caller-key"})
	if err != nil {
		t.Fatal(err)
	}

	for _, path := range []string{"/health", "/ready", "/openapi.json", "/metrics"} {
		if status, body := service.Get(t, path); status != http.StatusOK {
			t.Errorf("%s: status %d: %s", path, status, body)
		}
	}
	if _, body := service.Get(t, "/ready"); !strings.Contains(body, `"schema_version":"2"`) {
		t.Errorf("/ready does not show the schema: %s", body)
	}
	run, err := c.StartProvision(t.Context(), api.ProvisionRequest{
		Name: "acme-prod", Topology: api.TopologyEKS, Region: "eu-west-1", CredentialID: credentialID, KubernetesVersion: "1.35",
	})
	if err != nil {
		t.Fatal(err)
	}
	if run.Status != api.StatusQueued || run.RequestedBy != "tester" {
		t.Errorf("new run %+v", run)
	}
	job := runservertest.WaitForJob(t, admin, namespace, runcontract.JobName(runcontract.KindProvision, run.ID))
	configMap, err := admin.CoreV1().ConfigMaps(namespace).Get(t.Context(), job.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret, err := admin.CoreV1().Secrets(namespace).Get(t.Context(), runcontract.CredentialSecretName(runcontract.KindProvision, run.ID), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(secret.Data[runcontract.CredentialKeysFile]), canary) {
		t.Error("the credential Secret does not hold the key")
	}
	if _, err := c.Kubeconfig(t.Context(), run.ID); !isProblem(err, http.StatusConflict) {
		t.Errorf("kubeconfig before success: %v", err)
	}
	_, err = c.StartProvision(t.Context(), api.ProvisionRequest{
		Name: "acme-prod", Topology: api.TopologyEKS, Region: "eu-west-1", CredentialID: credentialID, KubernetesVersion: "1.35",
	})
	if !isProblem(err, http.StatusConflict) {
		t.Errorf("second run of the environment: %v", err)
	}

	if _, body := service.Get(t, "/metrics"); !strings.Contains(body, `status="running"`) {
		t.Errorf("/metrics does not show the runs:\n%s", body)
	}

	log := service.Stop(t)
	database, err := os.ReadFile(filepath.Join(dir, "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	for where, content := range map[string]string{"Job": marshal(t, job), "ConfigMap": marshal(t, configMap), "log": log, "database": string(database)} {
		if strings.Contains(content, canary) {
			t.Errorf("the %s holds the credential", where)
		}
		if content == "" {
			t.Errorf("no %s to look at", where)
		}
	}
}

func isProblem(err error, status int) bool {
	p, ok := errors.AsType[*api.Problem](err)
	return ok && p.Status == status
}

func marshal(tb testing.TB, v any) string {
	tb.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}
