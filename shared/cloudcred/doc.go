// Package cloudcred is about the credentials that customers leave with
// auth-service: their kinds, how to ask for one, and the AWS files made of one.
// Git credentials are a type of their own, GitCredential: who asks for the one is
// refused the other.
//
// A Client resolves a credential's id, and for a role also the access key that
// may assume it. The contract with auth-service is docs/api/auth-service.yaml;
// package cloudcredtest checks that a server keeps it. Errors tell apart what a
// caller must do about them: ErrNotFound, ErrForbidden, ErrUnavailable,
// ErrUnsupported, and ErrInvalid, which an InvalidError explains. Neither errors
// nor anything that is printed holds a secret.
package cloudcred
