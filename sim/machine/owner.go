package machine

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"

	"github.com/kubeopera/platform/sim/aws"
)

// ownerRegion is where existing machines are.
const ownerRegion = "eu-central-1"

// owner is somebody with an AWS account who launches machines by hand: by the same
// API as everybody else.
type owner struct {
	account *aws.Account

	mu        sync.Mutex
	client    *ec2.Client
	balancing *elb.Client
	networks  map[string]string // subnets by the networks' names
}

// ec2 gives the client, and makes that for load balancers, too; their key is
// registered when it is first needed. mu is held.
func (o *owner) ec2() (*ec2.Client, error) {
	if o.client != nil {
		return o.client, nil
	}
	id, secret := "AKIA"+rand.Text()[:16], rand.Text()+rand.Text()
	if err := o.account.RegisterKey(id, secret, "arn:aws:iam::"+o.account.ID()+":user/owner-of-machines"); err != nil {
		return nil, err
	}
	config := sdk.Config{
		Region: ownerRegion, BaseEndpoint: new(o.account.URL()), Credentials: credentials.NewStaticCredentialsProvider(id, secret, ""),
		HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
	o.client, o.balancing = ec2.NewFromConfig(config), elb.NewFromConfig(config)
	return o.client, nil
}

// subnet makes a network, or finds the one that was made.
func (o *owner) subnet(ctx context.Context, name string) (*ec2.Client, string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	client, err := o.ec2()
	if err != nil {
		return nil, "", err
	}
	if id, ok := o.networks[name]; ok {
		return client, id, nil
	}
	vpc, err := client.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: new("10.60.0.0/16"), TagSpecifications: named(types.ResourceTypeVpc, "existing-"+name)})
	if err != nil {
		return nil, "", err
	}
	subnet, err := client.CreateSubnet(ctx, &ec2.CreateSubnetInput{
		VpcId: vpc.Vpc.VpcId, CidrBlock: new("10.60.1.0/24"), TagSpecifications: named(types.ResourceTypeSubnet, "existing-"+name),
	})
	if err != nil {
		return nil, "", err
	}
	if o.networks == nil {
		o.networks = map[string]string{}
	}
	o.networks[name] = sdk.ToString(subnet.Subnet.SubnetId)
	return client, o.networks[name], nil
}

// launch launches an instance with an elastic IP.
func (o *owner) launch(ctx context.Context, spec ExistingMachine, mark string) (id string, address netip.Addr, err error) {
	client, subnet, err := o.subnet(ctx, spec.Network)
	if err != nil {
		return "", netip.Addr{}, err
	}
	tags := named(types.ResourceTypeInstance, spec.Name)
	tags[0].Tags = append(tags[0].Tags, types.Tag{Key: new(existingTag), Value: &mark})
	out, err := client.RunInstances(ctx, &ec2.RunInstancesInput{
		ImageId: new("ami-12c6146b"), InstanceType: types.InstanceType(spec.Type), MinCount: new(int32(1)), MaxCount: new(int32(1)),
		SubnetId: &subnet, TagSpecifications: tags,
	})
	if err != nil {
		return "", netip.Addr{}, err
	}
	id = sdk.ToString(out.Instances[0].InstanceId)
	defer func() {
		if err != nil {
			_ = o.account.Terminate(context.WithoutCancel(ctx), ownerRegion, id)
		}
	}()
	elastic, err := client.AllocateAddress(ctx, &ec2.AllocateAddressInput{Domain: types.DomainTypeVpc})
	if err != nil {
		return id, netip.Addr{}, err
	}
	if _, err := client.AssociateAddress(ctx, &ec2.AssociateAddressInput{InstanceId: &id, AllocationId: elastic.AllocationId}); err != nil {
		return id, netip.Addr{}, err
	}
	address, err = netip.ParseAddr(sdk.ToString(elastic.PublicIp))
	if err == nil && !address.IsLoopback() {
		err = fmt.Errorf("the elastic IP %s is none of this machine: the account has no block of addresses", address)
	}
	return id, address, err
}

// release gives a terminated machine's elastic IP back.
func (o *owner) release(ctx context.Context, address netip.Addr) error {
	o.mu.Lock()
	client, err := o.ec2()
	o.mu.Unlock()
	if err != nil {
		return err
	}
	out, err := client.DescribeAddresses(ctx, &ec2.DescribeAddressesInput{PublicIps: []string{address.String()}})
	if err != nil {
		return err
	}
	for _, found := range out.Addresses {
		if found.AssociationId != nil {
			_, err := client.DisassociateAddress(ctx, &ec2.DisassociateAddressInput{AssociationId: found.AssociationId})
			if err != nil && !strings.Contains(err.Error(), "NotFound") {
				return err
			}
		}
		if _, err := client.ReleaseAddress(ctx, &ec2.ReleaseAddressInput{AllocationId: found.AllocationId}); err != nil {
			return err
		}
	}
	return nil
}

func named(kind types.ResourceType, name string) []types.TagSpecification {
	return []types.TagSpecification{{ResourceType: kind, Tags: []types.Tag{{Key: new("Name"), Value: &name}}}}
}
