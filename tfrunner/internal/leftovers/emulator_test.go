package leftovers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elbclassic "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	classictypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/tfrunner/internal/leftovers"
)

// environment is a VPC of an account, in which the test plays Terraform and the
// cluster's controllers. Everything has its name in the tag Name.
type environment struct {
	t        *testing.T
	ec2      *ec2.Client
	elb      *elb.Client
	classic  *elbclassic.Client
	vpc      string
	subnets  []string
	nodes    string // the security group of the nodes
	instance string
}

// The tags that make the difference, as key and value in turn.
func terraforms(extra ...string) []string {
	return append([]string{"kubeopera.io/environment", "acme"}, extra...)
}
func controllers() []string         { return []string{"kubernetes.io/cluster/acme", "owned"} }
func balancerControllers() []string { return []string{"elbv2.k8s.aws/cluster", "acme"} }
func anotherClusters() []string     { return []string{"kubernetes.io/cluster/acme-2", "owned"} }

// newEnvironment makes a VPC with two subnets, a group of nodes and one node.
func newEnvironment(t *testing.T, cfg aws.Config, cidr string, tags ...string) *environment {
	t.Helper()
	e := &environment{t: t, ec2: ec2.NewFromConfig(cfg), elb: elb.NewFromConfig(cfg), classic: elbclassic.NewFromConfig(cfg)}
	e.vpc = *must(e.ec2.CreateVpc(t.Context(), &ec2.CreateVpcInput{
		CidrBlock: new(cidr + ".0.0/16"), TagSpecifications: specification(types.ResourceTypeVpc, "vpc", tags),
	}))(t).Vpc.VpcId
	for i, zone := range []string{"eu-west-1a", "eu-west-1b"} {
		e.subnets = append(e.subnets, *must(e.ec2.CreateSubnet(t.Context(), &ec2.CreateSubnetInput{
			VpcId: &e.vpc, AvailabilityZone: &zone, CidrBlock: new(cidr + "." + string(rune('0'+i)) + ".0/24"),
			TagSpecifications: specification(types.ResourceTypeSubnet, zone, tags),
		}))(t).Subnet.SubnetId)
	}
	owned := append(slices.Clone(tags), controllers()...)
	e.nodes = e.group("nodes", owned...)
	e.instance = *must(e.ec2.RunInstances(t.Context(), &ec2.RunInstancesInput{
		ImageId: new("ami-12c6146b"), InstanceType: types.InstanceTypeT3Medium, MinCount: new(int32(1)), MaxCount: new(int32(1)),
		SubnetId: &e.subnets[0], SecurityGroupIds: []string{e.nodes},
		TagSpecifications: specification(types.ResourceTypeInstance, "node", owned),
	}))(t).Instances[0].InstanceId
	return e
}

func (e *environment) group(name string, tags ...string) string {
	e.t.Helper()
	return *must(e.ec2.CreateSecurityGroup(e.t.Context(), &ec2.CreateSecurityGroupInput{
		GroupName: &name, Description: &name, VpcId: &e.vpc, TagSpecifications: specification(types.ResourceTypeSecurityGroup, name, tags),
	}))(e.t).GroupId
}

// allow lets the members of one group reach those of another.
func (e *environment) allow(from, to string) {
	e.t.Helper()
	must(e.ec2.AuthorizeSecurityGroupIngress(e.t.Context(), &ec2.AuthorizeSecurityGroupIngressInput{
		GroupId: &to, IpPermissions: []types.IpPermission{{
			IpProtocol: new("tcp"), FromPort: new(int32(1)), ToPort: new(int32(65535)), UserIdGroupPairs: []types.UserIdGroupPair{{GroupId: &from}},
		}},
	}))(e.t)
}

// balancer makes a network load balancer with its target group and listener.
func (e *environment) balancer(name, group string, tags ...string) {
	e.t.Helper()
	var list []elbtypes.Tag
	for i := 0; i < len(tags); i += 2 {
		list = append(list, elbtypes.Tag{Key: &tags[i], Value: &tags[i+1]})
	}
	b := must(e.elb.CreateLoadBalancer(e.t.Context(), &elb.CreateLoadBalancerInput{
		Name: &name, Type: elbtypes.LoadBalancerTypeEnumNetwork, Subnets: e.subnets, SecurityGroups: []string{group}, Tags: list,
	}))(e.t).LoadBalancers[0]
	g := must(e.elb.CreateTargetGroup(e.t.Context(), &elb.CreateTargetGroupInput{
		Name: &name, Protocol: elbtypes.ProtocolEnumTcp, Port: new(int32(80)), VpcId: &e.vpc, TargetType: elbtypes.TargetTypeEnumInstance, Tags: list,
	}))(e.t).TargetGroups[0]
	must(e.elb.CreateListener(e.t.Context(), &elb.CreateListenerInput{
		LoadBalancerArn: b.LoadBalancerArn, Port: new(int32(80)), Protocol: elbtypes.ProtocolEnumTcp,
		DefaultActions: []elbtypes.Action{{Type: elbtypes.ActionTypeEnumForward, TargetGroupArn: g.TargetGroupArn}},
	}))(e.t)
}

func (e *environment) classicBalancer(name, group string, tags ...string) {
	e.t.Helper()
	var list []classictypes.Tag
	for i := 0; i < len(tags); i += 2 {
		list = append(list, classictypes.Tag{Key: &tags[i], Value: &tags[i+1]})
	}
	must(e.classic.CreateLoadBalancer(e.t.Context(), &elbclassic.CreateLoadBalancerInput{
		LoadBalancerName: &name, Subnets: e.subnets, SecurityGroups: []string{group}, Tags: list,
		Listeners: []classictypes.Listener{{Protocol: new("TCP"), LoadBalancerPort: 80, InstancePort: new(int32(30080))}},
	}))(e.t)
}

func (e *environment) networkInterface(name string, tags ...string) {
	e.t.Helper()
	must(e.ec2.CreateNetworkInterface(e.t.Context(), &ec2.CreateNetworkInterfaceInput{
		SubnetId: &e.subnets[1], Groups: []string{e.nodes}, TagSpecifications: specification(types.ResourceTypeNetworkInterface, name, tags),
	}))(e.t)
}

func (e *environment) volume(name string, tags ...string) (id string) {
	e.t.Helper()
	return *must(e.ec2.CreateVolume(e.t.Context(), &ec2.CreateVolumeInput{
		AvailabilityZone: new("eu-west-1a"), Size: new(int32(1)), TagSpecifications: specification(types.ResourceTypeVolume, name, tags),
	}))(e.t).VolumeId
}

func (e *environment) snapshot(volume, name string, tags ...string) {
	e.t.Helper()
	must(e.ec2.CreateSnapshot(e.t.Context(), &ec2.CreateSnapshotInput{
		VolumeId: &volume, TagSpecifications: specification(types.ResourceTypeSnapshot, name, tags),
	}))(e.t)
}

// there lists by name what the account has of what this test makes.
func (e *environment) there() map[string][]string {
	e.t.Helper()
	ctx, there := e.t.Context(), map[string][]string{}
	add := func(kind string, tags []types.Tag) {
		if i := slices.IndexFunc(tags, func(t types.Tag) bool { return *t.Key == "Name" }); i >= 0 {
			there[kind] = append(there[kind], *tags[i].Value)
		}
	}
	for _, g := range must(e.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{}))(e.t).SecurityGroups {
		add("security groups", g.Tags)
	}
	for _, i := range must(e.ec2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{}))(e.t).NetworkInterfaces {
		add("network interfaces", i.TagSet)
	}
	for _, v := range must(e.ec2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{}))(e.t).Volumes {
		add("volumes", v.Tags)
	}
	for _, s := range must(e.ec2.DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{OwnerIds: []string{"self"}}))(e.t).Snapshots {
		add("snapshots", s.Tags)
	}
	for _, b := range must(e.elb.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{}))(e.t).LoadBalancers {
		there["load balancers"] = append(there["load balancers"], *b.LoadBalancerName)
	}
	for _, b := range must(e.classic.DescribeLoadBalancers(ctx, &elbclassic.DescribeLoadBalancersInput{}))(e.t).LoadBalancerDescriptions {
		there["load balancers"] = append(there["load balancers"], *b.LoadBalancerName)
	}
	for _, g := range must(e.elb.DescribeTargetGroups(ctx, &elb.DescribeTargetGroupsInput{}))(e.t).TargetGroups {
		there["target groups"] = append(there["target groups"], *g.TargetGroupName)
	}
	for _, list := range there {
		slices.Sort(list)
	}
	return there
}

// destroy does what Terraform would: it deletes what it has made and nothing else.
func (e *environment) destroy(ctx context.Context) error {
	var errs []error
	for _, b := range must(e.elb.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{Names: []string{"api"}}))(e.t).LoadBalancers {
		_, err := e.elb.DeleteLoadBalancer(ctx, &elb.DeleteLoadBalancerInput{LoadBalancerArn: b.LoadBalancerArn})
		errs = append(errs, err)
	}
	for _, g := range must(e.elb.DescribeTargetGroups(ctx, &elb.DescribeTargetGroupsInput{Names: []string{"api"}}))(e.t).TargetGroups {
		_, err := e.elb.DeleteTargetGroup(ctx, &elb.DeleteTargetGroupInput{TargetGroupArn: g.TargetGroupArn})
		errs = append(errs, err)
	}
	_, err := e.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{e.instance}})
	errs = append(errs, err)
	_, err = e.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: &e.nodes})
	errs = append(errs, err)
	for _, s := range e.subnets {
		_, err := e.ec2.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: &s})
		errs = append(errs, err)
	}
	_, err = e.ec2.DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: &e.vpc})
	return errors.Join(append(errs, err)...)
}

func TestLeftoversOfACluster(t *testing.T) {
	account, cfg := simulated(t)
	e := newEnvironment(t, cfg, "10.1", terraforms()...)
	// Another cluster, with a name that begins the same, in a VPC of its own.
	other := newEnvironment(t, cfg, "10.2", anotherClusters()...)
	must(other.ec2.DeleteTags(t.Context(), &ec2.DeleteTagsInput{
		Resources: []string{other.instance, other.nodes}, Tags: []types.Tag{{Key: new("kubernetes.io/cluster/acme")}},
	}))(t)

	// Terraform's.
	e.balancer("api", e.nodes, terraforms()...)
	// The cloud controller's: groups of load balancers, which the nodes' group lets in.
	first, second := e.group("k8s-elb-1", controllers()...), e.group("k8s-elb-2", controllers()...)
	e.allow(first, e.nodes)
	e.allow(e.nodes, e.nodes)
	e.allow(first, second) // in a circle
	e.allow(second, first)
	e.classicBalancer("classic", first, controllers()...)
	e.balancer("service", second, controllers()...)
	// The AWS Load Balancer Controller's.
	ingress := e.group("k8s-traffic", balancerControllers()...)
	e.allow(ingress, e.nodes)
	e.balancer("ingress", ingress, balancerControllers()...)
	// The network plugin's.
	e.networkInterface("secondary", "cluster.k8s.amazonaws.com/name", "acme")
	// The storage driver's.
	volume := e.volume("data", controllers()...)
	e.volume("kept", append(controllers(), "kubeopera.io/retain", "true")...)
	e.volume("untagged", "kubernetes.io/created-for/pvc/name", "data", "ebs.csi.aws.com/cluster", "true")
	e.snapshot(volume, "backup", controllers()...)
	e.snapshot(volume, "kept", append(controllers(), "kubeopera.io/retain", "true")...)
	must(e.ec2.AttachVolume(t.Context(), &ec2.AttachVolumeInput{VolumeId: &volume, InstanceId: &e.instance, Device: new("/dev/xvdf")}))(t)
	// The other cluster's, and one that has the same tag in the other VPC.
	other.balancer("other", other.nodes, anotherClusters()...)
	other.balancer("namesake", other.group("k8s-elb-namesake", controllers()...), controllers()...)
	other.classicBalancer("other-classic", other.nodes, anotherClusters()...)
	other.networkInterface("other", "cluster.k8s.amazonaws.com/name", "acme-2")
	other.volume("other", anotherClusters()...)

	_, err := e.ec2.DeleteSubnet(t.Context(), &ec2.DeleteSubnetInput{SubnetId: &e.subnets[1]})
	if apiErr, ok := errors.AsType[smithy.APIError](err); !ok || apiErr.ErrorCode() != "DependencyViolation" {
		t.Fatalf("a subnet with a load balancer can be deleted: %v", err)
	}

	r := leftovers.New(cfg, leftovers.Scope{Environment: "acme", Cluster: "acme"})
	if err := r.Remove(t.Context(), func(line string) { t.Log(line) }); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"load balancers":     {"api", "namesake", "other", "other-classic"},
		"target groups":      {"api", "namesake", "other"},
		"security groups":    {"k8s-elb-namesake", "nodes", "nodes"},
		"network interfaces": {"other"},
		"volumes":            {"data", "kept", "other", "untagged"},
		"snapshots":          {"backup", "kept"},
	}
	if diff := cmp.Diff(want, e.there()); diff != "" {
		t.Fatalf("before Terraform's destroy (-want +got):\n%s", diff)
	}

	if err := r.RemoveDuring(t.Context(), func(line string) { t.Log(line) }, e.destroy); err != nil {
		t.Fatal(err)
	}
	if err := r.Remove(t.Context(), func(line string) { t.Log(line) }); err != nil {
		t.Fatal(err)
	}
	want = map[string][]string{
		"load balancers":     {"namesake", "other", "other-classic"},
		"target groups":      {"namesake", "other"},
		"security groups":    {"k8s-elb-namesake", "nodes"},
		"network interfaces": {"other"},
		"volumes":            {"kept", "other", "untagged"},
		"snapshots":          {"kept"},
	}
	if diff := cmp.Diff(want, e.there()); diff != "" {
		t.Errorf("after Terraform's destroy (-want +got):\n%s", diff)
	}

	t.Run("parameters", func(t *testing.T) {
		want := []string{"/kubeopera/acme-2/join_turns/1"}
		for i := range 12 {
			name := fmt.Sprintf("/kubeopera/acme/join_turns/%d", i)
			if err := account.SSM().Put(region, name, "x"); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range append(want, "/kubeopera/acme/init_claims/first", "/kubeopera/acme/bootstrap_status/worker-i-1") {
			if err := account.SSM().Put(region, name, "x"); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.RemoveParameters(t.Context(), func(line string) { t.Log(line) }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, account.SSM().Names(region, "/kubeopera/")); diff != "" {
			t.Errorf("parameters (-want +got):\n%s", diff)
		}
	})
}

func specification(kind types.ResourceType, name string, tags []string) []types.TagSpecification {
	list := []types.Tag{{Key: new("Name"), Value: &name}}
	for i := 0; i < len(tags); i += 2 {
		list = append(list, types.Tag{Key: &tags[i], Value: &tags[i+1]})
	}
	return []types.TagSpecification{{ResourceType: kind, Tags: list}}
}

// must gives the result of a call that must not fail.
func must[T any](out T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return out
	}
}
