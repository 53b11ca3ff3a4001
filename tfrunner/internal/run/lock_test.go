package run

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner"
	"github.com/kubeopera/platform/tfrunner/internal/terraform"
)

func TestPreflight(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		who     string
		prepare func(w *world)
		removed bool
		says    string // the message of a run that fails
	}{
		{name: "of a run that has ended", who: "nonroot@provision-ended-abcde", removed: true},
		{name: "of this pod", who: "nonroot@provision-1-vwxyz", removed: true},
		{name: "of another pod of this run", who: "nonroot@provision-1-abcde", says: "locked by nonroot@provision-1-abcde (lock id 7); wait until that has ended"},
		{name: "of a run that may be alive", who: "nonroot@provision-alive-abcde", says: "locked by nonroot@provision-alive-abcde"},
		{name: "of a run whose name begins like one that has ended", who: "nonroot@provision-ended2-abcde", says: "locked"},
		{name: "of another kind of run", who: "nonroot@scaffold-ended-abcde", says: "locked"},
		{name: "of a person", who: "ann@laptop", says: "locked by ann@laptop"},
		{name: "of nobody known", says: "locked by somebody unknown"},
		{
			name: "of a run that has ended, replaced at the last moment", who: "nonroot@provision-ended-abcde",
			prepare: func(w *world) { w.bucket.taken = func() { w.bucket.locked("8", "ann@laptop") } },
			says:    "locked by ann@laptop (lock id 8)",
		},
		{
			name: "of a run that has ended, which may not be removed", who: "nonroot@provision-ended-abcde",
			prepare: func(w *world) { w.bucket.broken = errors.New("AccessDenied") },
			says:    "its holder has ended, but the lock cannot be removed: AccessDenied",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, s := newWorld(), spec()
			w.pod = "provision-1-vwxyz"
			s.EndedRuns = []string{"", "1", "ended"}
			w.bucket.locked("7", tt.who)
			if tt.prepare != nil {
				tt.prepare(w)
			}
			result := w.run(t.Context(), s)
			if tt.removed {
				if result.Outcome != runcontract.OutcomeSucceeded || w.bucket.lock != nil {
					t.Errorf("result %+v, lock %+v", result, w.bucket.lock)
				}
				if log := w.log.String(); !strings.Contains(log, "removed the stale lock 7 of the state, taken by "+tt.who) {
					t.Errorf("log:\n%s", log)
				}
				return
			}
			if result.ErrorCode != runcontract.CodeStateLocked || result.Phase != api.PhasePreparingState || !strings.Contains(result.Message, tt.says) {
				t.Errorf("%s in %s: %q", result.ErrorCode, result.Phase, result.Message)
			}
			if result.Lock == nil || w.bucket.lock == nil {
				t.Errorf("named %v, held %v", result.Lock, w.bucket.lock)
			}
			if strings.Contains(strings.Join(w.calls, " "), "init") {
				t.Errorf("steps %v", w.calls)
			}
		})
	}
}

func TestPreflight_waits_for_a_lock_that_is_held_for_a_moment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.wait = 30 * time.Second
		w.bucket.locked("7", "ann@laptop")
		time.AfterFunc(15*time.Second, func() {
			w.bucket.mu.Lock()
			defer w.bucket.mu.Unlock()
			w.bucket.lock = nil
		})
		if result := w.run(t.Context(), spec()); result.Outcome != runcontract.OutcomeSucceeded {
			t.Errorf("result %+v", result)
		}
		if log := w.log.String(); strings.Count(log, "locked by ann@laptop (lock id 7): waiting for 30s") != 1 {
			t.Errorf("log:\n%s", log)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.wait = time.Hour
		w.bucket.locked("7", "ann@laptop")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(runner.ErrInterrupted) })
		if result := w.run(ctx, spec()); result.ErrorCode != runcontract.CodeInterrupted {
			t.Errorf("result %+v", result)
		}
	})
}

// TestLock_lost_answer: Terraform took the lock, was not told, and met itself, or
// could not even find out.
func TestLock_lost_answer(t *testing.T) {
	t.Parallel()
	const ours, theirs = "nonroot@provision-1-vwxyz", "nonroot@provision-other-abcde"
	tests := []struct {
		name, verb, holder string
		err                terraform.Error
		code               runcontract.ErrorCode
	}{
		{"plan", "plan", ours, terraform.Error{Lock: &api.StateLock{ID: "7", Who: ours}}, ""},
		{"apply", "apply", ours, terraform.Error{Lock: &api.StateLock{ID: "7", Who: ours}}, ""},
		{"apply, in the dark", "apply", ours, terraform.Error{LockUnsure: true}, ""},
		{"plan, of another", "plan", theirs, terraform.Error{Lock: &api.StateLock{ID: "7", Who: theirs}}, runcontract.CodeStateLocked},
		{"apply, of another", "apply", theirs, terraform.Error{Lock: &api.StateLock{ID: "7", Who: theirs}}, runcontract.CodeStateLocked},
		{"apply, of another, in the dark", "apply", theirs, terraform.Error{LockUnsure: true}, runcontract.CodeTerraformApply},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.pod = "provision-1-vwxyz"
			attempts := 0
			w.on[tt.verb] = func(context.Context) error {
				if attempts++; attempts > 1 {
					return nil
				}
				w.bucket.locked("7", tt.holder)
				tt.err.Verb = tt.verb
				return &tt.err
			}
			result := w.run(t.Context(), spec())
			if result.ErrorCode != tt.code || (w.bucket.lock == nil) != (tt.code == "") {
				t.Errorf("result %+v, lock %+v", result, w.bucket.lock)
			}
			if again := attempts > 1; again != (tt.code == "") {
				t.Errorf("%d attempts", attempts)
			}
		})
	}
}

func TestLock_that_Terraform_left_is_removed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		verb string
		err  *terraform.Error
		code runcontract.ErrorCode
		says string
	}{
		{"killed while it planned", "plan", &terraform.Error{Verb: "plan", Killed: true}, runcontract.CodeTerraformPlan, "the process was killed; its lock was removed"},
		{"killed while it applied", "apply", &terraform.Error{Verb: "apply", Killed: true}, runcontract.CodeStateNotSaved, "may lack the newest resources; its lock was removed"},
		{"cannot tell whether it has one", "plan", &terraform.Error{Verb: "plan", LockUnsure: true}, runcontract.CodeTerraformPlan, "; its lock was removed"},
		{"could not release it", "apply", &terraform.Error{Verb: "apply", LockLeft: true}, runcontract.CodeTerraformApply, "; its lock was removed"},
		{"could not save its state", "apply", &terraform.Error{Verb: "apply", Unsaved: []byte("{}")}, runcontract.CodeStateNotSaved, "; its lock was removed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.pod = "provision-1-vwxyz"
			w.on[tt.verb] = func(context.Context) error {
				w.bucket.locked("7", "nonroot@"+w.pod)
				return tt.err
			}
			result := w.run(t.Context(), spec())
			if result.ErrorCode != tt.code || !strings.Contains(result.Message, tt.says) || w.bucket.lock != nil {
				t.Errorf("%s %q, lock %+v", result.ErrorCode, result.Message, w.bucket.lock)
			}
		})
	}
}

func TestUnlock(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		prepare func(w *world)
		code    runcontract.ErrorCode
		says    string
		held    bool
	}{
		{"the lock that is meant", func(w *world) { w.bucket.locked("7", "ann@laptop") }, "", "removed the lock 7, taken by ann@laptop", false},
		{"another lock", func(w *world) { w.bucket.locked("8", "ann@laptop") }, runcontract.CodeUnlockRefused, "locked by ann@laptop (lock id 8), and that is not the lock 7", true},
		{"no lock", func(*world) {}, "", "the state is not locked", false},
		{"no bucket", func(w *world) { w.bucket = nil }, "", "there is no state", false},
		{
			"another lock at the last moment",
			func(w *world) {
				w.bucket.locked("7", "ann@laptop")
				w.bucket.taken = func() { w.bucket.locked("8", "bob@laptop") }
			},
			runcontract.CodeUnlockRefused, "locked by bob@laptop", true,
		},
		{
			"a lock that may not be removed",
			func(w *world) {
				w.bucket.locked("7", "ann@laptop")
				w.bucket.broken = errors.New("AccessDenied")
			},
			runcontract.CodeUnlockRefused, "remove the lock: AccessDenied", true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, s := newWorld(), spec()
			s.Operation, s.LockID, s.Topology = api.OperationUnlock, "7", api.TopologyExistingMachines
			tt.prepare(w)
			result := w.run(t.Context(), s)
			if result.ErrorCode != tt.code || !strings.Contains(result.Message, tt.says) || result.Changes != nil {
				t.Errorf("%s %q %v", result.ErrorCode, result.Message, result.Changes)
			}
			if held := w.bucket != nil && w.bucket.lock != nil; held != tt.held {
				t.Errorf("held: %v", held)
			}
			want := []string{"open", "identity", "bucket", "finish"}
			if diff := cmp.Diff(want, w.calls); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}
