package account

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// SettleGroups gives instances of Auto Scaling groups what their launch
// template says and the emulator leaves out: the instance profile, the security
// groups of a network interface, the options of the metadata service.
func (c *Client) SettleGroups(ctx context.Context, region string) error {
	out, err := c.scaling.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{},
		func(o *autoscaling.Options) { o.Region = region })
	if err != nil || len(out.AutoScalingGroups) == 0 {
		return translateNil("describe auto scaling groups", err)
	}
	instances, err := c.Instances(ctx, region)
	if err != nil {
		return err
	}
	for _, g := range out.AutoScalingGroups {
		template := templateOf(g)
		if template == nil {
			continue
		}
		for _, i := range instances {
			if i.Group != aws.ToString(g.AutoScalingGroupName) || i.ProfileARN != "" || i.State != string(types.InstanceStateNameRunning) {
				continue
			}
			if err := c.settle(ctx, region, i.ID, template); err != nil {
				return fmt.Errorf("settle instance %s: %w", i.ID, err)
			}
		}
	}
	return nil
}

func templateOf(g scalingtypes.AutoScalingGroup) *scalingtypes.LaunchTemplateSpecification {
	if p := g.MixedInstancesPolicy; g.LaunchTemplate == nil && p != nil && p.LaunchTemplate != nil {
		return p.LaunchTemplate.LaunchTemplateSpecification
	}
	return g.LaunchTemplate
}

// settle changes one instance. What the template does not say stays.
func (c *Client) settle(ctx context.Context, region, id string, template *scalingtypes.LaunchTemplateSpecification) error {
	data, err := c.templateData(ctx, region, template)
	if err != nil || data == nil {
		return err
	}
	if o := data.MetadataOptions; o != nil {
		if _, err := c.ec2.ModifyInstanceMetadataOptions(ctx, &ec2.ModifyInstanceMetadataOptionsInput{
			InstanceId: &id, HttpTokens: types.HttpTokensState(o.HttpTokens), HttpPutResponseHopLimit: o.HttpPutResponseHopLimit,
			HttpEndpoint: types.InstanceMetadataEndpointState(o.HttpEndpoint), InstanceMetadataTags: types.InstanceMetadataTagsState(o.InstanceMetadataTags),
		}, inRegion(region)); err != nil {
			return translate("modify metadata options", err)
		}
	}
	for _, n := range data.NetworkInterfaces {
		if len(n.Groups) == 0 || aws.ToInt32(n.DeviceIndex) != 0 {
			continue
		}
		if _, err := c.ec2.ModifyInstanceAttribute(ctx, &ec2.ModifyInstanceAttributeInput{InstanceId: &id, Groups: n.Groups}, inRegion(region)); err != nil {
			return translate("modify security groups", err)
		}
	}
	// Last: an instance that has it is settled.
	if p := data.IamInstanceProfile; p != nil {
		if _, err := c.ec2.AssociateIamInstanceProfile(ctx, &ec2.AssociateIamInstanceProfileInput{
			InstanceId: &id, IamInstanceProfile: &types.IamInstanceProfileSpecification{Arn: p.Arn, Name: p.Name},
		}, inRegion(region)); err != nil {
			return translate("associate instance profile", err)
		}
	}
	return nil
}

func (c *Client) templateData(ctx context.Context, region string, template *scalingtypes.LaunchTemplateSpecification) (*types.ResponseLaunchTemplateData, error) {
	in := &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: template.LaunchTemplateId, Versions: []string{"$Default"}}
	if template.LaunchTemplateId == nil {
		in.LaunchTemplateName = template.LaunchTemplateName
	}
	if v := aws.ToString(template.Version); v != "" {
		in.Versions = []string{v}
	}
	out, err := c.ec2.DescribeLaunchTemplateVersions(ctx, in, inRegion(region))
	if err != nil {
		return nil, translate("describe launch template", err)
	}
	if len(out.LaunchTemplateVersions) == 0 {
		return nil, nil
	}
	return out.LaunchTemplateVersions[0].LaunchTemplateData, nil
}

// translateNil is translate for an error that may be none.
func translateNil(what string, err error) error {
	if err == nil {
		return nil
	}
	return translate(what, err)
}
