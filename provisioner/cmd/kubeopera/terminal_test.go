package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/golden"
	"github.com/kubeopera/platform/shared/runner/runnertest"
)

// terminalSession is the program on a terminal.
type terminalSession struct {
	tb   testing.TB
	cmd  *exec.Cmd
	tty  *os.File
	read chan struct{}

	mu  sync.Mutex
	out strings.Builder
}

// onTerminal starts the program.
func onTerminal(tb testing.TB, f *fakeAPI, env []string, args ...string) *terminalSession {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	tb.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "kubeopera", args...)
	cmd.Env = append([]string{
		searchPath(tb), runnertest.NoExitSleep, "HOME=" + tb.TempDir(), "TERM=xterm", "LANG=C.UTF-8", "KUBEOPERA_URL=" + f.url(), "KUBEOPERA_API_KEY=" + apiKey,
	}, env...)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: columns})
	if err != nil {
		tb.Fatal(err)
	}
	s := &terminalSession{tb: tb, cmd: cmd, tty: tty, read: make(chan struct{})}
	go func() {
		defer close(s.read)
		buf := make([]byte, 4096)
		for {
			n, err := tty.Read(buf)
			s.mu.Lock()
			s.out.Write(buf[:n])
			s.mu.Unlock()
			if err != nil { // EIO once the program has ended
				return
			}
		}
	}()
	tb.Cleanup(func() { _ = tty.Close() })
	return s
}

func (s *terminalSession) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

// until waits for a text on the screen.
func (s *terminalSession) until(text string) {
	s.tb.Helper()
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(show(s.output()), text); {
		if time.Now().After(deadline) {
			s.tb.Fatalf("no %q on the screen:\n%s", text, show(s.output()))
		}
		select {
		case <-s.read:
			if !strings.Contains(show(s.output()), text) {
				s.tb.Fatalf("it ended without %q:\n%s", text, show(s.output()))
			}
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s *terminalSession) typeIn(text string) {
	s.tb.Helper()
	if _, err := io.WriteString(s.tty, text); err != nil {
		s.tb.Fatal(err)
	}
}

// end waits for the program's end and gives its exit code.
func (s *terminalSession) end() int {
	s.tb.Helper()
	_ = s.cmd.Wait() // the code says it
	<-s.read
	return s.cmd.ProcessState.ExitCode()
}

func TestLiveDisplay(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		run  string // environment
		env  []string
		code int
	}{
		{"succeeds", "acme", nil, 0},
		{"fails", "breaks", nil, 3},
		{"without-colour", "acme", []string{"NO_COLOR=1"}, 0},
		{"ascii", "acme", []string{"LC_ALL=C"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(t)
			t.Cleanup(f.server.Close)
			s := onTerminal(t, f, tt.env, "provision", "create", "--name", tt.run, "--topology", "eks", "--region", "eu-west-1", "--wait", "-o", "name")
			if code := s.end(); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			golden.Equal(t, "screen/"+tt.name+".txt", []byte(show(s.output())+"\n"))
			if coloured := regexp.MustCompile(`\x1b\[[0-9]+m`).MatchString(s.output()); coloured == (tt.name == "without-colour") {
				t.Errorf("coloured: %v", coloured)
			}
		})
	}
}

func TestADumbTerminalGetsLines(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t)
	t.Cleanup(f.server.Close)
	s := onTerminal(t, f, []string{"TERM=dumb"}, "provision", "create", "--name", "acme", "--topology", "eks", "--wait", "-o", "name")
	if code := s.end(); code != 0 || strings.Contains(s.output(), "\x1b") || !strings.Contains(s.output(), "running, init") {
		t.Errorf("exit code %d, output %q", code, s.output())
	}
}

func TestInterruptedWait(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t)
	t.Cleanup(f.server.Close)
	s := onTerminal(t, f, nil, "provision", "create", "--name", "stays", "--topology", "eks", "--wait")
	s.until("starting")
	s.typeIn("\x03")
	if code := s.end(); code != 130 {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"it goes on", "kubeopera provision get 019ae2c5-0000-7000-8000-000000000001 --wait", "kubeopera provision cancel 019ae2c5-0000-7000-8000-000000000001"} {
		if !strings.Contains(show(s.output()), want) {
			t.Errorf("no %q in\n%s", want, show(s.output()))
		}
	}
	if strings.Contains(f.requests(), "cancel") {
		t.Errorf("the service was asked\n%s", f.requests())
	}
}

func TestDestroyAsksForTheName(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, answer string
		code         int
		destroyed    bool
	}{
		{"its name", "acme\n", 0, true},
		{"another name", "acme-prod\n", 2, false},
		{"yes", "y\n", 2, false},
		{"nothing", "\n", 2, false},
		{"the end of input", "\x04", 2, false},
		{"an interrupt", "\x03", 130, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(t)
			t.Cleanup(f.server.Close)
			f.add(api.Provision{
				ID: "run-1", Name: "acme", TerraformEnvironment: "acme", Topology: "eks", Region: "eu-west-1", Operation: "apply",
				RunStatus: api.RunStatus{Status: api.StatusSucceeded, FinishedAt: &time.Time{}},
			})
			s := onTerminal(t, f, nil, "provision", "destroy", "run-1")
			s.until("This destroys acme (eks, eu-west-1)")
			s.typeIn(tt.answer)
			if code := s.end(); code != tt.code {
				t.Errorf("exit code %d, want %d\n%s", code, tt.code, s.output())
			}
			if got := strings.Contains(f.requests(), "DELETE"); got != tt.destroyed {
				t.Errorf("destroyed: %v", got)
			}
		})
	}
}

// TestTextOfOthersSteersNoTerminal: a file gets a kubeconfig as it is.
func TestTextOfOthersSteersNoTerminal(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t)
	t.Cleanup(f.server.Close)
	f.preamble = "# \x1b]0;title\x07\n"
	f.add(api.Provision{ID: "run-1", Name: "acme", TerraformEnvironment: "acme", Operation: "apply", RunStatus: api.RunStatus{Status: api.StatusSucceeded, FinishedAt: &time.Time{}}})
	s := onTerminal(t, f, nil, "provision", "kubeconfig", "run-1")
	if code := s.end(); code != 0 || strings.Contains(s.output(), "\x1b") || !strings.Contains(s.output(), "token-of-run-1") {
		t.Errorf("exit code %d, output %q", code, s.output())
	}
}

func TestUnlockShowsTheLock(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t)
	t.Cleanup(f.server.Close)
	f.add(api.Provision{
		ID: "run-1", TerraformEnvironment: "acme", Operation: "apply",
		RunStatus:        api.RunStatus{Status: api.StatusFailed, FinishedAt: &time.Time{}},
		ProvisionDetails: api.ProvisionDetails{Lock: &api.StateLock{ID: "lock-1", Who: "me@laptop"}},
	})
	for answer, unlocked := range map[string]bool{"no\n": false, "yes\n": true} {
		s := onTerminal(t, f, nil, "provision", "unlock", "run-1")
		s.until("acme is locked by me@laptop")
		s.typeIn(answer)
		if code := s.end(); (code == 0) != unlocked || strings.Contains(f.requests(), `unlock {"lock_id":"lock-1"}`) != unlocked {
			t.Errorf("%q: exit code %d, asked\n%s", answer, code, f.requests())
		}
		if unlocked {
			break
		}
	}
}

func TestScaffoldOnATerminal(t *testing.T) {
	t.Parallel()
	f, g := newFakeAPI(t), newFakeScaffolder()
	t.Cleanup(f.server.Close)
	t.Cleanup(g.server.Close)
	env := []string{"KUBEOPERA_SCAFFOLDER_URL=" + g.url(), "KUBEOPERA_SCAFFOLDER_API_KEY=" + scaffolderAPIKey, "KUBEOPERA_REGISTRY_PASSWORD=canary"}
	s := onTerminal(t, f, env, "scaffold", "create", "--environment", "acme", "--domain", "acme.example.com", "--region", "eu-west-1", "--wait", "-o", "name")
	if code := s.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	golden.Equal(t, "screen/scaffold.txt", []byte(show(s.output())+"\n"))

	g.add(api.Scaffold{ID: "run-1", Environment: "dry", DryRun: true, RunStatus: api.RunStatus{Status: api.StatusSucceeded, FinishedAt: &time.Time{}}})
	s = onTerminal(t, f, env, "scaffold", "diff", "run-1")
	if code := s.end(); code != 0 || !strings.Contains(s.output(), "\x1b[31m--- gone [2J\x1b[0m") {
		t.Errorf("exit code %d, output %q", code, s.output())
	}
	s = onTerminal(t, f, append(env, "NO_COLOR=1"), "scaffold", "diff", "run-1")
	if code := s.end(); code != 0 || strings.Contains(s.output(), "\x1b") || !strings.Contains(s.output(), "+new") {
		t.Errorf("without colours: exit code %d, output %q", code, s.output())
	}
}

func TestResetAsksForTheName(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t)
	t.Cleanup(f.server.Close)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"environment.yaml": "apiVersion: holodeck.nvidia.com/v1alpha1\nkind: Environment\nmetadata: {name: acme}\nspec: {auth: {username: ops, privateKey: id}, containerRuntime: {install: true, name: containerd}, cluster: {controlPlane: {count: 1}}}\n",
		"machines.yaml":    "- {address: 127.0.0.1, port: 1, role: control-plane}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := onTerminal(t, f, nil, "env", "reset", "-f", filepath.Join(dir, "environment.yaml"), "--machines", filepath.Join(dir, "machines.yaml"))
	s.until("This takes the cluster acme off 1 machines")
	s.typeIn("yes\n")
	if code := s.end(); code != 2 || !strings.Contains(s.output(), "nothing was reset") {
		t.Errorf("exit code %d\n%s", code, s.output())
	}
}
