package awsconfig

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go"
)

// assuming is the credentials of a role. It says of a refusal which role it was
// about: the SDK's error, which may come from any call, does not.
type assuming struct {
	role     string
	sessions aws.CredentialsProvider
}

// Retrieve gives a session of the role, a new one if the last is about to end.
func (a assuming) Retrieve(ctx context.Context) (aws.Credentials, error) {
	session, err := a.sessions.Retrieve(ctx)
	if err == nil {
		return session, nil
	}
	if refused := refusal(err, a.role); refused != nil {
		return session, refused
	}
	return session, err
}

// roleOf is the role that a configuration's profile assumes; empty if it has
// keys of its own.
func roleOf(cfg aws.Config) string {
	for _, source := range cfg.ConfigSources {
		if profile, ok := source.(config.SharedConfig); ok {
			return profile.RoleARN
		}
	}
	return ""
}

// isSessionOf says whether an assumed role's principal, which lacks the role's
// path, is a role's.
func isSessionOf(principal, role string) bool {
	prefix, name, _ := strings.Cut(principal, ":role/")
	path, ok := strings.CutPrefix(role, prefix+":role/")
	return ok && path[strings.LastIndexByte(path, '/')+1:] == name
}

// refusal tells whether err is AWS refusing to let a role be assumed, or the
// session of it.
func refusal(err error, role string) *RefusedError {
	answer, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return nil
	}
	reason, ok := reasonOf(answer.ErrorCode())
	if !ok && answer.ErrorCode() == "ValidationError" {
		reason, ok = ReasonRole, true // a duration that the role does not allow, most of the time
	}
	if !ok {
		return nil
	}
	return &RefusedError{Reason: reason, Detail: answer.ErrorCode() + ": " + answer.ErrorMessage(), Role: role, Err: err}
}
