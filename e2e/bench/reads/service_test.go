package reads

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/kubeopera/platform/e2e/harness"
	"github.com/kubeopera/platform/shared/client"
	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/sim"
	"github.com/kubeopera/platform/sim/authservice"
)

const credentialID = "0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b"

// service is the real program, with the configuration that a deployment has.
type service struct {
	binary string
	url    string
	key    string
	env    []string
	log    string // path

	process *exec.Cmd // nil while it is down
}

// build builds the service's program.
func build(tb testing.TB) (binary string) {
	tb.Helper()
	root, err := sim.FindRoot(".")
	if err != nil {
		tb.Fatal(err)
	}
	binary = filepath.Join(tb.TempDir(), "cluster-provisioner")
	command := exec.CommandContext(tb.Context(), "go", "build", "-o", binary, "./provisioner/cmd/cluster-provisioner")
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		tb.Fatalf("build the service: %v\n%s", err, out)
	}
	return binary
}

// newService prepares a service and its auth-service. It is not started.
func newService(tb testing.TB, binary, kubeconfig, namespace, database string) *service {
	tb.Helper()
	auth := authservice.New("auth-key")
	auth.PutAccessKey(credentialID, "bench", cloudcred.AccessKey{ID: "AKIAIOSFODNN7EXAMPLE", Secret: "not-a-secret"})
	authServer := httptest.NewServer(auth)
	tb.Cleanup(authServer.Close)
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil { // the service takes it over
		tb.Fatal(err)
	}
	dir := tb.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
			tb.Fatal(err)
		}
		return path
	}
	s := &service{binary: binary, url: "http://" + address, key: rand.Text(), log: filepath.Join(dir, "log")}
	digest := sha256.Sum256([]byte(s.key))
	s.env = []string{
		"LISTEN_ADDRESS=" + address,
		"DATABASE_URL=" + database,
		"API_KEYS_FILE=" + write("keys", "bench:"+hex.EncodeToString(digest[:])),
		"AUTH_SERVICE_URL=" + authServer.URL,
		"AUTH_SERVICE_API_KEY_FILE=" + write("auth-key", "auth-key"),
		"KUBECONFIG=" + kubeconfig,
		"NAMESPACE=" + namespace,
		"MODULES_REPOSITORY_URL=https://git.example.com/gitops-iac.git",
		"MODULES_REPOSITORY_REF=v1.2.3",
		"API_ALLOWED_CIDRS=203.0.113.0/24",
		fmt.Sprintf("MAX_CONCURRENT_RUNS=%d", 2*live),
	}
	tb.Cleanup(func() { s.stop(tb) })
	return s
}

// start starts the service and waits until it is ready.
func (s *service) start(tb testing.TB) {
	tb.Helper()
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the service has it
	s.process = exec.CommandContext(context.WithoutCancel(tb.Context()), s.binary)
	s.process.Env, s.process.Stdout, s.process.Stderr = s.env, log, log
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.process.Start(); err != nil {
		tb.Fatal(err)
	}
	harness.Until(tb, "the service is ready", func() (bool, error) {
		err := s.get(tb.Context(), http.DefaultClient, "/ready")
		return err == nil, err
	})
}

// stop stops the service, if it runs.
func (s *service) stop(tb testing.TB) {
	tb.Helper()
	if s.process == nil {
		return
	}
	_ = s.process.Process.Signal(syscall.SIGTERM) // it may have ended
	if err := s.process.Wait(); err != nil {
		tb.Errorf("the service: %v; its log is %s", err, s.log)
	}
	s.process = nil
}

// get reads an answer of the service to its end; all but 200 is an error.
func (s *service) get(ctx context.Context, c *http.Client, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("X-Api-Key", s.key)
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // only read from
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, response.Status)
	}
	return nil
}

// client is a client of the service.
func (s *service) client(tb testing.TB) *client.Provisioner {
	tb.Helper()
	c, err := client.NewProvisioner(client.Config{BaseURL: s.url, APIKey: s.key})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}
