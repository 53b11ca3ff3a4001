package runservice

import (
	"errors"
	"fmt"

	"github.com/kubeopera/platform/shared/api"
)

// What callers branch on.
var (
	// ErrInvalid is a request that breaks the rules; see InvalidError.
	ErrInvalid = errors.New("the request is not valid")
	// ErrCredential is a stored credential that cannot be used; see CredentialError.
	ErrCredential = errors.New("the credential cannot be used")
	// ErrNotEnded is a run that cannot be retried yet.
	ErrNotEnded = errors.New("the run has not ended")
	// ErrSucceeded is a run that needs no retry.
	ErrSucceeded = errors.New("the run has succeeded")
)

// InvalidError is everything that is wrong with a request.
type InvalidError struct {
	Problems []api.FieldProblem
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("%v: %d problems", ErrInvalid, len(e.Problems))
}

func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// Invalid is one thing wrong with a request.
func Invalid(location, format string, args ...any) *InvalidError {
	return &InvalidError{Problems: []api.FieldProblem{{Location: location, Message: fmt.Sprintf(format, args...)}}}
}

// CredentialError says what kind of credential is wanted in place of the one that
// was named.
type CredentialError struct {
	ID     string
	Reason string // continues "the run needs"
}

func (e *CredentialError) Error() string {
	return fmt.Sprintf("%v: credential %s: the run needs %s", ErrCredential, e.ID, e.Reason)
}

func (e *CredentialError) Is(target error) bool { return target == ErrCredential }
