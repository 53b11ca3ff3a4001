package deploy

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	psaapi "k8s.io/pod-security-admission/api"
	psapolicy "k8s.io/pod-security-admission/policy"

	"github.com/kubeopera/platform/provisioner/internal/config"
	"github.com/kubeopera/platform/shared/envconfig"
	"github.com/kubeopera/platform/sim/controlplane/controlplanetest"
)

func objects(tb testing.TB) []runtime.Object {
	tb.Helper()
	return controlplanetest.Objects(tb, Manifests)
}

func only[T runtime.Object](tb testing.TB) []T {
	tb.Helper()
	return controlplanetest.Only[T](tb, objects(tb))
}

func TestManifestsDecodeStrictly(t *testing.T) {
	t.Parallel()
	if got := len(objects(t)); got != 16 {
		t.Errorf("%d objects, want 16", got)
	}
}

func TestKustomizationNamesEveryFile(t *testing.T) {
	t.Parallel()
	controlplanetest.CheckKustomization(t, Manifests)
}

// TestRightsAreTheseAndNoMore: a right that is added here is added on purpose.
func TestRightsAreTheseAndNoMore(t *testing.T) {
	t.Parallel()
	got := map[string]map[string]string{}
	for _, role := range only[*rbacv1.Role](t) {
		rights := map[string]string{}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					rights[strings.TrimPrefix(group+"/"+resource, "/")] = strings.Join(rule.Verbs, " ")
				}
			}
			if len(rule.ResourceNames) > 0 || len(rule.NonResourceURLs) > 0 {
				t.Errorf("%s: rule with names or URLs", role.Name)
			}
		}
		got[role.Namespace+"/"+role.Name] = rights
	}
	want := map[string]map[string]string{
		"kubeopera-provisioning/cluster-provisioner": {
			"batch/jobs": "get list watch create delete",
			"pods":       "get list watch delete",
			"pods/log":   "get",
			"secrets":    "get list create update delete",
			"configmaps": "get list create update delete",
			"events":     "list",
		},
		"kubeopera-provisioning/terraform-runner": {"secrets": "create update"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights (-want +got):\n%s", diff)
	}
	for _, o := range objects(t) {
		switch o.(type) {
		case *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding:
			t.Errorf("%T: nothing here needs rights beyond its namespace", o)
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
	for _, file := range []string{c.APIKeysFile, c.AuthServiceAPIKeyFile, strings.TrimPrefix(c.DatabaseURL.Reveal(), "sqlite://")} {
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
	pod := only[*appsv1.Deployment](t)[0].Spec.Template
	level := psaapi.LevelVersion{Level: psaapi.LevelRestricted, Version: psaapi.LatestVersion()}
	for _, r := range evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec) {
		if !r.Allowed {
			t.Errorf("refused: %s: %s", r.ForbiddenReason, r.ForbiddenDetail)
		}
	}
	for _, c := range pod.Spec.Containers {
		if c.SecurityContext.ReadOnlyRootFilesystem == nil || !*c.SecurityContext.ReadOnlyRootFilesystem {
			t.Errorf("container %s has a writable root file system", c.Name)
		}
	}
}
