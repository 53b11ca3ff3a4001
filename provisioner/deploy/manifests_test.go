package deploy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	psaapi "k8s.io/pod-security-admission/api"
	psapolicy "k8s.io/pod-security-admission/policy"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/provisioner/internal/config"
)

// objects decodes every document of every manifest; unknown and repeated fields
// are errors.
func objects(tb testing.TB) []runtime.Object {
	tb.Helper()
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	files, err := fs.Glob(Manifests, "*.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	var all []runtime.Object
	for _, file := range files {
		if path.Base(file) == "kustomization.yaml" {
			continue
		}
		data, err := Manifests.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
		for {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				tb.Fatal(err)
			}
			object, _, err := decoder.Decode(document, nil, nil)
			if err != nil {
				tb.Fatalf("%s: %v", file, err)
			}
			all = append(all, object)
		}
	}
	return all
}

// only gives the objects of one type.
func only[T runtime.Object](tb testing.TB) []T {
	tb.Helper()
	var out []T
	for _, o := range objects(tb) {
		if t, ok := o.(T); ok {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		tb.Fatalf("no %T", *new(T))
	}
	return out
}

func TestManifestsDecodeStrictly(t *testing.T) {
	t.Parallel()
	if got := len(objects(t)); got != 16 {
		t.Errorf("%d objects, want 16", got)
	}
}

func TestKustomizationNamesEveryFile(t *testing.T) {
	t.Parallel()
	data, err := Manifests.ReadFile("kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var kustomization struct{ Resources []string }
	if err := sigsyaml.Unmarshal(data, &kustomization); err != nil {
		t.Fatal(err)
	}
	files, err := fs.Glob(Manifests, "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range files {
		if base := path.Base(f); base != "kustomization.yaml" {
			want = append(want, base)
		}
	}
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(kustomization.Resources))); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
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
			"events":     "get list create patch",
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
	env := map[string]string{}
	for _, c := range only[*corev1.ConfigMap](t) {
		maps.Copy(env, c.Data)
	}
	container := only[*appsv1.Deployment](t)[0].Spec.Template.Spec.Containers[0]
	for _, e := range container.Env {
		env[e.Name] = e.Value
	}
	var help bytes.Buffer
	if err := config.WriteHelp(&help); err != nil {
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
		if !slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return path.Dir(file) == m.MountPath }) {
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
