package eks_test

import (
	"context"
	"encoding/base64"
	"errors"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/sim/aws/eks"
)

func TestCreateClusterChecksItsInput(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*sdk.CreateClusterInput)
		want   string
	}{
		{name: "good", want: "ok"},
		{name: "no version", change: func(in *sdk.CreateClusterInput) { in.Version = nil }, want: "ok"},
		{name: "unknown version", change: func(in *sdk.CreateClusterInput) { in.Version = new("1.12") }, want: "InvalidParameterException"},
		{name: "bad name", change: func(in *sdk.CreateClusterInput) { in.Name = new("-c") }, want: "InvalidParameterException"},
		{name: "one zone", change: func(in *sdk.CreateClusterInput) {
			in.ResourcesVpcConfig.SubnetIds = []string{"subnet-a", "subnet-a2"}
		}, want: "InvalidParameterException"},
		{name: "two VPCs", change: func(in *sdk.CreateClusterInput) {
			in.ResourcesVpcConfig.SubnetIds = []string{"subnet-a", "subnet-x"}
		}, want: "InvalidParameterException"},
		{name: "unknown subnet", change: func(in *sdk.CreateClusterInput) {
			in.ResourcesVpcConfig.SubnetIds = []string{"subnet-a", "subnet-none"}
		}, want: "InvalidParameterException"},
		{name: "no endpoint", change: func(in *sdk.CreateClusterInput) {
			in.ResourcesVpcConfig.EndpointPublicAccess = new(false)
		}, want: "InvalidParameterException"},
		{name: "host bits in a block", change: func(in *sdk.CreateClusterInput) {
			in.ResourcesVpcConfig.PublicAccessCidrs = []string{"198.51.100.1/24"}
		}, want: "InvalidParameterException"},
		{name: "role that EKS may not assume", change: func(in *sdk.CreateClusterInput) { in.RoleArn = new(nodeARN) }, want: "InvalidParameterException"},
		{name: "public service block", change: func(in *sdk.CreateClusterInput) {
			in.KubernetesNetworkConfig = &types.KubernetesNetworkConfigRequest{ServiceIpv4Cidr: new("8.8.0.0/16")}
		}, want: "InvalidParameterException"},
		{name: "unknown log type", change: func(in *sdk.CreateClusterInput) {
			in.Logging = &types.Logging{ClusterLogging: []types.LogSetup{{Types: []types.LogType{"kubelet"}, Enabled: new(true)}}}
		}, want: "InvalidParameterException"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			_, err := f.CreateCluster(t.Context(), input(tt.change))
			if got := code(t, err); got != tt.want {
				t.Errorf("got %s, want %s (%v)", got, tt.want, err)
			}
			if tt.want != "ok" && len(f.account.groups) > 0 {
				t.Errorf("a security group is left: %v", f.account.groups)
			}
		})
	}
}

func TestClusterLife(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ctx := t.Context()
	out, err := f.CreateCluster(ctx, input(nil))
	if err != nil {
		t.Fatal(err)
	}
	if c := out.Cluster; c.Status != types.ClusterStatusCreating || c.Endpoint != nil || *c.ResourcesVpcConfig.VpcId != "vpc-1" {
		t.Errorf("created: %+v", c)
	}
	if _, err := f.CreateCluster(ctx, input(nil)); code(t, err) != "ResourceInUseException" {
		t.Errorf("create again: %v", err)
	}
	if n := len(f.service.Clusters()); n != 0 {
		t.Errorf("%d clusters accept tokens before there is one", n)
	}
	f.clock.advance(delay)
	described, err := f.DescribeCluster(ctx, &sdk.DescribeClusterInput{Name: new("c")})
	if err != nil {
		t.Fatal(err)
	}
	c := described.Cluster
	if c.Status != types.ClusterStatusActive || *c.Endpoint != "https://127.0.0.1:6443" ||
		*c.CertificateAuthority.Data != base64.StdEncoding.EncodeToString([]byte("pem")) ||
		*c.ResourcesVpcConfig.ClusterSecurityGroupId != "sg-vpc-1-c" || *c.Arn != "arn:aws:eks:eu-central-1:123456789012:cluster/c" {
		t.Errorf("active: %+v", c)
	}
	if diff := cmp.Diff([]eks.ClusterRef{{Region: region, Name: "c"}}, f.service.Clusters()); diff != "" {
		t.Errorf("clusters (-want +got):\n%s", diff)
	}
	if _, err := f.DeleteCluster(ctx, &sdk.DeleteClusterInput{Name: new("c")}); err != nil {
		t.Fatal(err)
	}
	if got := f.status(t); got != types.ClusterStatusDeleting {
		t.Errorf("deleted: %s", got)
	}
	if len(f.account.groups) != 0 {
		t.Errorf("security groups are left: %v", f.account.groups)
	}
	f.clock.advance(delay)
	if _, err := f.DescribeCluster(ctx, &sdk.DescribeClusterInput{Name: new("c")}); code(t, err) != "ResourceNotFoundException" {
		t.Errorf("gone: %v", err)
	}
	if _, err := f.CreateCluster(ctx, input(nil)); err != nil {
		t.Errorf("create after deletion: %v", err)
	}
}

// failing is a control plane that cannot be made.
type failing struct{ err error }

func (f *failing) Endpoint(context.Context, string, string) (eks.Endpoint, error) {
	return eks.Endpoint{}, f.err
}

func TestClusterWaitsForItsAPIServer(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.planes.Set(eks.Endpoint{})
	if _, err := f.CreateCluster(t.Context(), input(nil)); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(2 * delay)
	if got := f.status(t); got != types.ClusterStatusCreating {
		t.Errorf("without an API server: %s", got)
	}
	f.planes.Set(eks.Endpoint{URL: "https://127.0.0.1:1"})
	if got := f.status(t); got != types.ClusterStatusActive {
		t.Errorf("with one: %s", got)
	}
}

func TestClusterFailsWithItsAPIServer(t *testing.T) {
	t.Parallel()
	f := serve(t, &failing{err: errors.New("no binaries")})
	if _, err := f.CreateCluster(t.Context(), input(nil)); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(delay)
	out, err := f.DescribeCluster(t.Context(), &sdk.DescribeClusterInput{Name: new("c")})
	if err != nil || out.Cluster.Status != types.ClusterStatusFailed || *out.Cluster.Health.Issues[0].Message != "no binaries" {
		t.Errorf("got %+v, %v", out.Cluster, err)
	}
}

func TestClusterUpdates(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.active(t, func(in *sdk.CreateClusterInput) {
		in.AccessConfig = nil // the API's defaults
	})
	ctx, name := t.Context(), new("c")
	config := func(change func(*sdk.UpdateClusterConfigInput)) error {
		in := &sdk.UpdateClusterConfigInput{Name: name}
		change(in)
		_, err := f.UpdateClusterConfig(ctx, in)
		return err
	}
	mode := func(m types.AuthenticationMode) func() error {
		return func() error {
			return config(func(in *sdk.UpdateClusterConfigInput) {
				in.AccessConfig = &types.UpdateAccessConfigRequest{AuthenticationMode: m}
			})
		}
	}
	version := func(v string) func() error {
		return func() error {
			_, err := f.UpdateClusterVersion(ctx, &sdk.UpdateClusterVersionInput{Name: name, Version: &v})
			return err
		}
	}
	steps := []struct {
		name string
		do   func() error
		want string
	}{
		{"mode leaps", mode(types.AuthenticationModeApi), "InvalidParameterException"},
		{"mode goes on", mode(types.AuthenticationModeApiAndConfigMap), "ok"},
		{"a second update", version("1.35"), "ResourceInUseException"},
		{"mode goes back", mode(types.AuthenticationModeConfigMap), "InvalidParameterException"},
		{"version leaps", version("1.36"), "InvalidParameterException"},
		{"version goes on", version("1.35"), "ok"},
		{"version goes back", version("1.34"), "InvalidParameterException"},
		{"nothing", func() error { return config(func(*sdk.UpdateClusterConfigInput) {}) }, "InvalidParameterException"},
		{"two things", func() error {
			return config(func(in *sdk.UpdateClusterConfigInput) {
				in.DeletionProtection = new(true)
				in.UpgradePolicy = &types.UpgradePolicyRequest{SupportType: types.SupportTypeStandard}
			})
		}, "InvalidParameterException"},
		{"logging", func() error {
			return config(func(in *sdk.UpdateClusterConfigInput) {
				in.Logging = &types.Logging{ClusterLogging: []types.LogSetup{{Types: []types.LogType{"audit"}, Enabled: new(true)}}}
			})
		}, "ok"},
		{"no change", func() error {
			return config(func(in *sdk.UpdateClusterConfigInput) {
				in.Logging = &types.Logging{ClusterLogging: []types.LogSetup{{Types: []types.LogType{"audit"}, Enabled: new(true)}}}
			})
		}, "InvalidParameterException"},
		{"endpoints", func() error {
			return config(func(in *sdk.UpdateClusterConfigInput) {
				in.ResourcesVpcConfig = &types.VpcConfigRequest{EndpointPrivateAccess: new(true), PublicAccessCidrs: []string{"198.51.100.0/24"}}
			})
		}, "ok"},
		{"protection", func() error {
			return config(func(in *sdk.UpdateClusterConfigInput) { in.DeletionProtection = new(true) })
		}, "ok"},
		{"deletion under protection", func() error {
			_, err := f.DeleteCluster(ctx, &sdk.DeleteClusterInput{Name: name})
			return err
		}, "InvalidRequestException"},
	}
	for _, s := range steps {
		got := code(t, s.do())
		if got != s.want {
			t.Errorf("%s: %s, want %s", s.name, got, s.want)
		}
		if s.name != "mode goes on" { // the step after it wants to meet it
			f.clock.advance(delay)
		}
	}
	updates, err := f.ListUpdates(ctx, &sdk.ListUpdatesInput{Name: name})
	if err != nil || len(updates.UpdateIds) != 5 {
		t.Fatalf("updates: %v, %v", updates, err)
	}
	u, err := f.DescribeUpdate(ctx, &sdk.DescribeUpdateInput{Name: name, UpdateId: &updates.UpdateIds[1]})
	if err != nil || u.Update.Type != types.UpdateTypeVersionUpdate || u.Update.Status != types.UpdateStatusSuccessful {
		t.Errorf("update: %+v, %v", u.Update, err)
	}
}

func TestClusterVersions(t *testing.T) {
	t.Parallel()
	f := setup(t)
	out, err := f.DescribeClusterVersions(t.Context(), &sdk.DescribeClusterVersionsInput{})
	if err != nil {
		t.Fatal(err)
	}
	byDefault := 0
	for _, v := range out.ClusterVersions {
		if v.DefaultVersion {
			byDefault++
		}
		if v.EndOfStandardSupportDate.Before(*v.ReleaseDate) || v.EndOfExtendedSupportDate.Before(*v.EndOfStandardSupportDate) {
			t.Errorf("dates of %s", *v.ClusterVersion)
		}
	}
	if byDefault != 1 {
		t.Errorf("%d default versions", byDefault)
	}
	one, err := f.DescribeClusterVersions(t.Context(), &sdk.DescribeClusterVersionsInput{ClusterVersions: []string{"1.34"}})
	if err != nil || len(one.ClusterVersions) != 1 {
		t.Errorf("one version: %v, %v", one, err)
	}
}

func TestTags(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.active(t, func(in *sdk.CreateClusterInput) { in.Tags = map[string]string{"a": "1"} })
	ctx, arn := t.Context(), new("arn:aws:eks:eu-central-1:123456789012:cluster/c")
	if _, err := f.TagResource(ctx, &sdk.TagResourceInput{ResourceArn: arn, Tags: map[string]string{"b": "2"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.UntagResource(ctx, &sdk.UntagResourceInput{ResourceArn: arn, TagKeys: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	out, err := f.ListTagsForResource(ctx, &sdk.ListTagsForResourceInput{ResourceArn: arn})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"b": "2"}, out.Tags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	_, err = f.ListTagsForResource(ctx, &sdk.ListTagsForResourceInput{ResourceArn: new(*arn + "x")})
	if code(t, err) != "NotFoundException" {
		t.Errorf("unknown ARN: %v", err)
	}
}
