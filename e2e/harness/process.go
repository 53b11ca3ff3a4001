package harness

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner/proctree"
)

// Program is one of a run's processes.
type Program string

// The programs of a run. Terraform is named with its subcommand, since each is a
// process of its own.
const (
	Runner         Program = "terraform-runner run"
	ScaffoldRunner Program = "scaffold-runner run"
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
	for pid, args := range proctree.Arguments() {
		if len(args) > 1 && filepath.Base(args[0]) == name && args[1] == verb && belongs(pid, runID) {
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
		for _, kind := range []runcontract.Kind{runcontract.KindProvision, runcontract.KindScaffold} {
			if bytes.Contains(environ, []byte("POD_NAME="+runcontract.JobName(kind, runID))) {
				return true
			}
		}
		parent, ok := proctree.Parent(pid)
		if !ok {
			return false
		}
		pid = parent
	}
	return false
}
