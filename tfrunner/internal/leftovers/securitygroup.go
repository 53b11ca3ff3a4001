package leftovers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/smithy-go"
)

// filterBatch is how many values one filter may have.
const filterBatch = 200

// securityGroups removes security groups, after the rules of others that name them.
func (p *pass) securityGroups(ctx context.Context) error {
	groups, err := p.groups(ctx)
	if err != nil {
		return err
	}
	var owned []string
	for _, g := range groups {
		tags := ec2Tags(g.Tags)
		if !p.scope.isLeftover(tags) {
			continue
		}
		id := aws.ToString(g.GroupId)
		users, err := p.users(ctx, id)
		if err != nil {
			return err
		}
		if _, ok := tags[tagEKSCluster]; ok {
			// EKS removes it with the cluster, but cannot where an interface still has it.
			gone, err := p.clusterIsGone(ctx)
			if err != nil {
				return err
			}
			if !gone {
				continue
			}
		}
		switch {
		case len(users) == 0:
			owned = append(owned, id)
		case slices.ContainsFunc(users, isOfMachine):
			// Until the machine is gone, which is Terraform's to do.
		default:
			p.busy = append(p.busy, Remaining{
				Kind: KindSecurityGroup, ID: id, Reason: "is in use by " + describe(users),
				Action: "remove what uses it, then destroy again",
			})
		}
	}
	for batch := range slices.Chunk(owned, filterBatch) {
		if err := p.revokeReferences(ctx, batch); err != nil {
			return err
		}
	}
	for _, id := range owned {
		p.remove(KindSecurityGroup, id, func() error {
			_, err := p.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: &id})
			return err
		})
	}
	return nil
}

// groups lists the security groups of the environment's VPCs, or some of them.
func (p *pass) groups(ctx context.Context, which ...types.Filter) ([]types.SecurityGroup, error) {
	var groups []types.SecurityGroup
	pages := ec2.NewDescribeSecurityGroupsPaginator(p.ec2, &ec2.DescribeSecurityGroupsInput{
		Filters: append(which, filter("vpc-id", p.vpcs...)),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list security groups: %w", err)
		}
		groups = append(groups, page.SecurityGroups...)
	}
	return groups, nil
}

// users lists the network interfaces that have a security group.
func (p *pass) users(ctx context.Context, group string) ([]types.NetworkInterface, error) {
	var users []types.NetworkInterface
	pages := ec2.NewDescribeNetworkInterfacesPaginator(p.ec2, &ec2.DescribeNetworkInterfacesInput{Filters: []types.Filter{filter("group-id", group)}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list users of security group %s: %w", group, err)
		}
		users = append(users, page.NetworkInterfaces...)
	}
	return users, nil
}

func isOfMachine(i types.NetworkInterface) bool {
	return i.Attachment != nil && aws.ToString(i.Attachment.InstanceId) != ""
}

func describe(users []types.NetworkInterface) string {
	var list []string
	for _, u := range users {
		text := aws.ToString(u.NetworkInterfaceId)
		if d := aws.ToString(u.Description); d != "" {
			text += " (" + d + ")"
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

// clusterIsGone asks EKS.
func (p *pass) clusterIsGone(ctx context.Context) (bool, error) {
	_, err := p.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &p.scope.Cluster})
	if notFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for the EKS cluster: %w", err)
	}
	return false, nil
}

// revokeReferences takes away the rules of all groups that name one of these.
func (p *pass) revokeReferences(ctx context.Context, ids []string) error {
	inbound, err := p.groups(ctx, filter("ip-permission.group-id", ids...))
	if err != nil {
		return err
	}
	for _, g := range inbound {
		rules := naming(ids, g.IpPermissions)
		if len(rules) == 0 {
			continue
		}
		_, err := p.ec2.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: g.GroupId, IpPermissions: rules})
		if err != nil && !notFound(err) {
			return fmt.Errorf("revoke rules of security group %s: %w", aws.ToString(g.GroupId), err)
		}
	}
	outbound, err := p.groups(ctx, filter("egress.ip-permission.group-id", ids...))
	if err != nil {
		return err
	}
	for _, g := range outbound {
		rules := naming(ids, g.IpPermissionsEgress)
		if len(rules) == 0 {
			continue
		}
		_, err := p.ec2.RevokeSecurityGroupEgress(ctx, &ec2.RevokeSecurityGroupEgressInput{GroupId: g.GroupId, IpPermissions: rules})
		if err != nil && !notFound(err) {
			return fmt.Errorf("revoke rules of security group %s: %w", aws.ToString(g.GroupId), err)
		}
	}
	return nil
}

// naming is the part of the rules that names one of the groups.
func naming(ids []string, rules []types.IpPermission) []types.IpPermission {
	var parts []types.IpPermission
	for _, r := range rules {
		part := types.IpPermission{IpProtocol: r.IpProtocol, FromPort: r.FromPort, ToPort: r.ToPort}
		for _, pair := range r.UserIdGroupPairs {
			if slices.Contains(ids, aws.ToString(pair.GroupId)) {
				part.UserIdGroupPairs = append(part.UserIdGroupPairs, types.UserIdGroupPair{GroupId: pair.GroupId, UserId: pair.UserId})
			}
		}
		if len(part.UserIdGroupPairs) > 0 {
			parts = append(parts, part)
		}
	}
	return parts
}

// notFound says whether AWS knows no such thing.
func notFound(err error) bool {
	apiErr, ok := errors.AsType[smithy.APIError](err)
	return ok && strings.Contains(apiErr.ErrorCode(), "NotFound")
}
