package client

import (
	"errors"
	"net/http"

	"github.com/kubeopera/platform/shared/api"
)

// Codes of problems that the client itself acts on.
const (
	// codeNoProblem is that of a problem which the client made of an answer
	// without one, such as a proxy's.
	codeNoProblem      = "no_problem_document"
	codeRunEnded       = "run_ended"
	codeNoLog          = "no_log"
	codeTooManyWaiters = "too_many_waiters"
)

// Code is the stable code of the problem that err is or wraps; empty if the
// service did not answer, or err is nil.
func Code(err error) string {
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return p.Code
	}
	return ""
}

// Status is the HTTP status of the problem that err is or wraps; 0 if the service
// did not answer, or err is nil.
func Status(err error) int {
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return p.Status
	}
	return 0
}

// IsNotFound is true for the service's answer that there is no such run, or that
// the run has not got what was asked for. A proxy's 404 is none.
func IsNotFound(err error) bool {
	return Status(err) == http.StatusNotFound && Code(err) != codeNoProblem
}

// IsConflict is true if what the service has stored is against the request: a
// live run on the environment, a run that has ended or has not.
func IsConflict(err error) bool { return Status(err) == http.StatusConflict }

// IsUnauthorized is true if the API key was not accepted.
func IsUnauthorized(err error) bool {
	return Status(err) == http.StatusUnauthorized || Status(err) == http.StatusForbidden
}
