package sandbox_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kubeopera/platform/sim/sandbox"
)

// programVariable makes the test binary one of the programs below, in a sandbox.
const programVariable = "SANDBOX_TEST_PROGRAM"

func TestMain(m *testing.M) {
	name, isProgram := os.LookupEnv(programVariable)
	if !isProgram && !sandbox.Inside() && !strings.HasPrefix(os.Args[0], "kubeopera-sandbox") {
		os.Exit(m.Run())
	}
	if err := sandbox.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	programs := map[string]func() int{"exit": exitProgram, "orphans": orphansProgram, "signal": signalProgram, "container": containerProgram}
	os.Exit(programs[name]())
}

// exitProgram ends with a code of its own, after a word about where it runs.
func exitProgram() int {
	_, _ = fmt.Fprintln(os.Stdout, "uid", os.Getuid(), "parent", os.Getppid(), "args", strings.Join(os.Args[1:], " "))
	return 42
}

// orphansProgram starts a grandchild in a session of its own, whose parent ends
// at once, names its argument on standard output, and waits to be killed.
func orphansProgram() int {
	orphan := exec.CommandContext(context.Background(), "/bin/sh", "-c", "setsid sleep $1 >/dev/null 2>&1 & exit 0", "sh", os.Args[1])
	if err := orphan.Run(); err != nil {
		_, _ = fmt.Fprintln(os.Stdout, err)
		return 1
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	_, _ = fmt.Fprintln(os.Stdout, "ready")
	<-signals
	return 0
}

// signalProgram prints each signal that it gets until its input ends.
func signalProgram() int {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	_, _ = fmt.Fprintln(os.Stdout, "ready")
	go func() {
		for s := range signals {
			_, _ = fmt.Fprintln(os.Stdout, s)
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// outcome is what containerProgram prints.
type outcome struct {
	Exit       sandbox.Exit
	StartError string
	Error      string
	Output     string
}

// containerProgram runs the container on its input and prints an outcome. The
// container gets a signal by asking for it in its output.
func containerProgram() int {
	var c sandbox.Container
	if err := json.NewDecoder(os.Stdin).Decode(&c); err != nil {
		_, _ = fmt.Fprintln(os.Stdout, err)
		return 1
	}
	_ = json.NewEncoder(os.Stdout).Encode(runContainer(c))
	return 0
}

func runContainer(c sandbox.Container) outcome {
	read, write, err := os.Pipe()
	if err != nil {
		return outcome{Error: err.Error()}
	}
	process, err := c.Start(write, write)
	_ = write.Close()
	if err != nil {
		if start, ok := errors.AsType[*sandbox.StartError](err); ok {
			return outcome{StartError: start.Message}
		}
		return outcome{Error: err.Error()}
	}
	var output strings.Builder
	lines := bufio.NewScanner(read)
	for lines.Scan() {
		var number int
		if _, err := fmt.Sscanf(lines.Text(), "signal me with %d", &number); err == nil {
			_ = process.Signal(syscall.Signal(number))
			continue
		}
		output.WriteString(lines.Text() + "\n")
	}
	exit, err := process.Wait()
	if err != nil {
		return outcome{Error: err.Error()}
	}
	return outcome{Exit: exit, Output: output.String()}
}

// user is who runs a program: the tests' own user, or an ordinary one.
type user struct {
	name string
	uid  uint32
}

// users are those that this test run can be: root can be both.
func users() []user {
	if os.Getuid() != 0 {
		return []user{{name: "ordinary user", uid: uint32(os.Getuid())}}
	}
	return []user{{name: "root", uid: 0}, {name: "ordinary user", uid: 65534}}
}

// program is the test binary as one of the programs, run by a user.
func program(t *testing.T, u user, name string, args ...string) *exec.Cmd {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if int(u.uid) != os.Getuid() {
		executable = publicCopy(t, executable)
	}
	command := exec.CommandContext(t.Context(), executable, args...)
	command.Env = append(os.Environ(), programVariable+"="+name)
	command.Dir = "/"
	command.Stderr = os.Stderr
	if int(u.uid) != os.Getuid() {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.uid, Gid: u.uid}}
	}
	return command
}

// publicCopy copies the test binary to where another user can execute it.
func publicCopy(t *testing.T, executable string) string {
	t.Helper()
	dir := publicDir(t)
	path := filepath.Join(dir, "program")
	content, err := os.ReadFile(executable)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// publicDir is a temporary directory that every user may use.
func publicDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
