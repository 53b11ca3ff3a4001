package run

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/tfrunner/internal/memory"
	"github.com/kubeopera/platform/tfrunner/internal/terraform"
)

// scarce is a container whose memory runs short when it is told so.
type scarce struct {
	now    chan struct{}
	killed bool
}

// Run implements Memory.
func (s *scarce) Run(ctx context.Context, exceeded func(*memory.ExceededError)) {
	select {
	case <-ctx.Done():
	case <-s.now:
		exceeded(&memory.ExceededError{Used: 1900 << 20, Limit: 2 << 30})
	}
}

// Killed implements Memory.
func (s *scarce) Killed() bool { return s.killed }

func TestRun_short_of_memory(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		killed bool
		apply  *terraform.Error
		stop   bool // interrupted by the watch
		code   runcontract.ErrorCode
		says   string
	}{
		{
			"interrupted in time", false, &terraform.Error{Verb: "apply", Interrupted: true}, true, runcontract.CodeMemory,
			"stopped before the kernel would kill it, since 1.9 GiB of the pod's 2.0 GiB of memory are in use, during the apply after 1 of 2 changes; the state is saved and its lock released; give runs more memory and start the run again",
		},
		{
			"its provider was killed", true, &terraform.Error{Verb: "apply"}, false, runcontract.CodeMemory,
			"terraform apply: the kernel killed a process, because the pod had used up its memory; give runs more memory and start the run again",
		},
		{
			"Terraform was killed", true, &terraform.Error{Verb: "apply", Killed: true}, false, runcontract.CodeStateNotSaved,
			"Terraform was killed in the middle of an apply: its state may lack the newest resources; its lock may still be held; the pod had used up its memory; give runs more memory and start the run again",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			s := &scarce{now: make(chan struct{}), killed: tt.killed}
			w.memory = s
			w.on["apply"] = func(ctx context.Context) error {
				if tt.stop {
					close(s.now)
					<-ctx.Done()
				}
				return tt.apply
			}
			result := w.run(t.Context(), spec())
			if result.Outcome != runcontract.OutcomeFailed || result.ErrorCode != tt.code || result.Message != tt.says {
				t.Errorf("%s %s\n%q, want\n%q", result.Outcome, result.ErrorCode, result.Message, tt.says)
			}
		})
	}
}

// TestRun_outputs_that_S3_does_not_show_yet: versioning that was turned on a
// moment ago makes S3 forgetful.
func TestRun_outputs_that_S3_does_not_show_yet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.fresh = true
		there, looks := w.outputs, 0
		w.outputs = map[string]json.RawMessage{}
		w.on["outputs"] = func(context.Context) error {
			if looks++; looks == 3 {
				w.outputs = there
			}
			return nil
		}
		if result := w.run(t.Context(), spec()); result.Outcome != runcontract.OutcomeSucceeded {
			t.Errorf("result %+v", result)
		}
	})
}
