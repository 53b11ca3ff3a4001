package jobrun

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubeopera/platform/shared/runs"
)

// stepError says what to do about an error without saying it in its text, which
// ends up in a run's message.
type stepError struct {
	step error
	error
}

func (e stepError) Unwrap() []error { return []error{e.step, e.error} }

func step(next, err error) error { return stepError{step: next, error: err} }

// failed is an error of the API server, with what was asked of it.
func failed(doing, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s %s: %w", runs.ErrKubernetes, doing, name, err)
}

// refused is failed for a launch: it says whether trying again makes sense.
func refused(doing, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err), apierrors.IsMethodNotSupported(err):
		err = step(runs.ErrGiveUp, err)
	case apierrors.IsForbidden(err) && overQuota(err):
		err = step(runs.ErrWait, err)
	case apierrors.IsForbidden(err):
		err = step(runs.ErrRefused, err)
	}
	return failed(doing, name, err)
}

// overQuota tells a quota's refusal from a rule's. Both are 403 Forbidden and the
// status has no cause for it, so that the quota plugin's own words decide.
func overQuota(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && strings.Contains(status.ErrStatus.Message, "exceeded quota")
}
