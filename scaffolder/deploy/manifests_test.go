package deploy

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	psaapi "k8s.io/pod-security-admission/api"
	psapolicy "k8s.io/pod-security-admission/policy"

	"github.com/kubeopera/platform/scaffolder/internal/config"
	"github.com/kubeopera/platform/shared/envconfig"
	"github.com/kubeopera/platform/sim/controlplane/controlplanetest"
)

func objects(tb testing.TB) []runtime.Object {
	tb.Helper()
	return controlplanetest.Objects(tb, Manifests)
}

func deployment(tb testing.TB) corev1.PodTemplateSpec {
	tb.Helper()
	return controlplanetest.Only[*appsv1.Deployment](tb, objects(tb))[0].Spec.Template
}

func TestKustomizationNamesEveryFile(t *testing.T) {
	t.Parallel()
	controlplanetest.CheckKustomization(t, Manifests)
}

// TestRightsAreThoseOfClusterProvisioner: both services have the same two shapes,
// under accounts of their own.
func TestRightsAreThoseOfClusterProvisioner(t *testing.T) {
	t.Parallel()
	want := map[string][]rbacv1.PolicyRule{}
	rename := map[string]string{"cluster-provisioner": "gitops-scaffolder", "terraform-runner": "scaffold-runner"}
	for _, role := range controlplanetest.Only[*rbacv1.Role](t, provisioners(t)) {
		want[rename[role.Name]] = role.Rules
	}
	got := map[string][]rbacv1.PolicyRule{}
	for _, role := range controlplanetest.Only[*rbacv1.Role](t, objects(t)) {
		got[role.Name] = role.Rules
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) != 2 {
		t.Errorf("rights (-cluster-provisioner +gitops-scaffolder):\n%s", diff)
	}
	for _, o := range objects(t) {
		switch o.(type) {
		case *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding, *corev1.Namespace:
			t.Errorf("%T: nothing here needs rights beyond its namespace, or makes one", o)
		}
	}
}

// TestDeploymentSetsKnownVariables also makes sure that what is set can be read.
func TestDeploymentSetsKnownVariables(t *testing.T) {
	t.Parallel()
	env, mounted := controlplanetest.Environment(t, objects(t))
	var help bytes.Buffer
	if err := envconfig.WriteHelp(&help, config.Settings()); err != nil {
		t.Fatal(err)
	}
	for name := range env {
		if !strings.Contains(help.String(), "  "+name+" ") {
			t.Errorf("%s is no variable of the service", name)
		}
	}
	c, err := config.Read(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{
		c.APIKeysFile, c.AuthServiceAPIKeyFile, c.ProvisionerAPIKeyFile, c.Files.DigestSecret, c.Files.Token, strings.TrimPrefix(c.DatabaseURL.Reveal(), "sqlite://"),
	} {
		if !slices.Contains(mounted, path.Dir(file)) {
			t.Errorf("%s is in no volume", file)
		}
	}
}

func TestDeploymentIsRestricted(t *testing.T) {
	t.Parallel()
	evaluator, err := psapolicy.NewEvaluator(psapolicy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	pod := deployment(t)
	level := psaapi.LevelVersion{Level: psaapi.LevelRestricted, Version: psaapi.LatestVersion()}
	for _, r := range evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec) {
		if !r.Allowed {
			t.Errorf("refused: %s: %s", r.ForbiddenReason, r.ForbiddenDetail)
		}
	}
	if c := pod.Spec.Containers[0]; !*c.SecurityContext.ReadOnlyRootFilesystem {
		t.Errorf("container %s has a writable root file system", c.Name)
	}
}
