package eks_test

import (
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
)

func nodes(change func(*sdk.CreateNodegroupInput)) *sdk.CreateNodegroupInput {
	in := &sdk.CreateNodegroupInput{
		ClusterName: new("c"), NodegroupName: new("n"), NodeRole: new(nodeARN), Subnets: []string{"subnet-a"},
		ScalingConfig: &types.NodegroupScalingConfig{MinSize: new(int32(1)), MaxSize: new(int32(3)), DesiredSize: new(int32(2))},
	}
	if change != nil {
		change(in)
	}
	return in
}

func (f *fixture) nodegroup(t *testing.T) *types.Nodegroup {
	t.Helper()
	out, err := f.DescribeNodegroup(t.Context(), &sdk.DescribeNodegroupInput{ClusterName: new("c"), NodegroupName: new("n")})
	if err != nil {
		t.Fatal(err)
	}
	return out.Nodegroup
}

func (f *fixture) addon(t *testing.T, name string) *types.Addon {
	t.Helper()
	out, err := f.DescribeAddon(t.Context(), &sdk.DescribeAddonInput{ClusterName: new("c"), AddonName: &name})
	if err != nil {
		t.Fatal(err)
	}
	return out.Addon
}

func (f *fixture) addAddon(t *testing.T, name string) {
	t.Helper()
	if _, err := f.CreateAddon(t.Context(), &sdk.CreateAddonInput{ClusterName: new("c"), AddonName: &name}); err != nil {
		t.Fatal(err)
	}
}

func TestNodesNeedANetworkAndCoreDNSNeedsNodes(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.active(t, nil)
	ctx := t.Context()
	f.addAddon(t, "coredns")
	if _, err := f.CreateNodegroup(ctx, nodes(nil)); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(delay)
	if got := f.nodegroup(t).Status; got != types.NodegroupStatusCreating {
		t.Errorf("nodes without network: %s", got)
	}
	if a := f.addon(t, "coredns"); a.Status != types.AddonStatusDegraded || a.Health.Issues[0].Code != types.AddonIssueCodeInsufficientNumberOfReplicas {
		t.Errorf("coredns without nodes: %+v", a)
	}
	f.addAddon(t, "vpc-cni")
	if got := f.nodegroup(t).Status; got != types.NodegroupStatusActive {
		t.Errorf("nodes with network: %s", got)
	}
	if got := f.addon(t, "coredns").Status; got != types.AddonStatusActive {
		t.Errorf("coredns with nodes: %s", got)
	}
	entry, err := f.DescribeAccessEntry(ctx, &sdk.DescribeAccessEntryInput{ClusterName: new("c"), PrincipalArn: new(nodeARN)})
	if err != nil || *entry.AccessEntry.Type != "EC2_LINUX" {
		t.Errorf("the nodes' access entry: %+v, %v", entry, err)
	}
	if _, err := f.DeleteCluster(ctx, &sdk.DeleteClusterInput{Name: new("c")}); code(t, err) != "ResourceInUseException" {
		t.Errorf("deletion under nodes: %v", err)
	}
	if _, err := f.DeleteNodegroup(ctx, &sdk.DeleteNodegroupInput{ClusterName: new("c"), NodegroupName: new("n")}); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(delay)
	_, err = f.DescribeNodegroup(ctx, &sdk.DescribeNodegroupInput{ClusterName: new("c"), NodegroupName: new("n")})
	if code(t, err) != "ResourceNotFoundException" {
		t.Errorf("deleted nodes: %v", err)
	}
	if _, err := f.DeleteCluster(ctx, &sdk.DeleteClusterInput{Name: new("c")}); err != nil {
		t.Errorf("deletion without nodes: %v", err)
	}
}

func TestNodesWithoutNetworkFailInTheEnd(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.active(t, nil)
	if _, err := f.CreateNodegroup(t.Context(), nodes(nil)); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(delay + time.Minute)
	if n := f.nodegroup(t); n.Status != types.NodegroupStatusCreateFailed || n.Health.Issues[0].Code != types.NodegroupIssueCodeNodeCreationFailure {
		t.Errorf("got %+v", n)
	}
}

func TestCreateNodegroupChecksItsInput(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.active(t, nil)
	size := func(minimum, desired, maximum int32) *types.NodegroupScalingConfig {
		return &types.NodegroupScalingConfig{MinSize: &minimum, DesiredSize: &desired, MaxSize: &maximum}
	}
	template := &types.LaunchTemplateSpecification{Id: new("lt-1"), Version: new("3")}
	tests := []struct {
		name   string
		change func(*sdk.CreateNodegroupInput)
		want   string
	}{
		{"desired below minimum", func(in *sdk.CreateNodegroupInput) { in.ScalingConfig = size(2, 1, 3) }, "InvalidParameterException"},
		{"desired above maximum", func(in *sdk.CreateNodegroupInput) { in.ScalingConfig = size(1, 4, 3) }, "InvalidParameterException"},
		{"unknown subnet", func(in *sdk.CreateNodegroupInput) { in.Subnets = []string{"subnet-none"} }, "InvalidParameterException"},
		{"role of the cluster", func(in *sdk.CreateNodegroupInput) { in.NodeRole = new(roleARN) }, "InvalidParameterException"},
		{"unknown image", func(in *sdk.CreateNodegroupInput) { in.AmiType = "WINDOWS_95" }, "InvalidParameterException"},
		{"newer than the cluster", func(in *sdk.CreateNodegroupInput) { in.Version = new("1.35") }, "InvalidParameterException"},
		{"unknown template", func(in *sdk.CreateNodegroupInput) {
			in.LaunchTemplate = &types.LaunchTemplateSpecification{Id: new("lt-2")}
		}, "InvalidRequestException"},
		{"disk beside a template", func(in *sdk.CreateNodegroupInput) { in.LaunchTemplate, in.DiskSize = template, new(int32(20)) }, "InvalidParameterException"},
		{"good", func(in *sdk.CreateNodegroupInput) { in.LaunchTemplate = template }, "ok"},
		{"again", nil, "ResourceInUseException"},
	}
	for _, tt := range tests {
		_, err := f.CreateNodegroup(t.Context(), nodes(tt.change))
		if got := code(t, err); got != tt.want {
			t.Errorf("%s: %s, want %s (%v)", tt.name, got, tt.want, err)
		}
	}
	n := f.nodegroup(t)
	if *n.LaunchTemplate.Name != "template" || *n.LaunchTemplate.Version != "3" || n.DiskSize != nil || n.CapacityType != types.CapacityTypesOnDemand {
		t.Errorf("got %+v", n)
	}
}

func TestNodegroupUpdates(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.active(t, nil)
	f.addAddon(t, "vpc-cni")
	ctx := t.Context()
	if _, err := f.CreateNodegroup(ctx, nodes(func(in *sdk.CreateNodegroupInput) { in.Labels = map[string]string{"a": "1", "b": "2"} })); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(delay)
	in := &sdk.UpdateNodegroupConfigInput{
		ClusterName: new("c"), NodegroupName: new("n"),
		ScalingConfig: &types.NodegroupScalingConfig{MaxSize: new(int32(5))},
		Labels:        &types.UpdateLabelsPayload{AddOrUpdateLabels: map[string]string{"c": "3"}, RemoveLabels: []string{"a"}},
	}
	out, err := f.UpdateNodegroupConfig(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.nodegroup(t).Status; got != types.NodegroupStatusUpdating {
		t.Errorf("status %s", got)
	}
	if _, err := f.UpdateNodegroupConfig(ctx, in); code(t, err) != "ResourceInUseException" {
		t.Errorf("a second update: %v", err)
	}
	f.clock.advance(delay)
	n := f.nodegroup(t)
	if n.Status != types.NodegroupStatusActive || *n.ScalingConfig.MaxSize != 5 || *n.ScalingConfig.MinSize != 1 || len(n.Labels) != 2 || n.Labels["c"] != "3" {
		t.Errorf("updated: %+v", n)
	}
	u, err := f.DescribeUpdate(ctx, &sdk.DescribeUpdateInput{Name: new("c"), NodegroupName: new("n"), UpdateId: out.Update.Id})
	if err != nil || u.Update.Status != types.UpdateStatusSuccessful {
		t.Errorf("update: %+v, %v", u, err)
	}
}

func TestAddons(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.active(t, nil)
	ctx, cluster := t.Context(), new("c")
	versions, err := f.DescribeAddonVersions(ctx, &sdk.DescribeAddonVersionsInput{AddonName: new("kube-proxy"), KubernetesVersion: new("1.34")})
	if err != nil || len(versions.Addons) != 1 || len(versions.Addons[0].AddonVersions) != 2 {
		t.Fatalf("versions: %+v, %v", versions, err)
	}
	newest := versions.Addons[0].AddonVersions[0].AddonVersion
	tests := []struct {
		name string
		in   sdk.CreateAddonInput
		want string
	}{
		{"unknown", sdk.CreateAddonInput{AddonName: new("none")}, "InvalidParameterException"},
		{"unknown version", sdk.CreateAddonInput{AddonName: new("kube-proxy"), AddonVersion: new("v0.0.0")}, "InvalidParameterException"},
		{"no configuration", sdk.CreateAddonInput{AddonName: new("kube-proxy"), ConfigurationValues: new("{")}, "InvalidParameterException"},
		{"good", sdk.CreateAddonInput{AddonName: new("kube-proxy"), ConfigurationValues: new(`{"a":1}`)}, "ok"},
		{"again", sdk.CreateAddonInput{AddonName: new("kube-proxy")}, "ResourceInUseException"},
		{"with identity", sdk.CreateAddonInput{AddonName: new("aws-ebs-csi-driver"), PodIdentityAssociations: []types.AddonPodIdentityAssociations{
			{RoleArn: new(roleARN), ServiceAccount: new("ebs-csi-controller-sa")},
		}}, "ok"},
	}
	for _, tt := range tests {
		tt.in.ClusterName = cluster
		_, err := f.CreateAddon(ctx, &tt.in)
		if got := code(t, err); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	if got := f.addon(t, "kube-proxy"); got.Status != types.AddonStatusCreating || *got.AddonVersion == *newest {
		t.Errorf("new: %+v", got)
	}
	f.clock.advance(delay)
	if _, err := f.UpdateAddon(ctx, &sdk.UpdateAddonInput{ClusterName: cluster, AddonName: new("kube-proxy"), AddonVersion: newest}); err != nil {
		t.Fatal(err)
	}
	if got := f.addon(t, "kube-proxy"); got.Status != types.AddonStatusUpdating || *got.AddonVersion != *newest || *got.ConfigurationValues != `{"a":1}` {
		t.Errorf("updated: %+v", got)
	}
	identities, err := f.ListPodIdentityAssociations(ctx, &sdk.ListPodIdentityAssociationsInput{ClusterName: cluster})
	if err != nil || len(identities.Associations) != 1 || *identities.Associations[0].OwnerArn != *f.addon(t, "aws-ebs-csi-driver").AddonArn {
		t.Errorf("identities: %+v, %v", identities, err)
	}
	for _, name := range []string{"kube-proxy", "aws-ebs-csi-driver"} {
		if _, err := f.DeleteAddon(ctx, &sdk.DeleteAddonInput{ClusterName: cluster, AddonName: &name}); err != nil {
			t.Error(err)
		}
	}
	f.clock.advance(delay)
	list, err := f.ListAddons(ctx, &sdk.ListAddonsInput{ClusterName: cluster})
	if err != nil || len(list.Addons) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
	if identities, err = f.ListPodIdentityAssociations(ctx, &sdk.ListPodIdentityAssociationsInput{ClusterName: cluster}); err != nil || len(identities.Associations) != 0 {
		t.Errorf("left identities: %v, %v", identities, err)
	}
}
