package account

import (
	"context"
	"errors"
	"net/netip"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/smithy-go"
)

// ElasticIP is an address that was allocated.
type ElasticIP struct {
	Address      netip.Addr
	AllocationID string
	InstanceID   string // empty: not associated with an instance
	Tags         map[string]string
}

// ElasticIPs lists those of a region.
func (c *Client) ElasticIPs(ctx context.Context, region string) ([]ElasticIP, error) {
	out, err := c.ec2.DescribeAddresses(ctx, &ec2.DescribeAddressesInput{}, inRegion(region))
	if err != nil {
		return nil, translate("describe addresses", err)
	}
	var list []ElasticIP
	for _, a := range out.Addresses {
		ip, err := netip.ParseAddr(aws.ToString(a.PublicIp))
		if err != nil {
			continue // the emulator has none without, but AWS may
		}
		e := ElasticIP{Address: ip, AllocationID: aws.ToString(a.AllocationId), InstanceID: aws.ToString(a.InstanceId), Tags: map[string]string{}}
		for _, t := range a.Tags {
			e.Tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
		}
		list = append(list, e)
	}
	return list, nil
}

// LoadBalancer is a load balancer with what it leads to.
type LoadBalancer struct {
	ARN       string
	Name      string
	DNSName   string // the emulator's; clients have an address instead
	Scheme    string // "internal" or "internet-facing"
	VPCID     string
	Listeners []Listener
}

// Listener is a port of a load balancer.
type Listener struct {
	Port    int
	Targets []Target
}

// Target is where a connection may go: to an instance, or to an address.
type Target struct {
	InstanceID string
	Address    string // of a target group for addresses
	Port       int
}

// LoadBalancers lists those of a region.
func (c *Client) LoadBalancers(ctx context.Context, region string) ([]LoadBalancer, error) {
	in := func(o *elb.Options) { o.Region = region }
	out, err := c.balancing.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{}, in)
	if err != nil {
		return nil, translate("describe load balancers", err)
	}
	var list []LoadBalancer
	for _, b := range out.LoadBalancers {
		balancer := LoadBalancer{
			ARN: aws.ToString(b.LoadBalancerArn), Name: aws.ToString(b.LoadBalancerName), DNSName: aws.ToString(b.DNSName),
			Scheme: string(b.Scheme), VPCID: aws.ToString(b.VpcId),
		}
		listeners, err := c.balancing.DescribeListeners(ctx, &elb.DescribeListenersInput{LoadBalancerArn: b.LoadBalancerArn}, in)
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, translate("describe listeners", err)
		}
		for _, l := range listeners.Listeners {
			listener := Listener{Port: int(aws.ToInt32(l.Port))}
			for _, arn := range forwardsTo(l) {
				targets, err := c.targets(ctx, arn, in)
				if err != nil {
					return nil, err
				}
				listener.Targets = append(listener.Targets, targets...)
			}
			balancer.Listeners = append(balancer.Listeners, listener)
		}
		list = append(list, balancer)
	}
	return list, nil
}

// forwardsTo lists the target groups of a listener's actions.
func forwardsTo(l elbtypes.Listener) []string {
	var arns []string
	for _, a := range l.DefaultActions {
		switch {
		case a.TargetGroupArn != nil:
			arns = append(arns, *a.TargetGroupArn)
		case a.ForwardConfig != nil:
			for _, t := range a.ForwardConfig.TargetGroups {
				arns = append(arns, aws.ToString(t.TargetGroupArn))
			}
		}
	}
	return arns
}

func (c *Client) targets(ctx context.Context, group string, in func(*elb.Options)) ([]Target, error) {
	out, err := c.balancing.DescribeTargetHealth(ctx, &elb.DescribeTargetHealthInput{TargetGroupArn: &group}, in)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, translate("describe target health", err)
	}
	var targets []Target
	for _, d := range out.TargetHealthDescriptions {
		t := Target{Port: int(aws.ToInt32(d.Target.Port))}
		if id := aws.ToString(d.Target.Id); strings.HasPrefix(id, "i-") {
			t.InstanceID = id
		} else {
			t.Address = id
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// gone says that something was deleted between two calls.
func gone(err error) bool {
	apiErr, ok := errors.AsType[smithy.APIError](err)
	return ok && strings.Contains(apiErr.ErrorCode(), "NotFound")
}
