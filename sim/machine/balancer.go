package machine

import (
	"context"
	"errors"
	"fmt"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/google/uuid"
)

// Balance puts a load balancer of their owner's in front of the API servers of
// machines of one network. Its address, at port 6443, works where the machines'
// own do; a target is asked only while its API server runs.
func (ms *Machines) Balance(ctx context.Context, machines ...*Existing) (address string, err error) {
	if len(machines) == 0 {
		return "", errors.New("balance: no machines")
	}
	first := machines[0].Instance()
	var targets []types.TargetDescription
	for _, m := range machines {
		if m.Instance().VPCID != first.VPCID {
			return "", fmt.Errorf("balance: %s is not in the network of %s", m.Name(), machines[0].Name())
		}
		targets = append(targets, types.TargetDescription{Id: new(m.ID()), Port: new(int32(apiPort))})
	}
	address, err = ms.owner.balance(ctx, first.VPCID, first.SubnetID, targets)
	if err != nil {
		return "", fmt.Errorf("balance: %w", err)
	}
	return address, ms.follow(ctx)
}

func (o *owner) balance(ctx context.Context, vpc, subnet string, targets []types.TargetDescription) (string, error) {
	o.mu.Lock()
	_, err := o.ec2()
	client := o.balancing
	o.mu.Unlock()
	if err != nil {
		return "", err
	}
	name := "owner-" + uuid.NewString()[:8]
	balancer, err := client.CreateLoadBalancer(ctx, &elb.CreateLoadBalancerInput{
		Name: &name, Type: types.LoadBalancerTypeEnumNetwork, Scheme: types.LoadBalancerSchemeEnumInternetFacing, Subnets: []string{subnet},
	})
	if err != nil {
		return "", err
	}
	group, err := client.CreateTargetGroup(ctx, &elb.CreateTargetGroupInput{
		Name: &name, Protocol: types.ProtocolEnumTcp, Port: new(int32(apiPort)), VpcId: &vpc, TargetType: types.TargetTypeEnumInstance,
	})
	if err != nil {
		return "", err
	}
	groupARN := group.TargetGroups[0].TargetGroupArn
	if _, err := client.RegisterTargets(ctx, &elb.RegisterTargetsInput{TargetGroupArn: groupARN, Targets: targets}); err != nil {
		return "", err
	}
	_, err = client.CreateListener(ctx, &elb.CreateListenerInput{
		LoadBalancerArn: balancer.LoadBalancers[0].LoadBalancerArn, Protocol: types.ProtocolEnumTcp, Port: new(int32(apiPort)),
		DefaultActions: []types.Action{{Type: types.ActionTypeEnumForward, TargetGroupArn: groupARN}},
	})
	return sdk.ToString(balancer.LoadBalancers[0].DNSName), err
}
