package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/tfrunner/internal/awsconfig"
	"github.com/kubeopera/platform/tfrunner/internal/terraform"
)

// StepError is why a run did not succeed, in the contract's terms.
type StepError struct {
	Code       runcontract.ErrorCode
	Message    string
	Diagnostic *runcontract.Diagnostic
	Lock       *runcontract.Lock
}

// Error is the message.
func (f *StepError) Error() string { return f.Message }

func failure(err error) *StepError {
	if f, ok := errors.AsType[*StepError](err); ok {
		return f
	}
	return &StepError{Code: runcontract.CodeInternal, Message: err.Error()}
}

// failed works out what an error of a step means. What matters most comes
// first: a state that is lost, then why the run was stopped, then what went
// wrong by itself, for which code is the general name.
func (r *runner) failed(ctx context.Context, code runcontract.ErrorCode, doing string, err error) *StepError {
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
	case isTerraform && tf.Rescue:
		f.Code = runcontract.CodeStateNotSaved
		f.Message = fmt.Sprintf("Terraform could not save its state; it is left in errored.tfstate in %s, which ends with this pod: %s", r.WorkDir, f.Message)
		if tf.LockLeft {
			f.Message += "; its lock could not be released: delete " + r.lockObject()
		}
	case isTerraform && tf.Killed && tf.Verb == "apply":
		f.Code = runcontract.CodeStateNotSaved
		f.Message = "Terraform was killed in the middle of an apply: its state may lack the newest resources and its lock may still be held"
		if !tf.Interrupted {
			f.Message += "; the pod may have run out of memory"
		}
	case ctx.Err() != nil && code != runcontract.CodeKubeconfig:
		r.interrupted(ctx, f, isTerraform && tf.LockLeft)
	case isTerraform && tf.Lock != nil:
		// Terraform's own words advise to do without a lock.
		f.Code, f.Lock, f.Diagnostic = runcontract.CodeStateLocked, tf.Lock, nil
		f.Message = fmt.Sprintf("the Terraform state is locked by %s (lock id %s)", tf.Lock.Who, tf.Lock.ID)
		if !tf.Lock.Created.IsZero() {
			f.Message = fmt.Sprintf("the Terraform state is locked by %s since %s (lock id %s)",
				tf.Lock.Who, tf.Lock.Created.Format("2006-01-02 15:04:05 MST"), tf.Lock.ID)
		}
		f.Message += fmt.Sprintf("; wait until that has ended, or, if it is gone for good, delete %s; then start the run again", r.lockObject())
	case isTerraform && tf.Killed:
		f.Message = doing + ": the process was killed; the pod may have run out of memory"
	case isTerraform && tf.LockLeft:
		f.Message += fmt.Sprintf("; the lock of the state could not be released: delete %s before the run is started again", r.lockObject())
	case isRefused && code == runcontract.CodeInternal:
		f.Code, f.Message = runcontract.CodeCredentialRefused, refused.Error()
	}
	return f
}

// lockObject is where S3 keeps the lock of the state.
func (r *runner) lockObject() string {
	return r.Spec.State.Key + ".tflock in the bucket " + r.Spec.State.Bucket
}

// interrupted words a failure that was our own doing.
func (r *runner) interrupted(ctx context.Context, f *StepError, lockLeft bool) {
	f.Code = runcontract.CodeInterrupted
	what := "interrupted"
	if errors.Is(context.Cause(ctx), ErrDeadline) {
		f.Code = runcontract.CodeDeadlineExceeded
		what = fmt.Sprintf("stopped by its deadline of %d s", r.Spec.TimeoutSeconds)
	}
	if r.phase == api.PhaseApply {
		p := r.tracker.Progress()
		lock := "and its lock released"
		if lockLeft {
			lock = "but its lock could not be released: delete " + r.lockObject()
		}
		f.Message = fmt.Sprintf("%s during the apply after %d of %d changes; the state is saved %s", what, p.Done, p.Total, lock)
		return
	}
	f.Message = fmt.Sprintf("%s (%s)", what, title(r.phase))
}
