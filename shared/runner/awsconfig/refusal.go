package awsconfig

import (
	"errors"
	"fmt"
	"slices"

	"github.com/aws/smithy-go"
)

// Reason says in what way AWS refuses a credential.
type Reason string

// The reasons, each of which has another remedy.
const (
	ReasonExpired     Reason = "expired"              // a session that has ended: get a new one
	ReasonInvalid     Reason = "invalid"              // unknown, deleted or mistyped keys: correct them
	ReasonDenied      Reason = "not allowed to do so" // a policy forbids it: change the policy
	ReasonNoPrincipal Reason = "not usable"           // valid, but of a kind that cannot own a cluster
	ReasonRole        Reason = "not accepted"         // what is stored of the role does not fit it: correct that
)

// RefusedError is a credential that AWS does not accept, or not for this.
type RefusedError struct {
	Reason Reason
	Detail string // in words, without secrets
	// Role is the role that could not be assumed; empty if it is about something
	// else. The refused credential then is its base.
	Role string
	Err  error // AWS's answer; nil if the refusal is ours
}

// Error says what is wrong with the credential. AWS names the base's identity
// itself, where it knows it.
func (e *RefusedError) Error() string {
	if e.Role == "" {
		return fmt.Sprintf("the AWS credential is %s: %s", e.Reason, e.Detail)
	}
	remedy := ""
	if e.Reason == ReasonDenied {
		remedy = "; the role's trust policy must name that identity and ask for the external id that is stored, if for any"
	}
	return fmt.Sprintf("the role %s cannot be assumed: its base credential is %s: %s%s", e.Role, e.Reason, e.Detail, remedy)
}

// Unwrap is AWS's answer.
func (e *RefusedError) Unwrap() error { return e.Err }

// codes are the error codes of AWS's services for a refused credential.
func codes(r Reason) []string {
	switch r {
	case ReasonExpired:
		return []string{"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}
	case ReasonInvalid:
		return []string{
			"InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId", "SignatureDoesNotMatch",
			"InvalidSignatureException", "IncompleteSignature", "InvalidToken", "AuthFailure", "MissingAuthenticationToken",
		}
	case ReasonDenied:
		return []string{"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "OptInRequired", "AccountProblem"}
	case ReasonNoPrincipal, ReasonRole: // AWS has no code for them
	}
	return nil
}

func reasonOf(code string) (Reason, bool) {
	for _, r := range []Reason{ReasonExpired, ReasonInvalid, ReasonDenied} {
		if slices.Contains(codes(r), code) {
			return r, true
		}
	}
	return "", false
}

// Refusal tells whether err is AWS refusing the credential, or refusing to let
// its role be assumed; nil if it is neither.
func Refusal(err error) *RefusedError {
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return refused
	}
	answer, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return nil
	}
	reason, ok := reasonOf(answer.ErrorCode())
	if !ok {
		return nil
	}
	return &RefusedError{Reason: reason, Detail: answer.ErrorCode() + ": " + answer.ErrorMessage(), Err: err}
}
