// Package account lets the fakes and the simulator look into the emulator, where
// the rest of the AWS account is: subnets, security groups, launch templates,
// roles and their policies, instances, addresses and load balancers.
//
// It speaks to the emulator directly, not through the gateway, so that its
// calls are neither recorded nor subject to faults.
package account

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elbclassic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/smithy-go"

	"github.com/kubeopera/platform/sim/aws/eks"
)

// callTimeout bounds one call to the emulator, which is on this machine.
const callTimeout = 30 * time.Second

// Client reads and writes the emulator's account.
type Client struct {
	ec2       *ec2.Client
	iam       *iam.Client
	scaling   *autoscaling.Client
	balancing *elb.Client
	classic   *elbclassic.Client
}

var _ eks.Account = (*Client)(nil)

// New returns a client for the emulator at endpoint, which takes any credentials.
func New(endpoint *url.URL) *Client {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: callTimeout}
	config := aws.Config{
		BaseEndpoint: new(endpoint.String()),
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("simulator", "simulator", ""),
		HTTPClient:   client,
		Retryer:      func() aws.Retryer { return aws.NopRetryer{} },
	}
	return &Client{
		ec2: ec2.NewFromConfig(config), iam: iam.NewFromConfig(config),
		scaling: autoscaling.NewFromConfig(config), balancing: elb.NewFromConfig(config),
		classic: elbclassic.NewFromConfig(config),
	}
}

func inRegion(region string) func(*ec2.Options) {
	return func(o *ec2.Options) { o.Region = region }
}

// Subnets describes subnets by id.
func (c *Client) Subnets(ctx context.Context, region string, ids []string) ([]eks.Subnet, error) {
	out, err := c.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: ids}, inRegion(region))
	if err != nil {
		return nil, translate("describe subnets", err)
	}
	var subnets []eks.Subnet
	for _, s := range out.Subnets {
		subnets = append(subnets, eks.Subnet{ID: aws.ToString(s.SubnetId), VPCID: aws.ToString(s.VpcId), Zone: aws.ToString(s.AvailabilityZone)})
	}
	if len(subnets) < len(ids) {
		return nil, fmt.Errorf("describe subnets: %w", eks.ErrNotFound)
	}
	return subnets, nil
}

// CreateSecurityGroup makes a cluster's own group, named and tagged as EKS does.
func (c *Client) CreateSecurityGroup(ctx context.Context, region, vpcID, cluster string) (string, error) {
	out, err := c.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
		GroupName:   new("eks-cluster-sg-" + cluster + "-" + vpcID),
		Description: new("EKS created security group applied to ENI that is attached to EKS Control Plane master nodes, as well as any managed workloads."),
		VpcId:       &vpcID,
		TagSpecifications: []types.TagSpecification{{
			ResourceType: types.ResourceTypeSecurityGroup,
			Tags: []types.Tag{
				{Key: new("Name"), Value: new("eks-cluster-sg-" + cluster)},
				{Key: new("kubernetes.io/cluster/" + cluster), Value: new("owned")},
				{Key: new("aws:eks:cluster-name"), Value: &cluster},
			},
		}},
	}, inRegion(region))
	if err != nil {
		return "", translate("create security group", err)
	}
	return aws.ToString(out.GroupId), nil
}

// DeleteSecurityGroup removes a group.
func (c *Client) DeleteSecurityGroup(ctx context.Context, region, id string) error {
	if _, err := c.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: &id}, inRegion(region)); err != nil {
		return translate("delete security group", err)
	}
	return nil
}

// LaunchTemplate finds a template and looks into its default version.
func (c *Client) LaunchTemplate(ctx context.Context, region, id, name string) (eks.Template, error) {
	in := &ec2.DescribeLaunchTemplateVersionsInput{Versions: []string{"$Default"}}
	if id != "" {
		in.LaunchTemplateId = &id
	} else {
		in.LaunchTemplateName = &name
	}
	out, err := c.ec2.DescribeLaunchTemplateVersions(ctx, in, inRegion(region))
	if err != nil {
		return eks.Template{}, translate("describe launch template", err)
	}
	if len(out.LaunchTemplateVersions) == 0 {
		return eks.Template{}, fmt.Errorf("describe launch template: %w", eks.ErrNotFound)
	}
	v := out.LaunchTemplateVersions[0]
	t := eks.Template{ID: aws.ToString(v.LaunchTemplateId), Name: aws.ToString(v.LaunchTemplateName)}
	if data := v.LaunchTemplateData; data != nil {
		t.HasImage = aws.ToString(data.ImageId) != ""
		t.HasInstance = data.InstanceType != ""
	}
	return t, nil
}

// translate makes AWS's many ways to say that something is not there one.
func translate(what string, err error) error {
	if apiErr, ok := errors.AsType[smithy.APIError](err); ok && (strings.Contains(apiErr.ErrorCode(), "NotFound") || apiErr.ErrorCode() == "NoSuchEntity") {
		return fmt.Errorf("%s: %w: %s", what, eks.ErrNotFound, apiErr.ErrorMessage())
	}
	return fmt.Errorf("%s: %w", what, err)
}
