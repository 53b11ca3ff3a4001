package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner"
	"github.com/kubeopera/platform/shared/runner/awsconfig"
	"github.com/kubeopera/platform/tfrunner/internal/memory"
	"github.com/kubeopera/platform/tfrunner/internal/terraform"
)

// StepError is why a run did not succeed, in the contract's terms.
type StepError struct {
	Code       runcontract.ErrorCode
	Message    string
	Diagnostic *runcontract.Diagnostic
	Lock       *api.StateLock
}

// Error is the message.
func (f *StepError) Error() string { return f.Message }

func failure(err error) *StepError {
	if f, ok := errors.AsType[*runner.PublishError](err); ok {
		return &StepError{Code: runcontract.CodePublish, Message: f.Error()}
	}
	if f, ok := errors.AsType[*StepError](err); ok {
		return f
	}
	return &StepError{Code: runcontract.CodeInternal, Message: err.Error()}
}

// failed works out what an error of a step means. What matters most comes
// first: a state that is lost, then why the run was stopped, then what went
// wrong by itself, for which code is the general name.
func (r *terraformRun) failed(ctx context.Context, code runcontract.ErrorCode, doing string, err error) *StepError {
	f := &StepError{Code: code, Message: doing + ": " + err.Error()}
	tf, isTerraform := errors.AsType[*terraform.Error](err)
	if isTerraform {
		f.Message = doing + ": " + tf.Reason()
		if tf.Diagnostic != nil {
			f.Diagnostic = tf.Diagnostic.Contract()
			f.Message = tf.Reason()
		}
	}
	refused, isRefused := errors.AsType[*awsconfig.RefusedError](err)
	switch {
	case isTerraform && tf.Unsaved != nil:
		f.Code = runcontract.CodeStateNotSaved
		f.Message = r.notSaved() + ": " + f.Message + r.lockLeft(tf)
	case isTerraform && tf.Killed && tf.Verb == "apply":
		f.Code = runcontract.CodeStateNotSaved
		f.Message = "Terraform was killed in the middle of an apply: its state may lack the newest resources" + r.lockLeft(tf) + r.whyKilled(tf)
	case ctx.Err() != nil && code != runcontract.CodeKubeconfig:
		r.interrupted(ctx, f, tf)
	case r.Memory.Killed(): // Terraform itself, or its provider, of which it then says only that it is gone
		f.Code = runcontract.CodeMemory
		f.Message = doing + ": the kernel killed a process, because the pod had used up its memory" + r.lockLeft(tf) + moreMemory
	case isTerraform && tf.Lock != nil:
		// Terraform's own words advise to do without a lock.
		lock := *tf.Lock
		f = r.locked(lock)
		f.Message += whatToDo(lock)
	case isTerraform && tf.Killed:
		f.Message = doing + ": the process was killed" + r.lockLeft(tf) + r.whyKilled(tf)
	case isTerraform:
		f.Message += r.lockLeft(tf)
	case isRefused && code == runcontract.CodeInternal:
		f.Code, f.Message = runcontract.CodeCredentialRefused, refused.Error()
	}
	return f
}

const moreMemory = "; give runs more memory and start the run again"

// notSaved says what became of a state that Terraform could not save.
func (r *terraformRun) notSaved() string {
	if r.kept == "" {
		return "the state is lost: Terraform could not save it, nor could it be kept anywhere else"
	}
	return "Terraform could not save its state, which is kept as " + r.kept + "; start the run again, it is saved before anything else"
}

// lockLeft says what became of a lock that Terraform left.
func (r *terraformRun) lockLeft(tf *terraform.Error) string {
	switch {
	case r.unlocked:
		return "; its lock was removed"
	case tf != nil && tf.LockLeft:
		return "; its lock could not be removed: " + r.lockObject()
	case tf != nil && tf.Killed:
		return "; its lock may still be held"
	}
	return ""
}

func (r *terraformRun) whyKilled(tf *terraform.Error) string {
	switch {
	case r.Memory.Killed():
		return "; the pod had used up its memory" + moreMemory
	case !tf.Interrupted:
		return "; the pod may have run out of memory"
	}
	return ""
}

// interrupted words a failure that was our own doing.
func (r *terraformRun) interrupted(ctx context.Context, f *StepError, tf *terraform.Error) {
	f.Code = runcontract.CodeInterrupted
	what, after := "interrupted", ""
	switch exceeded, ok := errors.AsType[*memory.ExceededError](context.Cause(ctx)); {
	case ok:
		f.Code = runcontract.CodeMemory
		what, after = fmt.Sprintf("stopped before the kernel would kill it, since %v,", exceeded), moreMemory
	case errors.Is(context.Cause(ctx), runner.ErrDeadline):
		f.Code = runcontract.CodeDeadlineExceeded
		what = fmt.Sprintf("stopped by its deadline of %d s", r.Spec.TimeoutSeconds)
	}
	if r.Phase() != api.PhaseApply && r.Phase() != api.PhaseDestroy {
		f.Message = fmt.Sprintf("%s (%s)%s", what, title(r.Phase()), after)
		return
	}
	p := r.tracker.Progress()
	lock := " and its lock released"
	if tf != nil && tf.LockLeft {
		lock = r.lockLeft(tf)
	}
	f.Message = fmt.Sprintf("%s during the %s after %d of %d changes; the state is saved%s%s", what, r.Phase(), p.Done, p.Total, lock, after)
}
