package leftovers

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	elbclassic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	classictypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
)

// tagBatch is how many load balancers' tags one call may ask for.
const tagBatch = 20

// balancers removes network and application load balancers, with which AWS
// removes their listeners and rules.
func (p *pass) balancers(ctx context.Context) error {
	names := map[string]string{} // by ARN
	var arns []string
	pages := elb.NewDescribeLoadBalancersPaginator(p.balancing, &elb.DescribeLoadBalancersInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("list load balancers: %w", err)
		}
		for _, b := range page.LoadBalancers {
			if slices.Contains(p.vpcs, aws.ToString(b.VpcId)) {
				arns = append(arns, aws.ToString(b.LoadBalancerArn))
				names[aws.ToString(b.LoadBalancerArn)] = aws.ToString(b.LoadBalancerName)
			}
		}
	}
	owned, err := p.tagged(ctx, arns)
	if err != nil {
		return fmt.Errorf("read tags of load balancers: %w", err)
	}
	for _, arn := range owned {
		p.remove(KindBalancer, names[arn], func() error {
			_, err := p.balancing.DeleteLoadBalancer(ctx, &elb.DeleteLoadBalancerInput{LoadBalancerArn: &arn})
			return err
		})
	}
	return nil
}

// targetGroups removes target groups, which nothing else removes.
func (p *pass) targetGroups(ctx context.Context) error {
	names := map[string]string{} // by ARN
	var arns []string
	pages := elb.NewDescribeTargetGroupsPaginator(p.balancing, &elb.DescribeTargetGroupsInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("list target groups: %w", err)
		}
		for _, g := range page.TargetGroups {
			if slices.Contains(p.vpcs, aws.ToString(g.VpcId)) {
				arns = append(arns, aws.ToString(g.TargetGroupArn))
				names[aws.ToString(g.TargetGroupArn)] = aws.ToString(g.TargetGroupName)
			}
		}
	}
	owned, err := p.tagged(ctx, arns)
	if err != nil {
		return fmt.Errorf("read tags of target groups: %w", err)
	}
	for _, arn := range owned {
		p.remove(KindTargetGroup, names[arn], func() error {
			_, err := p.balancing.DeleteTargetGroup(ctx, &elb.DeleteTargetGroupInput{TargetGroupArn: &arn})
			return err
		})
	}
	return nil
}

// tagged selects the leftovers among load balancers or target groups.
func (p *pass) tagged(ctx context.Context, arns []string) ([]string, error) {
	var owned []string
	for batch := range slices.Chunk(arns, tagBatch) {
		out, err := p.balancing.DescribeTags(ctx, &elb.DescribeTagsInput{ResourceArns: batch})
		if notFound(err) {
			// One of them has just gone; the next pass sees those that have not.
			p.busy = append(p.busy, Remaining{Kind: KindBalancer, ID: batch[0], Reason: err.Error(), Action: "destroy again"})
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, d := range out.TagDescriptions {
			if p.scope.isLeftover(tagMap(d.Tags, func(t elbtypes.Tag) (key, value *string) { return t.Key, t.Value })) {
				owned = append(owned, aws.ToString(d.ResourceArn))
			}
		}
	}
	return owned, nil
}

// classicBalancers removes load balancers of the first generation, which the cloud
// controller makes for a Service that asks for nothing else.
func (p *pass) classicBalancers(ctx context.Context) error {
	var names []string
	pages := elbclassic.NewDescribeLoadBalancersPaginator(p.classic, &elbclassic.DescribeLoadBalancersInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("list classic load balancers: %w", err)
		}
		for _, b := range page.LoadBalancerDescriptions {
			if slices.Contains(p.vpcs, aws.ToString(b.VPCId)) {
				names = append(names, aws.ToString(b.LoadBalancerName))
			}
		}
	}
	for batch := range slices.Chunk(names, tagBatch) {
		out, err := p.classic.DescribeTags(ctx, &elbclassic.DescribeTagsInput{LoadBalancerNames: batch})
		if notFound(err) {
			p.busy = append(p.busy, Remaining{Kind: KindClassicBalancer, ID: batch[0], Reason: err.Error(), Action: "destroy again"})
			continue
		}
		if err != nil {
			return fmt.Errorf("read tags of classic load balancers: %w", err)
		}
		for _, d := range out.TagDescriptions {
			if !p.scope.isLeftover(tagMap(d.Tags, func(t classictypes.Tag) (key, value *string) { return t.Key, t.Value })) {
				continue
			}
			p.remove(KindClassicBalancer, aws.ToString(d.LoadBalancerName), func() error {
				_, err := p.classic.DeleteLoadBalancer(ctx, &elbclassic.DeleteLoadBalancerInput{LoadBalancerName: d.LoadBalancerName})
				return err
			})
		}
	}
	return nil
}
