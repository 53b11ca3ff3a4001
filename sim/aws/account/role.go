package account

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/kubeopera/platform/sim/aws/eks"
	"github.com/kubeopera/platform/sim/aws/policy"
	"github.com/kubeopera/platform/sim/aws/sts"
)

var _ sts.Roles = (*Client)(nil)

// Role finds a role by its ARN; one that does not exist is sts.ErrNoRole.
func (c *Client) Role(ctx context.Context, arn string) (sts.Role, error) {
	if !strings.Contains(arn, ":role/") {
		return sts.Role{}, fmt.Errorf("get role %s: %w", arn, sts.ErrNoRole)
	}
	name := arn[strings.LastIndexByte(arn, '/')+1:]
	out, err := c.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: &name})
	if err != nil {
		if err = translate("get role "+name, err); errors.Is(err, eks.ErrNotFound) {
			err = fmt.Errorf("%w: %w", sts.ErrNoRole, err)
		}
		return sts.Role{}, err
	}
	if out.Role == nil {
		return sts.Role{}, fmt.Errorf("get role %s: the emulator's answer holds none", name)
	}
	text, err := url.PathUnescape(aws.ToString(out.Role.AssumeRolePolicyDocument))
	if err != nil {
		return sts.Role{}, fmt.Errorf("get role %s: %w", name, err)
	}
	trust, err := policy.ParseTrust(text)
	if err != nil {
		return sts.Role{}, fmt.Errorf("get role %s: %w", name, err)
	}
	return sts.Role{
		ARN: aws.ToString(out.Role.Arn), Trust: trust,
		MaxDuration: time.Duration(aws.ToInt32(out.Role.MaxSessionDuration)) * time.Second,
	}, nil
}

// CreateRole makes a role in IAM and returns its ARN. Path begins and ends with
// a slash.
func (c *Client) CreateRole(ctx context.Context, path, name, trust string, longest time.Duration) (string, error) {
	in := &iam.CreateRoleInput{Path: &path, RoleName: &name, AssumeRolePolicyDocument: &trust}
	if longest > 0 {
		in.MaxSessionDuration = aws.Int32(int32(longest.Seconds()))
	}
	out, err := c.iam.CreateRole(ctx, in)
	if err != nil {
		return "", fmt.Errorf("create role %s: %w", name, err)
	}
	return aws.ToString(out.Role.Arn), nil
}

// RoleTrusts says whether a role exists and may be assumed by an AWS service.
func (c *Client) RoleTrusts(ctx context.Context, roleARN, service string) (bool, error) {
	role, err := c.Role(ctx, roleARN)
	if errors.Is(err, sts.ErrNoRole) {
		return false, nil
	}
	return err == nil && role.Trust.AllowsService(service), err
}
