package scaffold

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
	"github.com/kubeopera/platform/scaffoldrunner/internal/repository"
	"github.com/kubeopera/platform/scaffoldrunner/internal/target"
	"github.com/kubeopera/platform/scaffoldrunner/seal"
	"github.com/kubeopera/platform/scaffoldrunner/verify"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/kubeconfig"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner"
	"github.com/kubeopera/platform/shared/runner/awsconfig"
	"github.com/kubeopera/platform/shared/runner/git"
)

// StepError is why a run did not succeed, in the contract's terms. The message says
// what to do about it.
type StepError struct {
	Code    runcontract.ErrorCode
	Message string
}

// Error is the message.
func (f *StepError) Error() string { return f.Message }

func failure(err error) *StepError {
	if f, ok := errors.AsType[*StepError](err); ok {
		return f
	}
	if f, ok := errors.AsType[*runner.PublishError](err); ok {
		return &StepError{Code: runcontract.CodePublish, Message: f.Error()}
	}
	return &StepError{Code: runcontract.CodeInternal, Message: err.Error()}
}

// failed works out what an error of the steps means: first why the run was stopped,
// then what went wrong by itself.
func (r *scaffoldRun) failed(ctx context.Context, err error) *StepError {
	if ctx.Err() != nil {
		return r.interrupted(ctx)
	}
	if f, ok := errors.AsType[*StepError](err); ok {
		return f
	}
	if missing, ok := errors.AsType[*repository.BranchMissingError](err); ok {
		return &StepError{Code: runcontract.CodeBranchMissing, Message: missing.Error() + ": create it, or name one of these"}
	}
	if refused, ok := errors.AsType[*repository.RefusedError](err); ok {
		return r.refusedPush(refused)
	}
	if content, ok := errors.AsType[*repository.ContentError](err); ok {
		return &StepError{Code: runcontract.CodeGenerate, Message: "the environment cannot be generated from the repository: " + content.Error()}
	}
	if _, ok := errors.AsType[*git.Error](err); ok {
		return gitFailure(err)
	}
	return &StepError{Code: runcontract.CodeInternal, Message: title(r.Phase()) + ": " + err.Error()}
}

func (r *scaffoldRun) interrupted(ctx context.Context) *StepError {
	code, what := runcontract.CodeInterrupted, "interrupted"
	if errors.Is(context.Cause(ctx), runner.ErrDeadline) {
		code, what = runcontract.CodeDeadlineExceeded, fmt.Sprintf("stopped by its deadline of %d s", r.Spec.TimeoutSeconds)
	}
	message := fmt.Sprintf("%s (%s)", what, title(r.Phase()))
	if r.waitingFor != "" {
		message += "; the last that was known: " + r.waitingFor
	}
	return &StepError{Code: code, Message: message + "; the same run again goes on from what is pushed"}
}

func (r *scaffoldRun) refusedPush(refused *repository.RefusedError) *StepError {
	advice := ": let the credential push there"
	if r.Spec.Repository.Mode == api.PushDirect {
		advice += ", or use mode pull_request, which pushes a branch of its own"
	}
	return &StepError{Code: runcontract.CodePushRefused, Message: refused.Error() + advice}
}

// gitFailure is what a failure of git means to somebody who knows the repository.
func gitFailure(err error) *StepError {
	switch git.Classify(err) {
	case git.Auth, git.Forbidden:
		return &StepError{
			Code:    runcontract.CodeRepositoryAuth,
			Message: "the Git server refuses the credential: check that it is valid, and that it may read and write the repository: " + err.Error(),
		}
	case git.Host:
		return &StepError{
			Code: runcontract.CodeRepositoryHostKey,
			Message: "the Git server is not the one that is expected: check known_hosts (all of the server's keys, with its port), or the CA in the service's configuration: " +
				err.Error(),
		}
	case git.Missing:
		return &StepError{
			Code:    runcontract.CodeRepositoryClone,
			Message: "the Git server has no such repository, or does not show it to this credential: check the URL: " + err.Error(),
		}
	case git.Passing:
		return &StepError{Code: runcontract.CodeRepositoryClone, Message: "the Git server cannot be reached, or does not answer in time: " + err.Error()}
	case git.Local, git.Unadvertised, git.Unsupported:
	}
	return &StepError{Code: runcontract.CodeRepositoryClone, Message: err.Error()}
}

// generating is what a failure to generate means.
func generating(err error) error {
	if f, ok := errors.AsType[*StepError](err); ok {
		return f
	}
	if unknown, ok := errors.AsType[*seal.UnknownValueError](err); ok {
		return &StepError{Code: runcontract.CodeSeal, Message: unknown.Error()}
	}
	if invalid, ok := errors.AsType[*gitopsenv.InvalidError](err); ok {
		return &StepError{Code: runcontract.CodeGenerate, Message: invalid.Error()}
	}
	return &StepError{Code: runcontract.CodeGenerate, Message: "the environment cannot be generated from the base: " + err.Error()}
}

// maxFindings is how many findings a message has; the log has all.
const maxFindings = 5

func (r *scaffoldRun) refusedTree(err error) error {
	refused, ok := errors.AsType[*verify.Error](err)
	if !ok {
		return err
	}
	for _, f := range refused.Findings {
		r.Log.Printf("finding: %s", f)
	}
	rest := len(refused.Findings) - maxFindings
	if rest <= 0 {
		return &StepError{Code: runcontract.CodeTreeRefused, Message: refused.Error()}
	}
	first := &verify.Error{Findings: refused.Findings[:maxFindings]}
	return &StepError{Code: runcontract.CodeTreeRefused, Message: fmt.Sprintf("%s; and %d more, which the log has", first, rest)}
}

// unreachable is what a failure to use the target means.
func unreachable(err error) *StepError {
	if f, ok := errors.AsType[*StepError](err); ok {
		return f
	}
	if ambiguous, ok := errors.AsType[*target.AmbiguousError](err); ok {
		return &StepError{Code: runcontract.CodeSealedSecretsAmbiguous, Message: ambiguous.Error() + ": leave one of them on the target"}
	}
	if refused, ok := errors.AsType[*awsconfig.RefusedError](err); ok {
		return &StepError{Code: runcontract.CodeCredentialRefused, Message: refused.Error()}
	}
	switch {
	case errors.Is(err, kubeconfig.ErrRefused):
		return &StepError{Code: runcontract.CodeTargetUnreachable, Message: err.Error()}
	case target.Refused(err):
		return &StepError{Code: runcontract.CodeTargetUnreachable, Message: "the target refuses the kubeconfig's user: " + err.Error()}
	}
	return &StepError{Code: runcontract.CodeTargetUnreachable, Message: "the target cannot be reached: " + err.Error()}
}
