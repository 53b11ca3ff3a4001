package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/runcontract"
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
		"API_KEYS_FILE":             write(t, dir, "keys", "tester:"+hex.EncodeToString(digest[:])),
		"AUTH_SERVICE_URL":          authServer.URL,
		"AUTH_SERVICE_API_KEY_FILE": write(t, dir, "auth-key", "auth-key"),
		"KUBECONFIG":                write(t, dir, "kubeconfig", string(kubeconfig)),
		"MODULES_REPOSITORY_URL":    "https://git.example.com/gitops-iac.git",
		"MODULES_REPOSITORY_REF":    "v1.2.3",
		"API_ALLOWED_CIDRS":         "203.0.113.0/24",
		"LOG_LEVEL":                 "debug",
	}
	service := start(t, env)
	c, err := client.NewProvisioner(client.Config{BaseURL: "http://" + service.address, APIKey: "caller-key"})
	if err != nil {
		t.Fatal(err)
	}

	for _, path := range []string{"/health", "/ready", "/openapi.json", "/metrics"} {
		if status, body := get(t, "http://"+service.address+path); status != http.StatusOK {
			t.Errorf("%s: status %d: %s", path, status, body)
		}
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
	job := waitForJob(t, admin, runcontract.JobName(runcontract.KindProvision, run.ID))
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

	log := service.stop(t)
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

type running struct {
	address string
	cancel  context.CancelFunc
	ended   chan error
	logged  chan string // the whole log, once it has ended
}

// start runs the program until stop, and returns once it listens.
func start(tb testing.TB, env map[string]string) *running {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	reader, writer := io.Pipe()
	r := &running{cancel: cancel, ended: make(chan error, 1), logged: make(chan string, 1)}
	go func() {
		err := run(ctx, nil, func(name string) string { return env[name] }, io.Discard, writer)
		_ = writer.Close() // the reader sees the end
		r.ended <- err
	}()
	address := make(chan string, 1)
	go func() {
		var all strings.Builder
		for lines := bufio.NewScanner(reader); lines.Scan(); {
			all.WriteString(lines.Text() + "\n")
			var entry struct{ Msg, Address string }
			if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Msg == "listening" {
				address <- entry.Address
			}
		}
		r.logged <- all.String()
	}()
	select {
	case r.address = <-address:
	case err := <-r.ended:
		cancel()
		tb.Fatalf("ended at its start: %v\n%s", err, <-r.logged)
	case <-time.After(time.Minute):
		cancel()
		tb.Fatal("does not listen")
	}
	tb.Cleanup(cancel)
	return r
}

// stop ends the program and gives its log.
func (r *running) stop(tb testing.TB) string {
	tb.Helper()
	r.cancel()
	select {
	case err := <-r.ended:
		if err != nil {
			tb.Errorf("ended with %v", err)
		}
	case <-time.After(30 * time.Second):
		tb.Fatal("does not stop")
	}
	return <-r.logged
}

func waitForJob(tb testing.TB, admin kubernetes.Interface, name string) *batchv1.Job {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		job, err := admin.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			return job
		}
		if !apierrors.IsNotFound(err) {
			tb.Fatalf("waiting for Job %s: %v", name, err)
		}
		<-tick.C
	}
}

func get(tb testing.TB, url string) (int, string) {
	tb.Helper()
	request, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, url, nil)
	if err != nil {
		tb.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		tb.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	err = errors.Join(err, response.Body.Close())
	if err != nil {
		tb.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func isProblem(err error, status int) bool {
	p, ok := errors.AsType[*api.Problem](err)
	return ok && p.Status == status
}

func write(tb testing.TB, dir, name, content string) string {
	tb.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

func marshal(tb testing.TB, v any) string {
	tb.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}
