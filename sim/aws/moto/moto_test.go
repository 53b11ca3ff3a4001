package moto_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kubeopera/platform/shared/skip"
	"github.com/kubeopera/platform/sim/aws/moto"
)

// childVariable makes the test binary the parent of a server instead of a test.
const childVariable = "KUBEOPERA_TEST_MOTO_SERVER"

func TestMain(m *testing.M) {
	if server, ok := os.LookupEnv(childVariable); ok {
		os.Exit(parent(server))
	}
	goleak.VerifyTestMain(m)
}

// parent starts a server, tells its process id, and waits to be killed.
func parent(server string) int {
	s, err := moto.Start(context.Background(), moto.Config{
		Server: server, LogFile: filepath.Join(os.TempDir(), "moto.log"), AccountID: "123456789012", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = fmt.Fprintln(os.Stdout, s.PID())
	<-s.Done()
	return 0
}

func find(t *testing.T) string {
	t.Helper()
	cache, ok := os.LookupEnv("KUBEOPERA_CACHE")
	if !ok {
		dir, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(dir, "kubeopera")
	}
	tools, err := moto.Find(t.Context(), cache, slog.New(slog.DiscardHandler))
	if errors.Is(err, moto.ErrMissing) {
		skip.Missing(t, skip.Moto, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	return tools.Server
}

func TestServerAnswersUntilClosed(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "moto.log")
	s, err := moto.Start(t.Context(), moto.Config{
		Server: find(t), LogFile: log, AccountID: "123456789012", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.URL().Hostname() != "127.0.0.1" {
		t.Errorf("listens at %s", s.URL())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(s.PID(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d: %v", s.PID(), err)
	}
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), "Running on") {
		t.Errorf("log: %q, %v", text, err)
	}
}

func TestServerDiesWithItsParent(t *testing.T) {
	t.Parallel()
	server := find(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childVariable+"="+server, "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the parent says nothing: %v, %v", err, cmd.Wait())
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed, and says so
	deadline := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for alive(pid) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there", pid)
		}
		<-tick.C
	}
}

// alive does not count a zombie that nobody has waited for yet.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, ok := strings.Cut(string(stat), ") ")
	return ok && !strings.HasPrefix(state, "Z")
}

func TestStartTellsWhyAServerEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := script(t, dir, "moto_server", "echo no module named moto >&2; exit 3")
	_, err := moto.Start(t.Context(), moto.Config{
		Server: server, LogFile: filepath.Join(dir, "log"), AccountID: "123456789012", Log: slog.New(slog.DiscardHandler),
	})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), filepath.Join(dir, "log")) {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "log")); err != nil || !strings.Contains(string(text), "no module named moto") {
		t.Errorf("log: %q, %v", text, err)
	}
}

func script(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFindTellsWhatIsMissing(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	tests := []struct {
		name    string
		scripts map[string]string
		cache   bool
		want    string
	}{
		{name: "no cache directory", want: "no cache directory"},
		{name: "no python", cache: true, want: "python3 is not on PATH"},
		{name: "no venv", cache: true, scripts: map[string]string{"python3": "echo ensurepip is not available >&2; exit 1"}, want: "ensurepip is not available"},
		{name: "no package", cache: true, scripts: map[string]string{
			"python3": `/bin/mkdir -p "$3/bin"; printf '#!/bin/sh\necho no matching distribution >&2; exit 1\n' >"$3/bin/pip"; /bin/chmod +x "$3/bin/pip"`,
		}, want: "no matching distribution"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, cache := t.TempDir(), ""
			for name, text := range tt.scripts {
				script(t, dir, name, text)
			}
			if tt.cache {
				cache = t.TempDir()
			}
			t.Setenv("PATH", dir)
			_, err := moto.Find(t.Context(), cache, log)
			if !errors.Is(err, moto.ErrMissing) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestFindInstallsOnce(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	calls := filepath.Join(dir, "calls")
	script(t, dir, "python3", `/bin/mkdir -p "$3/bin"; printf '#!/bin/sh\necho "$4" >>`+calls+`\n' >"$3/bin/pip"; /bin/chmod +x "$3/bin/pip"`)
	t.Setenv("PATH", dir)
	for range 2 {
		tools, err := moto.Find(t.Context(), cache, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(tools.Server, cache) || !strings.HasPrefix(tools.AWS, cache) {
			t.Errorf("tools: %+v", tools)
		}
	}
	if text, err := os.ReadFile(calls); err != nil || len(strings.Fields(string(text))) != 2 {
		t.Errorf("pip ran with %q, %v; want once per package", text, err)
	}
}
