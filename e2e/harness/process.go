package harness

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Program is one of a run's processes.
type Program string

// The programs of a run. Terraform is named with its subcommand, since each is a
// process of its own.
const (
	Runner         Program = "terraform-runner run"
	TerraformInit  Program = "terraform init"
	TerraformPlan  Program = "terraform plan"
	TerraformApply Program = "terraform apply"
)

// Kill waits until a program of a run is there, and kills it at once.
func (p *Platform) Kill(tb testing.TB, runID string, program Program) {
	tb.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond) // some live for a fraction of a second
	defer tick.Stop()
	for {
		if pid := find(runID, program); pid != 0 {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				tb.Fatalf("kill %s of run %s: %v", program, runID, err)
			}
			return
		}
		select {
		case <-deadline.C:
			tb.Fatalf("%s of run %s has not started within a minute", program, runID)
		case <-tick.C:
		}
	}
}

// find is the process id of a run's program, or 0. Containers have namespaces of
// their own, inside the one of the tests.
func find(runID string, program Program) int {
	name, verb, _ := strings.Cut(string(program), " ")
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil { // it has ended
			continue
		}
		args := strings.Split(string(bytes.TrimRight(line, "\x00")), "\x00")
		if len(args) < 2 || filepath.Base(args[0]) != name || args[1] != verb {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && belongs(pid, runID) {
			return pid
		}
	}
	return 0
}

// belongs says whether a process or one that it comes from is in the run's pod.
func belongs(pid int, runID string) bool {
	for pid > 1 {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil {
			return false
		}
		if bytes.Contains(environ, []byte("POD_NAME=provision-"+runID)) {
			return true
		}
		pid = parent(pid)
	}
	return false
}

// parent is a process's parent, or 0 (proc_pid_stat(5)).
func parent(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name in parentheses may hold anything; state and parent follow it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	id, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return id
}
