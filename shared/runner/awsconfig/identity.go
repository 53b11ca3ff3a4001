package awsconfig

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
)

// Identity is who a credential belongs to.
type Identity struct {
	Account   string // twelve digits
	Partition string // aws, aws-cn, aws-us-gov, …
	// ARN is as STS gives it, of the session if there is one.
	ARN string
	// Principal is the ARN of the IAM user or role: what access entries want.
	Principal string
}

// Identify asks STS whose credential it is. A credential that AWS does not
// accept gives a *RefusedError.
func Identify(ctx context.Context, cfg aws.Config) (Identity, error) {
	out, err := sts.NewFromConfig(cfg).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		if refused := Refusal(err); refused != nil {
			return Identity{}, refused
		}
		return Identity{}, fmt.Errorf("ask AWS STS for the credential's identity: %w", err)
	}
	id, err := identity(aws.ToString(out.Account), aws.ToString(out.Arn))
	if err != nil {
		return Identity{}, err
	}
	return withPath(ctx, cfg, id)
}

// withPath gives a role that was derived from its session the path that a
// session's ARN lacks: EKS takes no role without it. The credential itself has it
// if it is a role. Else only IAM knows the path; a session that may not ask keeps
// the ARN without, which is right for all roles but those with a path, such as
// single sign-on's.
func withPath(ctx context.Context, cfg aws.Config, id Identity) (Identity, error) {
	if id.Principal == id.ARN {
		return id, nil
	}
	if role := roleOf(cfg); isSessionOf(id.Principal, role) {
		id.Principal = role
		return id, nil
	}
	role := id.Principal[strings.LastIndexByte(id.Principal, '/')+1:]
	out, err := iam.NewFromConfig(cfg).GetRole(ctx, &iam.GetRoleInput{RoleName: &role})
	var answer smithy.APIError
	switch {
	case errors.As(err, &answer):
		return id, nil // it may not ask
	case err != nil:
		return Identity{}, fmt.Errorf("ask AWS IAM for the role of the credential: %w", err)
	}
	id.Principal = aws.ToString(out.Role.Arn)
	return id, nil
}

func identity(account, caller string) (Identity, error) {
	parsed, err := arn.Parse(caller)
	if err != nil {
		return Identity{}, fmt.Errorf("AWS STS gave the identity %q: %w", caller, err)
	}
	id := Identity{Account: account, Partition: parsed.Partition, ARN: caller, Principal: caller}
	if id.Account == "" {
		id.Account = parsed.AccountID
	}
	if id.Partition == "" {
		id.Partition = "aws"
	}
	switch {
	case parsed.Service == "sts" && strings.HasPrefix(parsed.Resource, "assumed-role/"):
		// assumed-role/<role>/<session>: the session is gone tomorrow, the role stays.
		// A role's path is not part of it.
		role := strings.Split(parsed.Resource, "/")[1]
		id.Principal = arn.ARN{Partition: parsed.Partition, Service: "iam", AccountID: parsed.AccountID, Resource: "role/" + role}.String()
	case parsed.Resource == "root":
		return Identity{}, &RefusedError{Reason: ReasonNoPrincipal, Detail: "it is the account's root user; use an IAM user or role"}
	case strings.HasPrefix(parsed.Resource, "federated-user/"):
		return Identity{}, &RefusedError{Reason: ReasonNoPrincipal, Detail: "it is a federated user's session; use an IAM user or role"}
	}
	return id, nil
}
