package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner/awsfake"
	"github.com/kubeopera/platform/shared/runner/proctree"
)

// ledger is an environment whose resources note their creation outside of
// Terraform, as real ones do: one that is created twice leaves an orphan.
const ledger = `
resource "terraform_data" "made" {
  count = 3
  provisioner "local-exec" {
    command = "echo made ${count.index} >> ../../../ledger"
  }
}
`

// made checks that every resource was created once.
func (f *fixture) made(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(f.dir, "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(string(data)), "\n")
	slices.Sort(got)
	if diff := cmp.Diff([]string{"made 0", "made 1", "made 2"}, got); diff != "" {
		t.Errorf("creations (-want +got):\n%s", diff)
	}
}

// refuseStates makes S3 refuse to save the state, and with rescues also to keep it elsewhere.
func (f *fixture) refuseStates(rescues bool) {
	f.aws.SetTrouble(func(operation, key string) awsfake.Trouble {
		if operation == "PutObject" && (key == stateKey || rescues && strings.HasPrefix(key, "rescue/")) {
			return awsfake.Refused
		}
		return awsfake.None
	})
}

// TestRun_state_that_cannot_be_saved_is_saved_by_the_next_run is the whole way
// with a real Terraform: nothing is created twice.
func TestRun_state_that_cannot_be_saved_is_saved_by_the_next_run(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"in the bucket", "in the outputs Secret"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			f := setup(t, ledger+outputs())
			f.spec.State.BackendConfig["max_retries"] = "1"
			f.refuseStates(where != "in the bucket")
			if code := f.start(t).wait(t); code != runcontract.ExitStateNotSaved {
				t.Fatalf("exit code %d", code)
			}
			if result := f.result(t); !strings.Contains(result.Message, "start the run again, it is saved before anything else") {
				t.Errorf("message %q", result.Message)
			}
			f.unlocked(t)
			left := f.cluster.Data(runcontract.KeyErroredState)
			if inSecret := where != "in the bucket"; (left != nil) != inSecret {
				t.Fatalf("%d bytes in the Secret", len(left))
			}

			f.aws.SetTrouble(nil)
			if left != nil {
				f.spec.RescuedRun = f.spec.ID
				f.write(t, filepath.Join("rescue", runcontract.KeyErroredState), string(left))
			}
			f.next(t, api.OperationApply)
			if result := f.succeed(t); result.Message != "applied: 0 added, 0 changed, 0 removed" {
				t.Errorf("message %q", result.Message)
			}
			f.made(t)
			f.stateHas(t, "made")
			if diff := cmp.Diff([]string{stateKey}, f.aws.Keys(bucketName)); diff != "" {
				t.Errorf("objects in the bucket (-want +got):\n%s", diff)
			}

			// The Secret stays mounted for as long as no run has succeeded.
			f.next(t, api.OperationDestroy)
			if result := f.succeed(t); result.Message != "destroyed: 3 removed" {
				t.Errorf("message %q", result.Message)
			}
			f.next(t, api.OperationDestroy)
			f.succeed(t)
			f.stateHas(t)
		})
	}
}

// TestRun_lost_answer_to_the_lock: S3 has taken the lock, and its answer is lost.
func TestRun_lost_answer_to_the_lock(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		nth     int32 // lock
		retries string
		prepare func(*fixture)
	}{
		{name: "of the plan", nth: 1, retries: "5"},
		{name: "of the apply", nth: 2, retries: "5"},
		{name: "of the apply, which does not ask again", nth: 2, retries: "0"},
		{
			name: "of the state push", nth: 1, retries: "5",
			prepare: func(f *fixture) {
				f.aws.AddBucket(bucketName, "eu-west-1", awsfake.Account, nil)
				f.aws.PutObject(bucketName, "rescue/1.tfstate", []byte(`{"version":4,"terraform_version":"1.11.4","serial":1,"lineage":"l","outputs":{},"resources":[]}`))
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, ledger+outputs())
			if tt.prepare != nil {
				tt.prepare(f)
			}
			f.spec.State.BackendConfig["max_retries"] = tt.retries
			var locks atomic.Int32
			f.aws.SetTrouble(func(operation, key string) awsfake.Trouble {
				if operation == "PutObject" && key == lockKey && locks.Add(1) == tt.nth {
					return awsfake.AnswerLost
				}
				return awsfake.None
			})
			c := f.start(t)
			if code := c.wait(t); code != runcontract.ExitOK {
				t.Fatalf("exit code %d", code)
			}
			if !strings.Contains(c.output.String(), "removed the stale lock") {
				t.Errorf("no lock was in the way:\n%s", c.output)
			}
			f.made(t)
			f.unlocked(t)
		})
	}
}

// runner is the process id of the runner below its init, once it has started.
func (c *child) runner(t *testing.T) int {
	t.Helper()
	var pid int
	eventually(t, "the runner has started", func() bool {
		below := proctree.Below(c.cmd.Process.Pid)
		if len(below) == 0 {
			return false
		}
		pid = below[0]
		return true
	})
	return pid
}

// TestRun_killed_anywhere_is_taken_up_by_the_next_run kills the runner at a
// request to AWS; whatever it left behind, the next run ends well.
func TestRun_killed_anywhere_is_taken_up_by_the_next_run(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		operation api.Operation
		request   string // operation, and key if it is one of an object
		nth       int
	}{
		{"before the bucket is there", api.OperationApply, "CreateBucket", 1},
		{"between the bucket and its settings", api.OperationApply, "PutBucketPolicy", 1},
		{"while it looks for a lock", api.OperationApply, "GetObject " + lockKey, 1},
		{"in init", api.OperationApply, "ListObjectsV2", 2},
		{"in the plan, which holds the lock", api.OperationApply, "DeleteObject " + lockKey, 1},
		{"before the apply has the lock", api.OperationApply, "PutObject " + lockKey, 2},
		{"when the apply saves its state", api.OperationApply, "PutObject " + stateKey, 1},
		{"when the apply releases its lock", api.OperationApply, "DeleteObject " + lockKey, 2},
		{"while it reads the outputs", api.OperationApply, "GetObject " + stateKey, 1},
		{"in the plan to destroy", api.OperationDestroy, "DeleteObject " + lockKey, 1},
		{"when the destroy saves its state", api.OperationDestroy, "PutObject " + stateKey, 1},
		{"when the destroy releases its lock", api.OperationDestroy, "DeleteObject " + lockKey, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, two+outputs())
			if tt.operation == api.OperationDestroy {
				f.succeed(t)
				f.next(t, tt.operation)
			}
			var runner atomic.Int32
			seen, killed := 0, false
			strike := func(request string) bool {
				if request != tt.request && !strings.HasPrefix(tt.request, request+" ") || killed {
					return killed
				}
				if seen++; seen < tt.nth {
					return false
				}
				killed = true
				return syscall.Kill(int(runner.Load()), syscall.SIGKILL) == nil
			}
			if strings.Contains(tt.request, " ") {
				f.aws.SetTrouble(func(operation, key string) awsfake.Trouble {
					if runner.Load() != 0 && operation+" "+key == tt.request && strike(tt.request) {
						return awsfake.Refused
					}
					return awsfake.None
				})
			} else {
				f.aws.SetFault(func(operation, _ string) (string, int) {
					if runner.Load() != 0 && operation == tt.request && strike(operation) {
						return "ServiceUnavailable", 503
					}
					return "", 0
				})
			}
			c := f.start(t)
			runner.Store(int32(c.runner(t)))
			if code := c.wait(t); code != 128+runcontract.ExitCode(syscall.SIGKILL) {
				t.Fatalf("exit code %d: the request %s did not come", code, tt.request)
			}
			var last runcontract.Result
			if err := json.Unmarshal(f.terminationMessage(t), &last); err != nil || last.Phase == "" || last.Outcome != "" {
				t.Errorf("termination message %+v, %v", last, err)
			}

			f.aws.SetFault(nil)
			f.aws.SetTrouble(nil)
			f.next(t, tt.operation)
			f.succeed(t)
			f.unlocked(t)
			if tt.operation == api.OperationDestroy {
				f.stateHas(t)
			} else {
				f.stateHas(t, "first", "second")
			}
		})
	}
}

// TestRun_killed_Terraform kills Terraform itself; the runner says so, leaves no
// lock, and the next run ends well.
func TestRun_killed_Terraform(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		request string
		nth     int32
		want    runcontract.ExitCode
		says    string
	}{
		{"in init", "ListObjectsV2", 2, runcontract.ExitTerraformInit, "the process was killed"},
		{"in the plan", "DeleteObject " + lockKey, 1, runcontract.ExitTerraformPlan, "its lock was removed"},
		{"in the apply", "PutObject " + stateKey, 1, runcontract.ExitStateNotSaved, "killed in the middle of an apply"},
		{"when it reads the outputs", "GetObject " + stateKey, 1, runcontract.ExitKubeconfig, "the process was killed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, two+outputs())
			var c *child
			var seen atomic.Int32
			started := make(chan struct{})
			strike := func() bool {
				<-started
				if seen.Add(1) != tt.nth {
					return false
				}
				for _, pid := range proctree.Below(c.cmd.Process.Pid) {
					exe, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
					if err == nil && strings.HasPrefix(filepath.Base(exe), "terraform") && filepath.Base(exe) != filepath.Base(os.Args[0]) {
						_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
					}
				}
				return true
			}
			f.aws.SetTrouble(func(operation, key string) awsfake.Trouble {
				if operation+" "+key == tt.request && strike() {
					return awsfake.Refused
				}
				return awsfake.None
			})
			f.aws.SetFault(func(operation, _ string) (string, int) {
				if operation == tt.request && strike() {
					return "ServiceUnavailable", 503
				}
				return "", 0
			})
			c = f.start(t)
			close(started)
			if code := c.wait(t); code != tt.want {
				t.Fatalf("exit code %d, want %d", code, tt.want)
			}
			if result := f.result(t); !strings.Contains(result.Message, tt.says) {
				t.Errorf("message %q", result.Message)
			}
			f.unlocked(t)
			f.next(t, api.OperationApply)
			f.succeed(t)
			f.stateHas(t, "first", "second")
		})
	}
}

// TestRun_short_of_memory: a process of Terraform's takes more and more. It is
// interrupted in time, once, and saves its state.
func TestRun_short_of_memory(t *testing.T) {
	t.Parallel()
	f := setup(t, `
resource "terraform_data" "first" {}
resource "terraform_data" "greedy" {
  input = terraform_data.first.id
  provisioner "local-exec" {
    // tail keeps what has no line feed.
    command = "(head -c 700000000 /dev/zero; sleep 300) | tail"
  }
}
`+outputs())
	f.extra = []string{runcontract.EnvMemoryLimit + "=734003200"} // 700 MiB
	c := f.start(t)
	if code := c.wait(t); code != runcontract.ExitMemory {
		t.Fatalf("exit code %d", code)
	}
	result := f.result(t)
	if result.Outcome != runcontract.OutcomeFailed || !strings.Contains(result.Message, "of the pod's 700 MiB of memory are in use, during the apply after 1 of 2 changes; the state is saved and its lock released; give runs more memory") {
		t.Errorf("result %+v", result)
	}
	f.stateHas(t, "first", "greedy")
	f.unlocked(t)
}

// TestRun_interrupts_once whatever reasons there are: a second interrupt would
// make Terraform give up without saving its state.
func TestRun_interrupts_once(t *testing.T) {
	t.Parallel()
	f := setup(t, two+outputs())
	f.write(t, "stand-in", `#!/bin/sh
case $1 in
version) echo '{"terraform_version":"1.11.4"}' ;;
plan) echo '{"type":"change_summary","@message":"Plan","changes":{"add":1,"operation":"plan"}}' ;;
apply)
	trap 'echo INT >> ../../../signals' INT
	trap 'echo TERM >> ../../../signals' TERM
	echo started >> ../../../signals
	while [ ! -e ../../../end ]; do sleep 0.1; done
	echo '{"type":"diagnostic","@message":"Error","diagnostic":{"severity":"error","summary":"execution halted"}}'
	exit 1
esac
`)
	if err := os.Chmod(filepath.Join(f.dir, "stand-in"), 0o700); err != nil {
		t.Fatal(err)
	}
	f.extra = []string{"TERRAFORM_BINARY=" + filepath.Join(f.dir, "stand-in")}
	f.spec.TimeoutSeconds, f.spec.GraceSeconds = 3, 120
	c := f.start(t)
	signals := func() string {
		data, _ := os.ReadFile(filepath.Join(f.dir, "signals")) // it may not be there yet
		return string(data)
	}
	eventually(t, "the deadline interrupts", func() bool { return signals() == "started\nINT\n" })
	for range 3 {
		c.terminate(t)
	}
	f.write(t, "end", "")
	if code := c.wait(t); code != runcontract.ExitDeadlineExceeded {
		t.Fatalf("exit code %d", code)
	}
	if got := signals(); got != "started\nINT\n" {
		t.Errorf("signals %q", got)
	}
	f.result(t)
}
