package sandbox_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestEnterPassesArgumentsAndTheExitCode(t *testing.T) {
	for _, u := range users() {
		t.Run(u.name, func(t *testing.T) {
			output, err := program(t, u, "exit", "one", "two").Output()
			exit, ok := errors.AsType[*exec.ExitError](err)
			if !ok || exit.ExitCode() != 42 {
				t.Fatalf("the program ended with %v, want exit code 42", err)
			}
			if got, want := string(output), "uid 0 parent 1 args one two\n"; got != want {
				t.Errorf("the program said %q, want %q", got, want)
			}
		})
	}
}

func TestKillOfTheFirstProcessEndsAllInside(t *testing.T) {
	for _, u := range users() {
		t.Run(u.name, func(t *testing.T) {
			// A duration nobody else sleeps for, to find the orphan by.
			argument := fmt.Sprintf("%d.%d", 5000+rand.IntN(1000), rand.IntN(1_000_000))
			command := program(t, u, "orphans", argument)
			output, err := command.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(output).ReadString('\n'); line != "ready\n" {
				t.Fatalf("the program said %q (%v), want ready", line, err)
			}
			until(t, "the orphan runs", func() bool { return len(processesWith(t, argument)) > 0 })
			if err := command.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = command.Wait()
			until(t, "nothing is left", func() bool { return len(processesWith(t, argument)) == 0 })
		})
	}
}

func TestSignalsReachTheProgramOnce(t *testing.T) {
	command := program(t, users()[0], "signal")
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(output)
	next := func() string {
		line, err := lines.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		return line
	}
	if got := next(); got != "ready\n" {
		t.Fatalf("the program said %q, want ready", got)
	}
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if err := command.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		if got := next(); got != s.String()+"\n" {
			t.Errorf("after %v the program said %q", s, got)
		}
	}
	_ = input.Close()
	if rest := next(); rest != "" {
		t.Errorf("a signal arrived twice: %q", rest)
	}
	if err := command.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
}

// until polls a condition that another process makes true.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("%s: not within 20 s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// processesWith lists the processes of the machine that have an argument.
func processesWith(t *testing.T, argument string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(content), argument) {
			found = append(found, strings.ReplaceAll(string(content), "\x00", " "))
		}
	}
	return found
}
