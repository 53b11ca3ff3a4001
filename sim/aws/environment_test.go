package aws_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/skip"
	"github.com/kubeopera/platform/sim/aws/eks"
	"github.com/kubeopera/platform/sim/aws/gateway"
)

const (
	goldenName   = "acme-prod" // of all golden environments that are applied here
	goldenRegion = "eu-west-1"
)

// TestEnvironments applies what cluster-provisioner renders, finds that nothing is
// left to change, and destroys it, of which nothing may stay behind.
func TestEnvironments(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		golden  string
		soak    bool
		applied map[string]int // how many there are of some things
		output  [2]string      // one of its outputs and what it must be
	}{
		{golden: "vanilla-three", applied: map[string]int{"instance": 5, "load balancer": 2, "EKS cluster": 0, "parameter": 12}},
		{
			golden: "smallest", applied: map[string]int{"instance": 0, "load balancer": 0, "EKS cluster": 1, "parameter": 0},
			output: [2]string{"cluster_endpoint", standIn.URL},
		},
		{golden: "vanilla", soak: true, applied: map[string]int{"instance": 3, "load balancer": 0, "EKS cluster": 0, "parameter": 7}},
		{golden: "vanilla-five", soak: true, applied: map[string]int{"instance": 7, "load balancer": 1, "EKS cluster": 0, "parameter": 16}},
	} {
		t.Run(tt.golden, func(t *testing.T) {
			if tt.soak {
				skip.Soak(t)
			}
			t.Parallel()
			account := theAccount(t)
			name := tt.golden + "-env" // none is the beginning of another
			bucket := "kubeopera-terraform-state-" + name
			tf := goldenTerraform(t, tt.golden, name)
			tf.env = append(tf.env, "TF_VAR_credential_principal_arn="+userARN)
			tf.initialize(t, bucket)
			tf.must(t, 0, "apply", "-auto-approve")
			there := count(belongings(t, name))
			for kind, want := range tt.applied {
				if there[kind] != want {
					t.Errorf("%d of kind %s after apply, want %d", there[kind], kind, want)
				}
			}
			if keys, err := account.S3().Keys(bucket, ""); err != nil || !slices.Equal(keys, []string{"terraform.tfstate"}) {
				t.Errorf("objects after apply: %v, %v", keys, err)
			}
			if key, want := tt.output[0], tt.output[1]; key != "" {
				if got := tf.must(t, 0, "output", "-raw", key); got != want {
					t.Errorf("output %s is %q, want %q", key, got, want)
				}
			}
			// Exit code 2 would be a change.
			tf.must(t, 0, "plan", "-detailed-exitcode")
			tf.must(t, 0, "destroy", "-auto-approve")
			if diff := cmp.Diff([]string(nil), belongings(t, name)); diff != "" {
				t.Errorf("after destroy (-want +got):\n%s", diff)
			}
			for _, c := range account.Calls(gateway.CallFilter{Service: "eks"}) {
				if c.Operation == "" {
					t.Errorf("unknown operation: %s %s", c.Method, c.Path)
				}
			}
		})
	}
}

// goldenTerraform copies a golden environment beside the modules, under another
// name, since several are in one account.
func goldenTerraform(t *testing.T, golden, name string) *terraform {
	t.Helper()
	tf := emptyTerraform(t)
	root := filepath.Join("..", "..")
	// At the depth at which the runner has it.
	tf.dir = filepath.Join(filepath.Dir(tf.dir), "run", "environment")
	for from, to := range map[string]string{
		filepath.Join(root, "modules"): filepath.Join(tf.dir, "..", "..", "modules"),
		filepath.Join(root, "provisioner", "internal", "terraformenv", "testdata", "environments", golden): tf.dir,
	} {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(tf.dir, "*.tf"))
	if err != nil || len(files) == 0 {
		t.Fatalf("files of %s: %v, %v", golden, files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		write(t, file, strings.ReplaceAll(string(content), goldenName, name))
	}
	return tf
}

// belongings lists what the account has of an environment, as "<kind> <id>"; what
// is terminated or deleted, which EC2 lists for a while, is left out.
func belongings(t *testing.T, name string) []string {
	t.Helper()
	ctx, account := t.Context(), theAccount(t)
	cfg := config(t)
	cfg.Region = goldenRegion
	var list []string
	add := func(kind string, id *string) { list = append(list, kind+" "+sdk.ToString(id)) }
	machines := ec2.NewFromConfig(cfg)
	tagged := []types.Filter{{Name: new("tag:kubeopera.io/environment"), Values: []string{name}}}

	for _, v := range must(machines.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{Filters: tagged}))(t).Vpcs {
		add("VPC", v.VpcId)
	}
	for _, s := range must(machines.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: tagged}))(t).Subnets {
		add("subnet", s.SubnetId)
	}
	for _, g := range must(machines.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{}))(t).SecurityGroups {
		owner := "kubernetes.io/cluster/" + name // of the one that EKS makes
		if slices.ContainsFunc(g.Tags, func(t types.Tag) bool { return *t.Value == name || *t.Key == owner }) {
			add("security group", g.GroupId)
		}
	}
	for _, r := range must(machines.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: tagged}))(t).Reservations {
		for _, i := range r.Instances {
			if i.State.Name != types.InstanceStateNameTerminated {
				add("instance", i.InstanceId)
			}
		}
	}
	for _, v := range must(machines.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{Filters: tagged}))(t).Volumes {
		add("volume", v.VolumeId)
	}
	for _, a := range must(machines.DescribeAddresses(ctx, &ec2.DescribeAddressesInput{Filters: tagged}))(t).Addresses {
		add("elastic IP", a.AllocationId)
	}
	for _, l := range must(machines.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{}))(t).LaunchTemplates {
		if strings.HasPrefix(*l.LaunchTemplateName, name+"-") {
			add("launch template", l.LaunchTemplateName)
		}
	}
	for _, g := range must(autoscaling.NewFromConfig(cfg).DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{}))(t).AutoScalingGroups {
		if strings.HasPrefix(*g.AutoScalingGroupName, name+"-") {
			add("auto scaling group", g.AutoScalingGroupName)
		}
	}
	balancing := elb.NewFromConfig(cfg)
	for _, b := range must(balancing.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{}))(t).LoadBalancers {
		if strings.HasPrefix(*b.LoadBalancerName, "k8s-"+name+"-") {
			add("load balancer", b.LoadBalancerName)
		}
	}
	for _, g := range must(balancing.DescribeTargetGroups(ctx, &elb.DescribeTargetGroupsInput{}))(t).TargetGroups {
		if strings.HasPrefix(*g.TargetGroupName, "k8s-"+name+"-") {
			add("target group", g.TargetGroupName)
		}
	}
	identities := iam.NewFromConfig(cfg)
	for _, r := range must(identities.ListRoles(ctx, &iam.ListRolesInput{}))(t).Roles {
		if strings.HasPrefix(*r.RoleName, name+"-") {
			add("role", r.RoleName)
		}
	}
	for _, p := range must(identities.ListInstanceProfiles(ctx, &iam.ListInstanceProfilesInput{}))(t).InstanceProfiles {
		if strings.HasPrefix(*p.InstanceProfileName, name+"-") {
			add("instance profile", p.InstanceProfileName)
		}
	}
	for _, parameter := range account.SSM().Names(goldenRegion, fmt.Sprintf("/kubeopera/%s/", name)) {
		add("parameter", &parameter)
	}
	if slices.Contains(account.EKS().Clusters(), eks.ClusterRef{Region: goldenRegion, Name: name}) {
		add("EKS cluster", &name)
	}
	return list
}

// count counts belongings by kind.
func count(list []string) map[string]int {
	counts := map[string]int{}
	for _, b := range list {
		counts[b[:strings.LastIndexByte(b, ' ')]]++
	}
	return counts
}

// must gives the result of a call that must not fail.
func must[T any](out T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}
