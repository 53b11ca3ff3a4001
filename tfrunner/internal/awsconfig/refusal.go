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
)

// RefusedError is a credential that AWS does not accept, or not for this.
type RefusedError struct {
	Reason Reason
	Detail string // in words, without secrets
	Err    error  // AWS's answer; nil if the refusal is ours
}

// Error says what is wrong with the credential.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("the AWS credential is %s: %s", e.Reason, e.Detail)
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
	case ReasonNoPrincipal:
	}
	return nil
}

// Refusal tells whether err is AWS refusing the credential; nil if it is not.
func Refusal(err error) *RefusedError {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return nil
	}
	for _, r := range []Reason{ReasonExpired, ReasonInvalid, ReasonDenied} {
		if slices.Contains(codes(r), api.ErrorCode()) {
			return &RefusedError{Reason: r, Detail: api.ErrorCode() + ": " + api.ErrorMessage(), Err: err}
		}
	}
	return nil
}
