package account

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elbclassic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
)

// Dependent is something for which EC2 would not delete a VPC, subnet or security
// group, by their ids; empty if there is nothing.
func (c *Client) Dependent(ctx context.Context, region, id string) (string, error) {
	balancer, err := c.dependentBalancer(ctx, region, id)
	if err != nil || balancer != "" {
		return balancer, err
	}
	kind, _, _ := strings.Cut(id, "-")
	switch kind {
	case "vpc":
		return c.dependentGroup(ctx, region, "vpc-id", id)
	case "subnet":
		return c.dependentInterface(ctx, region, "subnet-id", id)
	case "sg":
		for _, rule := range []string{"ip-permission.group-id", "egress.ip-permission.group-id"} {
			if group, err := c.dependentGroup(ctx, region, rule, id); err != nil || group != "" {
				return group, err
			}
		}
		return c.dependentInterface(ctx, region, "group-id", id)
	}
	return "", nil
}

// dependentGroup is a security group that the filter selects, other than the
// default one and id itself.
func (c *Client) dependentGroup(ctx context.Context, region, filter, id string) (string, error) {
	out, err := c.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{
		Filters: []types.Filter{{Name: &filter, Values: []string{id}}},
	}, inRegion(region))
	if err != nil {
		return "", translate("describe security groups", err)
	}
	for _, g := range out.SecurityGroups {
		if aws.ToString(g.GroupName) != "default" && aws.ToString(g.GroupId) != id {
			return aws.ToString(g.GroupId), nil
		}
	}
	return "", nil
}

// dependentInterface is a network interface that the filter selects. The emulator
// keeps those of machines that are terminated and of NAT gateways that are deleted.
func (c *Client) dependentInterface(ctx context.Context, region, filter, id string) (string, error) {
	out, err := c.ec2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{
		Filters: []types.Filter{{Name: &filter, Values: []string{id}}},
	}, inRegion(region))
	if err != nil || len(out.NetworkInterfaces) == 0 {
		return "", translateNil("describe network interfaces", err)
	}
	gateways, err := c.ec2.DescribeNatGateways(ctx, &ec2.DescribeNatGatewaysInput{}, inRegion(region))
	if err != nil {
		return "", translate("describe NAT gateways", err)
	}
	gone := map[string]bool{}
	for _, g := range gateways.NatGateways {
		for _, a := range g.NatGatewayAddresses {
			gone[aws.ToString(a.NetworkInterfaceId)] = g.State == types.NatGatewayStateDeleted
		}
	}
	instances, err := c.Instances(ctx, region)
	if err != nil {
		return "", err
	}
	for _, i := range instances {
		gone[i.ID] = i.State == string(types.InstanceStateNameTerminated)
	}
	for _, i := range out.NetworkInterfaces {
		if gone[aws.ToString(i.NetworkInterfaceId)] || i.Attachment != nil && gone[aws.ToString(i.Attachment.InstanceId)] {
			continue
		}
		return aws.ToString(i.NetworkInterfaceId), nil
	}
	return "", nil
}

// dependentBalancer is a load balancer in a VPC, in a subnet, or with a security
// group: the emulator gives load balancers no network interfaces.
func (c *Client) dependentBalancer(ctx context.Context, region, id string) (string, error) {
	out, err := c.balancing.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{}, func(o *elb.Options) { o.Region = region })
	if err != nil {
		return "", translate("describe load balancers", err)
	}
	for _, b := range out.LoadBalancers {
		holds := append(slices.Clone(b.SecurityGroups), aws.ToString(b.VpcId))
		for _, z := range b.AvailabilityZones {
			holds = append(holds, aws.ToString(z.SubnetId))
		}
		if slices.Contains(holds, id) {
			return aws.ToString(b.LoadBalancerName), nil
		}
	}
	classic, err := c.classic.DescribeLoadBalancers(ctx, &elbclassic.DescribeLoadBalancersInput{}, func(o *elbclassic.Options) { o.Region = region })
	if err != nil {
		return "", translate("describe classic load balancers", err)
	}
	for _, b := range classic.LoadBalancerDescriptions {
		if slices.Contains(slices.Concat(b.SecurityGroups, b.Subnets, []string{aws.ToString(b.VPCId)}), id) {
			return aws.ToString(b.LoadBalancerName), nil
		}
	}
	return "", nil
}
