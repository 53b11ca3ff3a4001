package eks_test

import (
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/sim/aws/eks"
)

const adminPolicy = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"

var ref = eks.ClusterRef{Region: region, Name: "c"}

func TestAccessEntriesNeedTheAPIMode(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.active(t, func(in *sdk.CreateClusterInput) { in.AccessConfig = nil })
	_, err := f.CreateAccessEntry(t.Context(), &sdk.CreateAccessEntryInput{ClusterName: new("c"), PrincipalArn: new(userARN)})
	if code(t, err) != "InvalidRequestException" {
		t.Errorf("got %v", err)
	}
}

func TestCreatorIsAdministratorIfAsked(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.active(t, func(in *sdk.CreateClusterInput) { in.AccessConfig.BootstrapClusterCreatorAdminPermissions = new(true) })
	got, ok := f.service.Identity(ref, userARN)
	want := eks.Identity{Username: userARN, Groups: []string{}, Policies: []eks.Policy{{Name: eks.PolicyClusterAdmin, Namespaces: []string{}}}}
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
}

func TestAccessEntryChecksItsInput(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.active(t, nil)
	tests := []struct {
		name string
		in   sdk.CreateAccessEntryInput
		want string
	}{
		{"a session", sdk.CreateAccessEntryInput{PrincipalArn: new("arn:aws:sts::123456789012:assumed-role/r/s")}, "InvalidParameterException"},
		{"no ARN", sdk.CreateAccessEntryInput{PrincipalArn: new("platform")}, "InvalidParameterException"},
		{"a reserved group", sdk.CreateAccessEntryInput{PrincipalArn: new(userARN), KubernetesGroups: []string{"system:masters"}}, "InvalidParameterException"},
		{"a reserved name", sdk.CreateAccessEntryInput{PrincipalArn: new(userARN), Username: new("system:admin")}, "InvalidParameterException"},
		{"groups for nodes", sdk.CreateAccessEntryInput{PrincipalArn: new(userARN), Type: new("EC2_LINUX"), KubernetesGroups: []string{"g"}}, "InvalidParameterException"},
		{"unknown type", sdk.CreateAccessEntryInput{PrincipalArn: new(userARN), Type: new("X")}, "InvalidParameterException"},
		{"good", sdk.CreateAccessEntryInput{PrincipalArn: new(userARN), KubernetesGroups: []string{"g"}}, "ok"},
		{"again", sdk.CreateAccessEntryInput{PrincipalArn: new(userARN)}, "ResourceInUseException"},
	}
	for _, tt := range tests {
		tt.in.ClusterName = new("c")
		_, err := f.CreateAccessEntry(t.Context(), &tt.in)
		if got := code(t, err); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestAccessPoliciesOfARole(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.active(t, nil)
	ctx, cluster, role := t.Context(), new("c"), new("arn:aws:iam::123456789012:role/a/path/admin")
	if _, err := f.CreateAccessEntry(ctx, &sdk.CreateAccessEntryInput{ClusterName: cluster, PrincipalArn: role, KubernetesGroups: []string{"platform"}}); err != nil {
		t.Fatal(err)
	}
	associate := func(policy string, scope types.AccessScope) error {
		_, err := f.AssociateAccessPolicy(ctx, &sdk.AssociateAccessPolicyInput{ClusterName: cluster, PrincipalArn: role, PolicyArn: &policy, AccessScope: &scope})
		return err
	}
	for name, tt := range map[string]struct {
		policy string
		scope  types.AccessScope
		want   string
	}{
		"unknown policy":      {policy: adminPolicy + "X", scope: types.AccessScope{Type: "cluster"}, want: "InvalidParameterException"},
		"no namespaces":       {policy: adminPolicy, scope: types.AccessScope{Type: "namespace"}, want: "InvalidParameterException"},
		"namespaces too many": {policy: adminPolicy, scope: types.AccessScope{Type: "cluster", Namespaces: []string{"a"}}, want: "InvalidParameterException"},
	} {
		if got := code(t, associate(tt.policy, tt.scope)); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	if err := associate(adminPolicy, types.AccessScope{Type: "cluster"}); err != nil {
		t.Fatal(err)
	}
	if err := associate("arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy", types.AccessScope{Type: "namespace", Namespaces: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	list, err := f.ListAssociatedAccessPolicies(ctx, &sdk.ListAssociatedAccessPoliciesInput{ClusterName: cluster, PrincipalArn: role})
	if err != nil || len(list.AssociatedAccessPolicies) != 2 {
		t.Errorf("policies: %+v, %v", list, err)
	}
	// A session's ARN has no path.
	got, ok := f.service.Identity(ref, "arn:aws:sts::123456789012:assumed-role/admin/me")
	want := eks.Identity{
		Username: "arn:aws:sts::123456789012:assumed-role/admin/me", Groups: []string{"platform"},
		Policies: []eks.Policy{{Name: eks.PolicyClusterAdmin, Namespaces: []string{}}, {Name: eks.PolicyView, Namespaces: []string{"a"}}},
	}
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
	for _, stranger := range []string{userARN, "arn:aws:sts::123456789012:assumed-role/other/me"} {
		if _, ok := f.service.Identity(ref, stranger); ok {
			t.Errorf("%s has access", stranger)
		}
	}
	if _, err := f.DisassociateAccessPolicy(ctx, &sdk.DisassociateAccessPolicyInput{ClusterName: cluster, PrincipalArn: role, PolicyArn: new(adminPolicy)}); err != nil {
		t.Fatal(err)
	}
	if got, _ := f.service.Identity(ref, "arn:aws:sts::123456789012:assumed-role/admin/me"); len(got.Policies) != 1 {
		t.Errorf("policies after taking one away: %+v", got.Policies)
	}
	if _, err := f.DeleteAccessEntry(ctx, &sdk.DeleteAccessEntryInput{ClusterName: cluster, PrincipalArn: role}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.DescribeAccessEntry(ctx, &sdk.DescribeAccessEntryInput{ClusterName: cluster, PrincipalArn: role}); code(t, err) != "ResourceNotFoundException" {
		t.Errorf("deleted entry: %v", err)
	}
	policies, err := f.ListAccessPolicies(ctx, &sdk.ListAccessPoliciesInput{MaxResults: new(int32(3))})
	if err != nil || len(policies.AccessPolicies) != 3 || policies.NextToken == nil {
		t.Errorf("access policies: %+v, %v", policies, err)
	}
}
