package account

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// groupTag is the tag by which an instance tells its Auto Scaling group.
const groupTag = "aws:autoscaling:groupName"

// Instance is an EC2 instance, launched by a call or by an Auto Scaling group.
type Instance struct {
	Region     string
	ID         string
	State      string // "running", "stopped", "terminated", …
	Type       string
	ImageID    string
	Zone       string
	VPCID      string
	SubnetID   string
	PrivateIP  string
	PrivateDNS string
	PublicIP   string // an elastic IP is of the account's block
	ProfileARN string // of its instance profile; empty: it has no credentials
	Group      string // of Auto Scaling; empty: launched by itself
	Tags       map[string]string
	HopLimit   int // of answers of the metadata service
	TokensOnly bool
	LaunchedAt time.Time
}

// Instances lists a region's instances, those that were terminated among them.
func (c *Client) Instances(ctx context.Context, region string) ([]Instance, error) {
	var list []Instance
	pages := ec2.NewDescribeInstancesPaginator(c.ec2, &ec2.DescribeInstancesInput{})
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx, inRegion(region))
		if err != nil {
			return nil, translate("describe instances", err)
		}
		for _, r := range out.Reservations {
			for _, i := range r.Instances {
				list = append(list, instance(region, i))
			}
		}
	}
	return list, nil
}

func instance(region string, i types.Instance) Instance {
	out := Instance{
		Region: region, ID: aws.ToString(i.InstanceId), Type: string(i.InstanceType), ImageID: aws.ToString(i.ImageId),
		VPCID: aws.ToString(i.VpcId), SubnetID: aws.ToString(i.SubnetId),
		PrivateIP: aws.ToString(i.PrivateIpAddress), PublicIP: aws.ToString(i.PublicIpAddress),
		Tags: map[string]string{}, LaunchedAt: aws.ToTime(i.LaunchTime),
	}
	// The emulator gives some instances the domain of another region.
	host, _, _ := strings.Cut(aws.ToString(i.PrivateDnsName), ".")
	out.PrivateDNS = host + "." + region + ".compute.internal"
	if region == "us-east-1" {
		out.PrivateDNS = host + ".ec2.internal"
	}
	if i.State != nil {
		out.State = string(i.State.Name)
	}
	if i.Placement != nil {
		out.Zone = aws.ToString(i.Placement.AvailabilityZone)
	}
	if i.IamInstanceProfile != nil {
		out.ProfileARN = aws.ToString(i.IamInstanceProfile.Arn)
	}
	if o := i.MetadataOptions; o != nil {
		out.HopLimit, out.TokensOnly = int(aws.ToInt32(o.HttpPutResponseHopLimit)), o.HttpTokens == types.HttpTokensStateRequired
	}
	for _, t := range i.Tags {
		out.Tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	out.Group = out.Tags[groupTag]
	return out
}

// UserData returns an instance's user data as the metadata service gives it:
// decoded from base64, still compressed if it was.
func (c *Client) UserData(ctx context.Context, region, id string) ([]byte, error) {
	out, err := c.ec2.DescribeInstanceAttribute(ctx, &ec2.DescribeInstanceAttributeInput{
		InstanceId: &id, Attribute: types.InstanceAttributeNameUserData,
	}, inRegion(region))
	if err != nil {
		return nil, translate("describe user data", err)
	}
	if out.UserData == nil {
		return nil, nil
	}
	data, err := base64.StdEncoding.DecodeString(aws.ToString(out.UserData.Value))
	if err != nil {
		return nil, fmt.Errorf("user data of %s: %w", id, err)
	}
	return data, nil
}

// Terminate ends an instance.
func (c *Client) Terminate(ctx context.Context, region, id string) error {
	if _, err := c.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}}, inRegion(region)); err != nil {
		return translate("terminate instance", err)
	}
	return nil
}
