package aws_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/sim/aws"
	"github.com/kubeopera/platform/sim/aws/account"
	"github.com/kubeopera/platform/sim/aws/faults"
	"github.com/kubeopera/platform/sim/aws/protocol"
)

// userData is what a compressed cloud-config begins with: no text.
var userData = []byte("\x1f\x8b\x08\x00\xff\xfe#cloud-config")

// network is a VPC with two subnets, a security group and an instance profile,
// all of which have one name.
type network struct {
	name, vpc, group, profile string
	subnets                   []string
}

func newNetwork(t *testing.T, name string) network {
	t.Helper()
	client := ec2.NewFromConfig(config(t))
	vpc, err := client.CreateVpc(t.Context(), &ec2.CreateVpcInput{CidrBlock: new("10.40.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	n := network{name: name, vpc: *vpc.Vpc.VpcId}
	for zone, cidr := range map[string]string{region + "a": "10.40.0.0/24", region + "b": "10.40.1.0/24"} {
		s, err := client.CreateSubnet(t.Context(), &ec2.CreateSubnetInput{VpcId: &n.vpc, CidrBlock: &cidr, AvailabilityZone: &zone})
		if err != nil {
			t.Fatal(err)
		}
		n.subnets = append(n.subnets, *s.Subnet.SubnetId)
	}
	group, err := client.CreateSecurityGroup(t.Context(), &ec2.CreateSecurityGroupInput{GroupName: &name, Description: &name, VpcId: &n.vpc})
	if err != nil {
		t.Fatal(err)
	}
	n.group = *group.GroupId
	identity := iam.NewFromConfig(config(t))
	if _, err := identity.CreateRole(t.Context(), &iam.CreateRoleInput{
		RoleName: &name, Path: new("/nodes/"),
		AssumeRolePolicyDocument: new(`{"Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`),
	}); err != nil {
		t.Fatal(err)
	}
	profile, err := identity.CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: &name})
	if err != nil {
		t.Fatal(err)
	}
	n.profile = *profile.InstanceProfile.Arn
	if _, err := identity.AddRoleToInstanceProfile(t.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: &name, RoleName: &name}); err != nil {
		t.Fatal(err)
	}
	return n
}

// launch starts one instance.
func (n network) launch(t *testing.T) string {
	t.Helper()
	out, err := ec2.NewFromConfig(config(t)).RunInstances(t.Context(), &ec2.RunInstancesInput{
		ImageId: new("ami-12345678"), InstanceType: ec2types.InstanceTypeT3Medium, MinCount: new(int32(1)), MaxCount: new(int32(1)),
		SubnetId: &n.subnets[0], UserData: new(base64.StdEncoding.EncodeToString(userData)),
		IamInstanceProfile: &ec2types.IamInstanceProfileSpecification{Name: &n.name},
	})
	if err != nil {
		t.Fatal(err)
	}
	return *out.Instances[0].InstanceId
}

// instances gives those with a tag or an id.
func instances(t *testing.T, selects func(account.Instance) bool) []account.Instance {
	t.Helper()
	all, err := theAccount(t).Instances(t.Context(), region)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(i account.Instance) bool { return !selects(i) })
}

func TestInstancesOfAutoScalingGroups(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, "scaling-test")
	if _, err := ec2.NewFromConfig(config(t)).CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &n.name,
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId: new("ami-12345678"), InstanceType: ec2types.InstanceTypeT3Medium,
			UserData:           new(base64.StdEncoding.EncodeToString(userData)),
			IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Arn: &n.profile},
			NetworkInterfaces:  []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{DeviceIndex: new(int32(0)), Groups: []string{n.group}}},
			MetadataOptions: &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{
				HttpTokens: ec2types.LaunchTemplateHttpTokensStateRequired, HttpPutResponseHopLimit: new(int32(2)),
			},
		},
	}); err != nil {
		t.Fatal(err)
	}
	scaling := autoscaling.NewFromConfig(config(t))
	if _, err := scaling.CreateAutoScalingGroup(t.Context(), &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: &n.name, MinSize: new(int32(1)), MaxSize: new(int32(3)), DesiredCapacity: new(int32(2)),
		LaunchTemplate:    &scalingtypes.LaunchTemplateSpecification{LaunchTemplateName: &n.name, Version: new("$Latest")},
		VPCZoneIdentifier: new(strings.Join(n.subnets, ",")),
		Tags:              []scalingtypes.Tag{{Key: new("kubernetes.io/cluster/x"), Value: new("owned"), PropagateAtLaunch: new(true)}},
	}); err != nil {
		t.Fatal(err)
	}
	running := func(want int) []account.Instance {
		t.Helper()
		found := instances(t, func(i account.Instance) bool { return i.Group == n.name && i.State == "running" })
		if len(found) != want {
			t.Fatalf("%d instances are running, want %d", len(found), want)
		}
		for _, i := range found {
			data, err := theAccount(t).UserData(t.Context(), region, i.ID)
			if err != nil || !bytes.Equal(data, userData) {
				t.Errorf("user data: %q, %v", data, err)
			}
			if i.ProfileARN != n.profile || !i.TokensOnly || i.HopLimit != 2 || i.Tags["kubernetes.io/cluster/x"] != "owned" ||
				!strings.HasPrefix(i.Zone, region) || !slices.Contains(n.subnets, i.SubnetID) || i.PrivateDNS != "ip-"+strings.ReplaceAll(i.PrivateIP, ".", "-")+"."+region+".compute.internal" {
				t.Errorf("instance: %+v", i)
			}
		}
		return found
	}
	found := running(2)
	out, err := ec2.NewFromConfig(config(t)).DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{found[0].ID}})
	if err != nil {
		t.Fatal(err)
	}
	i := out.Reservations[0].Instances[0]
	if *i.PrivateDnsName != found[0].PrivateDNS || *i.IamInstanceProfile.Arn != n.profile || len(i.SecurityGroups) != 1 || *i.SecurityGroups[0].GroupId != n.group {
		t.Errorf("described: %s, profile %+v, groups %+v", *i.PrivateDnsName, i.IamInstanceProfile, i.SecurityGroups)
	}
	role, err := theAccount(t).ProfileRole(t.Context(), n.profile)
	if err != nil || role != "arn:aws:iam::123456789012:role/nodes/scaling-test" {
		t.Errorf("role: %s, %v", role, err)
	}
	// What is lost is replaced, and what is wanted more is launched, as the template says.
	if _, err := ec2.NewFromConfig(config(t)).TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{found[0].ID}}); err != nil {
		t.Fatal(err)
	}
	running(2)
	if _, err := scaling.SetDesiredCapacity(t.Context(), &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: &n.name, DesiredCapacity: new(int32(3))}); err != nil {
		t.Fatal(err)
	}
	running(3)
}

func TestAddressesAreOfTheBlock(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, "addresses-test")
	id := n.launch(t)
	client, balancing := ec2.NewFromConfig(config(t)), elb.NewFromConfig(config(t))
	elastic, err := client.AllocateAddress(t.Context(), &ec2.AllocateAddressInput{Domain: ec2types.DomainTypeVpc})
	if err != nil {
		t.Fatal(err)
	}
	ip := netip.MustParseAddr(*elastic.PublicIp)
	if !block.Contains(ip) {
		t.Errorf("elastic IP %s", ip)
	}
	if _, err := client.AssociateAddress(t.Context(), &ec2.AssociateAddressInput{AllocationId: elastic.AllocationId, InstanceId: &id}); err != nil {
		t.Fatal(err)
	}
	// The address is the emulator's own, in answers and in filters.
	described, err := client.DescribeAddresses(t.Context(), &ec2.DescribeAddressesInput{PublicIps: []string{ip.String()}})
	if err != nil || len(described.Addresses) != 1 || *described.Addresses[0].InstanceId != id {
		t.Errorf("addresses: %+v, %v", described, err)
	}
	for _, filter := range []string{"ip-address", "instance-id"} {
		value := map[string]string{"ip-address": ip.String(), "instance-id": id}[filter]
		out, err := client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{{Name: &filter, Values: []string{value}}}})
		if err != nil || len(out.Reservations) != 1 || sdk.ToString(out.Reservations[0].Instances[0].PublicIpAddress) != ip.String() {
			t.Errorf("instances by %s: %+v, %v", filter, out, err)
		}
	}

	balancer, err := balancing.CreateLoadBalancer(t.Context(), &elb.CreateLoadBalancerInput{
		Name: &n.name, Type: elbtypes.LoadBalancerTypeEnumNetwork, Scheme: elbtypes.LoadBalancerSchemeEnumInternal, Subnets: n.subnets,
	})
	if err != nil {
		t.Fatal(err)
	}
	arn, host := balancer.LoadBalancers[0].LoadBalancerArn, *balancer.LoadBalancers[0].DNSName
	if address, err := netip.ParseAddr(host); err != nil || !block.Contains(address) || address == ip {
		t.Errorf("load balancer's name is %s", host)
	}
	again, err := balancing.DescribeLoadBalancers(t.Context(), &elb.DescribeLoadBalancersInput{LoadBalancerArns: []string{*arn}})
	if err != nil || *again.LoadBalancers[0].DNSName != host {
		t.Errorf("described: %+v, %v", again, err)
	}
	group, err := balancing.CreateTargetGroup(t.Context(), &elb.CreateTargetGroupInput{
		Name: &n.name, Protocol: elbtypes.ProtocolEnumTcp, Port: new(int32(6443)), VpcId: &n.vpc, TargetType: elbtypes.TargetTypeEnumInstance,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := balancing.CreateListener(t.Context(), &elb.CreateListenerInput{
		LoadBalancerArn: arn, Protocol: elbtypes.ProtocolEnumTcp, Port: new(int32(6443)),
		DefaultActions: []elbtypes.Action{{Type: elbtypes.ActionTypeEnumForward, TargetGroupArn: group.TargetGroups[0].TargetGroupArn}},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := balancing.RegisterTargets(t.Context(), &elb.RegisterTargetsInput{
		TargetGroupArn: group.TargetGroups[0].TargetGroupArn, Targets: []elbtypes.TargetDescription{{Id: &id, Port: new(int32(6443))}},
	}); err != nil {
		t.Fatal(err)
	}
	byAddress := func() map[string]aws.Address {
		t.Helper()
		list, err := theAccount(t).Addresses(t.Context(), region)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]aws.Address{}
		for _, a := range list {
			out[a.IP.String()] = a
		}
		return out
	}
	list := byAddress()
	if e := list[ip.String()].ElasticIP; e == nil || e.InstanceID != id || e.AllocationID != *elastic.AllocationId {
		t.Errorf("elastic IP: %+v", e)
	}
	b := list[host].LoadBalancer
	if b == nil || b.Name != n.name || b.Scheme != "internal" || b.ARN != *arn {
		t.Fatalf("load balancer: %+v", b)
	}
	if diff := cmp.Diff([]account.Listener{{Port: 6443, Targets: []account.Target{{InstanceID: id, Port: 6443}}}}, b.Listeners); diff != "" {
		t.Errorf("listeners (-want +got):\n%s", diff)
	}
	if _, err := balancing.DeleteLoadBalancer(t.Context(), &elb.DeleteLoadBalancerInput{LoadBalancerArn: arn}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.ReleaseAddress(t.Context(), &ec2.ReleaseAddressInput{AllocationId: elastic.AllocationId}); err != nil {
		t.Fatal(err)
	}
	if list := byAddress(); list[host].LoadBalancer != nil || list[ip.String()].ElasticIP != nil {
		t.Errorf("after deletion: %+v", list)
	}
}

func TestInstancesMayDoInParameterStoreWhatTheirRolesMay(t *testing.T) {
	t.Parallel()
	simulated := theAccount(t)
	n := newNetwork(t, "session-test")
	identity := iam.NewFromConfig(config(t))
	const prefix = "/kubeopera/session-test/"
	for _, name := range []string{"join_token", "admin_kubeconfig"} {
		if err := simulated.SSM().Put(region, prefix+name, name); err != nil {
			t.Fatal(err)
		}
	}
	key, err := simulated.RegisterSession("arn:aws:iam::123456789012:role/nodes/session-test", "i-0123456789abcdef0")
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(key.ExpiresAt); !strings.HasPrefix(key.ID, "ASIA") || key.SessionToken == "" || left > 6*time.Hour || left < 5*time.Hour {
		t.Errorf("key %s expires in %s", key.ID, left)
	}
	cfg := config(t)
	cfg.Credentials = credentials.NewStaticCredentialsProvider(key.ID, key.Secret, key.SessionToken)
	who, err := sts.NewFromConfig(cfg).GetCallerIdentity(t.Context(), nil)
	if err != nil || *who.Arn != "arn:aws:sts::123456789012:assumed-role/session-test/i-0123456789abcdef0" {
		t.Errorf("identity: %+v, %v", who, err)
	}
	node := ssm.NewFromConfig(cfg)
	get := func(names ...string) string {
		t.Helper()
		for i := range names {
			names[i] = prefix + names[i]
		}
		_, err := node.GetParameters(t.Context(), &ssm.GetParametersInput{Names: names, WithDecryption: new(true)})
		return errorCode(t, err)
	}
	put := func(name string) string {
		t.Helper()
		_, err := node.PutParameter(t.Context(), &ssm.PutParameterInput{
			Name: new(prefix + name), Value: new("x"), Type: ssmtypes.ParameterTypeSecureString, Overwrite: new(true),
		})
		return errorCode(t, err)
	}
	const denied = "AccessDeniedException"
	if got := get("join_token"); got != denied {
		t.Errorf("without a policy: %s", got)
	}
	if _, err := identity.PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{RoleName: &n.name, PolicyName: new("inline"), PolicyDocument: new(`{
		"Version": "2012-10-17", "Statement": [
			{"Effect": "Allow", "Action": "ssm:GetParameters", "Resource": ["arn:aws:ssm:eu-central-1:123456789012:parameter/kubeopera/session-test/join_token"]},
			{"Effect": "Allow", "Action": ["ssm:PutParameter"], "Resource": "arn:aws:ssm:*:*:parameter/kubeopera/session-test/bootstrap_status/worker-*"}
		]}`)}); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{
		"its parameter": get("join_token"), "kubeconfig": get("admin_kubeconfig"), "both": get("join_token", "admin_kubeconfig"),
		"its status": put("bootstrap_status/worker-i-0123456789abcdef0"), "token": put("join_token"),
	}
	want := map[string]string{"its parameter": "ok", "kubeconfig": denied, "both": denied, "its status": "ok", "token": denied}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with an inline policy (-want +got):\n%s", diff)
	}
	// AWS's own policy for Session Manager reads all parameters, unless another one denies it.
	if _, err := identity.AttachRolePolicy(t.Context(), &iam.AttachRolePolicyInput{
		RoleName: &n.name, PolicyArn: new("arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"),
	}); err != nil {
		t.Fatal(err)
	}
	if got := get("admin_kubeconfig"); got != "ok" {
		t.Errorf("with AmazonSSMManagedInstanceCore: %s", got)
	}
	if _, err := identity.PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{RoleName: &n.name, PolicyName: new("deny"), PolicyDocument: new(
		`{"Version": "2012-10-17", "Statement": {"Effect": "Deny", "Action": "ssm:*", "Resource": "arn:aws:ssm:*:*:parameter/kubeopera/*/admin_kubeconfig"}}`)}); err != nil {
		t.Fatal(err)
	}
	if got := get("admin_kubeconfig"); got != denied {
		t.Errorf("with a denial: %s", got)
	}
	if err := simulated.Keys().Expire(key.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := get("join_token"); got != "ExpiredTokenException" {
		t.Errorf("after it has expired: %s", got)
	}
	for _, bad := range [][2]string{{"session-test", "i-0123456789abcdef0"}, {"arn:aws:iam::123456789012:role/x", "me"}} {
		if _, err := simulated.RegisterSession(bad[0], bad[1]); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

func TestFaultsSelectParameters(t *testing.T) {
	t.Parallel()
	simulated := theAccount(t)
	for _, name := range []string{"/faulty/one", "/faulty/two"} {
		if err := simulated.SSM().Put(region, name, "x"); err != nil {
			t.Fatal(err)
		}
	}
	id, err := simulated.Faults().Add(faults.Fault{
		Service: "ssm", Operation: "GetParameters", Resource: "/faulty/two", Kind: faults.KindError, Times: faults.Always,
		Error: &protocol.Error{Status: 400, Code: "InternalServerError", Message: "no"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer simulated.Faults().Remove(id)
	cfg := config(t)
	cfg.Retryer = func() sdk.Retryer { return sdk.NopRetryer{} }
	get := func(names ...string) string {
		t.Helper()
		_, err := ssm.NewFromConfig(cfg).GetParameters(t.Context(), &ssm.GetParametersInput{Names: names})
		return errorCode(t, err)
	}
	if a, b := get("/faulty/one"), get("/faulty/one", "/faulty/two"); a != "ok" || b != "InternalServerError" {
		t.Errorf("one: %s, both: %s", a, b)
	}
}

func TestUbuntuIsThere(t *testing.T) {
	t.Parallel()
	for _, r := range []string{region, "us-east-1"} {
		cfg := config(t)
		cfg.Region = r
		for name, architecture := range map[string]string{
			"ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-*":     "x86_64",
			"ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-arm64-server-*": "arm64",
		} {
			out, err := ec2.NewFromConfig(cfg).DescribeImages(t.Context(), &ec2.DescribeImagesInput{
				Owners: []string{"099720109477"}, Filters: []ec2types.Filter{{Name: new("name"), Values: []string{name}}},
			})
			if err != nil || len(out.Images) != 1 || string(out.Images[0].Architecture) != architecture {
				t.Errorf("%s in %s: %+v, %v", name, r, out, err)
			}
		}
	}
}

// errorCode is the error's code, or "ok".
func errorCode(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return "ok"
	}
	apiErr, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		t.Fatalf("no API error: %v", err)
	}
	return apiErr.ErrorCode()
}
