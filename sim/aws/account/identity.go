package account

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/kubeopera/platform/sim/aws/policy"
)

// RolePolicies returns the policies of a role, inline and attached; an error
// for a role that does not exist is eks.ErrNotFound.
func (c *Client) RolePolicies(ctx context.Context, role string) ([]policy.Document, error) {
	var texts []string
	inline, err := c.iam.ListRolePolicies(ctx, &iam.ListRolePoliciesInput{RoleName: &role})
	if err != nil {
		return nil, translate("list role policies", err)
	}
	for _, name := range inline.PolicyNames {
		out, err := c.iam.GetRolePolicy(ctx, &iam.GetRolePolicyInput{RoleName: &role, PolicyName: &name})
		if err != nil {
			return nil, translate("get role policy", err)
		}
		texts = append(texts, aws.ToString(out.PolicyDocument))
	}
	attached, err := c.iam.ListAttachedRolePolicies(ctx, &iam.ListAttachedRolePoliciesInput{RoleName: &role})
	if err != nil {
		return nil, translate("list attached role policies", err)
	}
	for _, a := range attached.AttachedPolicies {
		out, err := c.iam.GetPolicy(ctx, &iam.GetPolicyInput{PolicyArn: a.PolicyArn})
		if err != nil {
			return nil, translate("get policy", err)
		}
		version, err := c.iam.GetPolicyVersion(ctx, &iam.GetPolicyVersionInput{PolicyArn: a.PolicyArn, VersionId: out.Policy.DefaultVersionId})
		if err != nil {
			return nil, translate("get policy version", err)
		}
		texts = append(texts, aws.ToString(version.PolicyVersion.Document))
	}
	var documents []policy.Document
	for _, text := range texts {
		if strings.HasPrefix(text, "%") { // as IAM answers, but not the emulator for all of them
			if text, err = url.PathUnescape(text); err != nil {
				return nil, fmt.Errorf("read policy of role %s: %w", role, err)
			}
		}
		d, err := policy.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("role %s: %w", role, err)
		}
		documents = append(documents, d)
	}
	return documents, nil
}

// ProfileRole returns the ARN of the role in an instance profile.
func (c *Client) ProfileRole(ctx context.Context, profileARN string) (string, error) {
	name := profileARN[strings.LastIndexByte(profileARN, '/')+1:]
	out, err := c.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: &name})
	if err != nil {
		return "", translate("get instance profile", err)
	}
	if len(out.InstanceProfile.Roles) == 0 {
		return "", fmt.Errorf("instance profile %s has no role", name)
	}
	return aws.ToString(out.InstanceProfile.Roles[0].Arn), nil
}
