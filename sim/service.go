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

	"github.com/kubeopera/platform/sim/process"
)

// stopGrace is how long a service may take to end after SIGTERM.
const stopGrace = 30 * time.Second

// Service is a service's process: the real binary under its own
// ServiceAccount. It keeps its address, key and database over restarts.
type Service struct {
	binary string
	dir    string
	env    map[string]string
	addr   string
	key    string

	process *process.Process // nil while it is down
}

// newService prepares a service; dir gets its database, keys and log.
func newService(ctx context.Context, binary, dir string, env map[string]string) (*Service, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	key := rand.Text()
	digest := sha256.Sum256([]byte(key))
	keysFile := filepath.Join(dir, "api-keys")
	if err := os.WriteFile(keysFile, []byte("simulator:"+hex.EncodeToString(digest[:])+"\n"), 0o600); err != nil {
		return nil, err
	}
	port, err := process.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	s := &Service{binary: binary, dir: dir, addr: addr, key: key, env: maps.Clone(env)}
	s.env["LISTEN_ADDRESS"] = addr
	s.env["API_KEYS_FILE"] = keysFile
	if s.env["DATABASE_URL"] == "" {
		s.env["DATABASE_URL"] = "sqlite://" + s.Database()
	}
	return s, nil
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
