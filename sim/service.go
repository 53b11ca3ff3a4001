package sim

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubeopera/platform/sim/faultproxy"
	"github.com/kubeopera/platform/sim/process"
)

// stopGrace is how long a service may take to end after SIGTERM.
const stopGrace = 30 * time.Second

// Service is a service's process: the real binary under its own
// ServiceAccount. It keeps its address, key and database over restarts.
type Service struct {
	API *faultproxy.Proxy // the host cluster's API server as this service sees it

	binary string
	dir    string
	env    map[string]string
	addr   string
	key    string

	process *process.Process // nil while it is down
}

// newService prepares the service of that name, which is its ServiceAccount's as
// well. It gets what every service is configured with, and env on top. It is not
// started; Stop stops it.
func (s *Simulator) newService(ctx context.Context, name, binary string, env map[string]string) (*Service, error) {
	dir := filepath.Join(s.config.Dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	proxy, err := faultproxy.Start(ctx, s.Host.URL(), s.Host.CABundle(), s.log)
	if err != nil {
		return nil, err
	}
	s.onStop(func(context.Context) error { return proxy.Close() })
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := s.writeServiceKubeconfig(ctx, name, proxy, kubeconfig); err != nil {
		return nil, err
	}
	port, err := process.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	service := &Service{API: proxy, binary: binary, dir: dir, addr: fmt.Sprintf("127.0.0.1:%d", port)}
	service.env = map[string]string{
		"LISTEN_ADDRESS":            service.addr,
		"API_KEYS_FILE":             filepath.Join(dir, "api-keys"),
		"DATABASE_URL":              "sqlite://" + service.Database(),
		"KUBECONFIG":                kubeconfig,
		"AUTH_SERVICE_URL":          s.authURL,
		"AUTH_SERVICE_API_KEY_FILE": s.authKeyFile,
		"RUNNER_ENV":                "AWS_ENDPOINT_URL=" + s.AWS.URL() + ",AWS_ENDPOINT_URL_STS=" + s.AWS.URL(), // a role's sessions need the second
		"SWEEP_INTERVAL":            "1s",
		"LOG_LEVEL":                 "debug",
	}
	maps.Copy(service.env, env)
	if service.key, err = service.addCaller("simulator"); err != nil {
		return nil, err
	}
	s.onStop(func(context.Context) error { return service.Stop() })
	return service, nil
}

// writeServiceKubeconfig writes the kubeconfig with which a service reaches the
// API server through its proxy.
func (s *Simulator) writeServiceKubeconfig(ctx context.Context, account string, proxy *faultproxy.Proxy, file string) error {
	direct, err := s.Host.ServiceAccountKubeconfig(ctx, ServiceNamespace, account, 24*time.Hour)
	if err != nil {
		return err
	}
	config, err := clientcmd.Load(direct)
	if err != nil {
		return err
	}
	for _, cluster := range config.Clusters {
		cluster.Server = proxy.URL()
		cluster.CertificateAuthorityData = proxy.CA()
	}
	return clientcmd.WriteToFile(*config, file)
}

// addCaller gives somebody an API key of the service, which it reads when it
// starts.
func (s *Service) addCaller(name string) (key string, err error) {
	key = rand.Text()
	digest := sha256.Sum256([]byte(key))
	file, err := os.OpenFile(s.env["API_KEYS_FILE"], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, err = fmt.Fprintf(file, "%s:%s\n", name, hex.EncodeToString(digest[:]))
	return key, errors.Join(err, file.Close())
}

// Replica is a second process of the service: the same program, configuration,
// keys and database at another address. It is not started.
func (s *Service) Replica(ctx context.Context) (*Service, error) {
	port, err := process.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	replica := *s
	replica.addr, replica.process = addr, nil
	replica.env = maps.Clone(s.env)
	replica.env["LISTEN_ADDRESS"] = addr
	return &replica, nil
}

// URL is where the service listens.
func (s *Service) URL() string { return "http://" + s.addr }

// Key is a valid API key of the service.
func (s *Service) Key() string { return s.key }

// Database is the path of the service's SQLite database.
func (s *Service) Database() string { return filepath.Join(s.dir, "database.db") }

// LogFile is where the service's log goes.
func (s *Service) LogFile() string { return filepath.Join(s.dir, "service.log") }

// Start starts the service, with overrides of its configuration for this one
// life, and returns once it is ready.
func (s *Service) Start(ctx context.Context, overrides map[string]string) error {
	if s.process != nil {
		return errors.New("the service is running already")
	}
	env := maps.Clone(s.env)
	maps.Copy(env, overrides)
	var list []string
	for _, key := range slices.Sorted(maps.Keys(env)) {
		list = append(list, key+"="+env[key])
	}
	running, err := process.Start(ctx, s.binary, s.LogFile(), list)
	if err != nil {
		return err
	}
	s.process = running
	if err := s.waitReady(ctx); err != nil {
		s.Kill()
		return err
	}
	return nil
}

// Kill ends the service as a crash does.
func (s *Service) Kill() {
	if s.process != nil {
		s.process.Kill()
		s.process = nil
	}
}

// Stop ends the service gracefully.
func (s *Service) Stop() error {
	if s.process == nil {
		return nil
	}
	err := s.process.Stop(stopGrace)
	s.process = nil
	return err
}

// Crash ends the process without waiting for it, so that it may be called
// while a request of the service is being held. Kill must follow.
func (s *Service) Crash() {
	if s.process != nil {
		s.process.Crash()
	}
}

func (s *Service) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		if last = s.ready(ctx); last == nil {
			return nil
		}
		select {
		case <-s.process.Ended():
			return fmt.Errorf("%s ended at its start: %w\n%s", filepath.Base(s.binary), s.process.Err(), lastLines(s.LogFile(), 10))
		case <-ctx.Done():
			return fmt.Errorf("%s did not become ready: %w\n%s", filepath.Base(s.binary), last, lastLines(s.LogFile(), 10))
		case <-tick.C:
		}
	}
}

func (s *Service) ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/ready", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET /ready: %s", response.Status)
	}
	return nil
}

func lastLines(file string, n int) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
