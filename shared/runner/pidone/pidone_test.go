package pidone

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// actAsInit makes the test binary run its arguments below Run.
const actAsInit = "PIDONE_TEST_ACT"

func TestMain(m *testing.M) {
	if _, ok := os.LookupEnv(actAsInit); ok {
		code, err := Run(os.Args[1:], os.Environ())
		if err != nil {
			_, _ = os.Stderr.WriteString(err.Error())
		}
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// start runs a shell script below Run, in a folder of its own.
func start(t *testing.T, script string) (cmd *exec.Cmd, dir string) {
	t.Helper()
	dir = t.TempDir()
	cmd = exec.CommandContext(t.Context(), os.Args[0], "/bin/sh", "-c", script)
	cmd.Env = append(os.Environ(), actAsInit+"=1")
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, dir
}

func wait(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	_ = cmd.Wait() // the exit code says it all
	return cmd.ProcessState.ExitCode()
}

// file polls for a file that the script writes.
func file(t *testing.T, path string) string {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if data, err := os.ReadFile(path); err == nil && strings.HasSuffix(string(data), "\n") {
			return strings.TrimSpace(string(data))
		}
		select {
		case <-deadline:
			t.Fatalf("%s was not written", path)
		case <-tick.C:
		}
	}
}

func alive(t *testing.T, pid string) bool {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	return syscall.Kill(n, 0) == nil
}

func TestRun_ends_with_the_childs_exit_code(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, script string
		want         int
	}{
		{"success", "exit 0", 0},
		{"failure", "exit 74", 74},
		{"a signal", "kill -9 $$", 128 + 9},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cmd, _ := start(t, tt.script)
			if code := wait(t, cmd); code != tt.want {
				t.Errorf("exit code %d, want %d", code, tt.want)
			}
		})
	}
}

func TestRun_says_what_cannot_be_run(t *testing.T) {
	t.Parallel()
	if code, err := Run(nil, nil); code != 126 || err == nil {
		t.Errorf("no command: %d, %v", code, err)
	}
	if code, err := Run([]string{"/no/such/command"}, nil); code != 127 || err == nil {
		t.Errorf("missing command: %d, %v", code, err)
	}
}

func TestRun_passes_signals_to_its_child_alone(t *testing.T) {
	t.Parallel()
	// The grandchild would end at the signal, and take the child's exit code with it.
	cmd, dir := start(t, `
sh -c 'trap "echo signalled > grandchild" TERM; echo $$ > grandchild-pid; while :; do sleep 0.05; done' &
trap 'echo TERM >> signals; kill -9 $!; exit 5' TERM
trap 'echo INT >> signals' INT
echo ready > ready
while :; do sleep 0.05; done
`)
	file(t, filepath.Join(dir, "ready"))
	file(t, filepath.Join(dir, "grandchild-pid"))
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if got := file(t, filepath.Join(dir, "signals")); got != "INT" {
		t.Errorf("signals %q", got)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := wait(t, cmd); code != 5 {
		t.Errorf("exit code %d", code)
	}
	if got := file(t, filepath.Join(dir, "signals")); got != "INT\nTERM" {
		t.Errorf("signals %q", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "grandchild")); err == nil {
		t.Error("the grandchild got a signal too")
	}
}

func TestRun_reaps_orphans(t *testing.T) {
	t.Parallel()
	cmd, dir := start(t, `
sh -c 'sh -c "echo \$\$ > orphan" & exit 0'
while [ ! -e go ]; do sleep 0.05; done
`)
	orphan := file(t, filepath.Join(dir, "orphan"))
	deadline := time.Now().Add(30 * time.Second)
	for alive(t, orphan) { // a zombie counts as alive here
		if time.Now().After(deadline) {
			t.Fatal("the orphan was not reaped")
		}
		pause(10 * time.Millisecond)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := wait(t, cmd); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestRun_leaves_nothing_behind(t *testing.T) {
	t.Parallel()
	// One that ignores signals and has left its session and its parents.
	cmd, dir := start(t, `
setsid sh -c 'trap "" TERM INT HUP; (echo $$ > left; exec sleep 300) & wait' &
while [ ! -s left ]; do sleep 0.05; done
exit 3
`)
	if code := wait(t, cmd); code != 3 {
		t.Errorf("exit code %d", code)
	}
	if pid := file(t, filepath.Join(dir, "left")); alive(t, pid) {
		t.Errorf("process %s is still there", pid)
	}
}

func TestRun_killed_takes_its_child_with_it(t *testing.T) {
	t.Parallel()
	cmd, dir := start(t, `echo $$ > child; exec sleep 300`)
	child := file(t, filepath.Join(dir, "child"))
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	wait(t, cmd)
	deadline := time.Now().Add(30 * time.Second)
	for alive(t, child) && !zombie(child) {
		if time.Now().After(deadline) {
			t.Fatal("the child lives on")
		}
		pause(10 * time.Millisecond)
	}
}

// zombie tells whether a process has ended and waits to be reaped, which in
// some containers nobody does.
func zombie(pid string) bool {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	return err != nil || strings.Contains(string(data), ") Z ")
}
