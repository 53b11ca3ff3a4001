// Package cloudcred is about the cloud credentials that customers leave with
// auth-service: their kinds, how to ask for one, and the AWS files made of one.
//
// A Client resolves a credential's id. The contract with auth-service is
// docs/api/auth-service.yaml; package cloudcredtest checks that a server keeps
// it. Errors tell apart what a caller must do about them: ErrNotFound,
// ErrForbidden, ErrUnavailable, ErrUnsupported, ErrInvalid. Neither errors nor anything that
// is printed holds a secret.
package cloudcred
