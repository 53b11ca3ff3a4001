package ekstoken

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubeopera/platform/sim/aws/eks"
)

// groupPrefix begins the groups that stand for access policies.
const groupPrefix = "kubeopera:sim:eks:"

// PolicyGroup is the group of a principal that has an access policy for the
// whole cluster.
func PolicyGroup(policy string) string { return groupPrefix + policy }

// policyGroups turns policies into groups. One that holds in namespaces only
// gives a group per namespace, which nothing binds by itself.
func policyGroups(policies []eks.Policy) []string {
	var groups []string
	for _, p := range policies {
		if len(p.Namespaces) == 0 {
			groups = append(groups, PolicyGroup(p.Name))
		}
		for _, namespace := range p.Namespaces {
			groups = append(groups, PolicyGroup(p.Name)+":"+namespace)
		}
	}
	return groups
}

// roles are the Kubernetes roles that access policies stand for.
var roles = map[string]string{
	eks.PolicyClusterAdmin: "cluster-admin",
	eks.PolicyAdmin:        "admin",
	eks.PolicyEdit:         "edit",
	eks.PolicyView:         "view",
	eks.PolicyAdminView:    "view",
}

// BindPolicies gives the groups of access policies their rights in a cluster.
// Doing it again changes nothing.
func BindPolicies(ctx context.Context, client kubernetes.Interface) error {
	for policy, role := range roles {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: PolicyGroup(policy)},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: PolicyGroup(policy)}},
		}
		_, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("bind access policy %s: %w", policy, err)
		}
	}
	return nil
}
