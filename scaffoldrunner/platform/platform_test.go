package platform_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
	"github.com/kubeopera/platform/scaffoldrunner/platform"
)

// build renders a folder as plain `kubectl kustomize` does, which reads nothing
// outside of a kustomization's own folder but other kustomizations.
func build(t *testing.T, dir string) []map[string]any {
	t.Helper()
	fsys := filesys.MakeFsInMemory()
	for file, data := range platform.Tree() {
		if err := fsys.WriteFile("/"+file, data); err != nil {
			t.Fatal(err)
		}
	}
	return render(t, fsys, "/"+dir)
}

func render(t *testing.T, fsys filesys.FileSystem, dir string) []map[string]any {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	var objects []map[string]any
	for _, r := range resources.Resources() {
		fields, err := r.Map()
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, fields)
	}
	return objects
}

var layers = []string{"infrastructure", "database", "cert-manager-config", "apps"}

func get(value any, keys ...string) any {
	for _, key := range keys {
		m, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = m[key]
	}
	return value
}

func list(value any) []any { l, _ := value.([]any); return l }

func name(o map[string]any) string {
	text, _ := yaml.Marshal([]any{o["kind"], get(o, "metadata", "namespace"), get(o, "metadata", "name")})
	return strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", " ")
}

var digits = regexp.MustCompile(`:v?[0-9]+\.[0-9]+`)

// Every workload is pinned, bounded, probed and confined.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	count := 0
	for _, layer := range layers {
		for _, o := range build(t, "clusters/development/"+layer) {
			if o["kind"] != "Deployment" && o["kind"] != "StatefulSet" {
				continue
			}
			count++
			pod := get(o, "spec", "template", "spec")
			if get(pod, "securityContext", "runAsNonRoot") != true || get(pod, "securityContext", "seccompProfile", "type") != "RuntimeDefault" {
				t.Errorf("%s may run as root, or without seccomp", name(o))
			}
			for _, c := range list(get(pod, "containers")) {
				image, _ := get(c, "image").(string)
				if !digits.MatchString(image) {
					t.Errorf("%s: image %q is not pinned", name(o), image)
				}
				for _, field := range []string{"startupProbe", "readinessProbe", "livenessProbe"} {
					if get(c, field) == nil {
						t.Errorf("%s has no %s", name(o), field)
					}
				}
				if get(c, "resources", "requests", "memory") == nil || get(c, "resources", "limits", "memory") == nil || get(c, "resources", "requests", "cpu") == nil {
					t.Errorf("%s has no requests, or no memory limit", name(o))
				}
				if get(c, "securityContext", "allowPrivilegeEscalation") != false || !cmp.Equal(get(c, "securityContext", "capabilities", "drop"), any([]any{"ALL"})) {
					t.Errorf("%s has privileges that it could do without", name(o))
				}
			}
		}
	}
	if count != 9 {
		t.Errorf("%d workloads, want the 8 services and RabbitMQ", count)
	}
}

// Whatever a pod refers to is there: Secrets with their keys, ConfigMaps,
// ServiceAccounts, namespaces.
func TestReferences(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	var objects []map[string]any
	for _, layer := range layers {
		objects = append(objects, build(t, "clusters/development/"+layer)...)
	}
	at := func(kind string, namespace, name any) string {
		n, _ := namespace.(string)
		s, _ := name.(string)
		return kind + " " + n + "/" + s
	}
	for _, o := range objects {
		kind, _ := o["kind"].(string)
		known[at(kind, get(o, "metadata", "namespace"), get(o, "metadata", "name"))] = true
		data, _ := get(o, "stringData").(map[string]any)
		for key := range data {
			known[at(kind, get(o, "metadata", "namespace"), get(o, "metadata", "name"))+" key "+key] = true
		}
	}
	for _, o := range objects {
		namespace := get(o, "metadata", "namespace")
		if namespace != nil && !known[at("Namespace", nil, namespace)] && namespace != "flux-system" {
			t.Errorf("%s: there is no such namespace", name(o))
		}
		pod := get(o, "spec", "template", "spec")
		if pod == nil || o["kind"] == "HelmRelease" {
			continue
		}
		need := func(what string) {
			if !known[what] {
				t.Errorf("%s: there is no %s", name(o), what)
			}
		}
		need(at("ServiceAccount", namespace, get(pod, "serviceAccountName")))
		for _, s := range list(get(pod, "imagePullSecrets")) {
			need(at("Secret", namespace, get(s, "name")))
		}
		for _, v := range list(get(pod, "volumes")) {
			if s := get(v, "secret", "secretName"); s != nil {
				need(at("Secret", namespace, s))
			}
			if c := get(v, "configMap", "name"); c != nil {
				need(at("ConfigMap", namespace, c))
			}
		}
		for _, c := range list(get(pod, "containers")) {
			for _, e := range list(get(c, "envFrom")) {
				need(at("ConfigMap", namespace, get(e, "configMapRef", "name")))
			}
			for _, e := range list(get(c, "env")) {
				value, _ := get(e, "value").(string)
				if ref := get(e, "valueFrom", "secretKeyRef"); ref != nil {
					key, _ := get(ref, "key").(string)
					need(at("Secret", namespace, get(ref, "name")) + " key " + key)
				}
				// A file of a mounted Secret: /etc/<service>/<volume>/<key>.
				if parts := strings.Split(value, "/"); len(parts) == 5 && parts[1] == "etc" {
					for _, v := range list(get(pod, "volumes")) {
						if get(v, "name") == parts[3] {
							need(at("Secret", namespace, get(v, "secret", "secretName")) + " key " + parts[4])
						}
					}
				}
			}
		}
	}
}

type noSecrets struct{}

func (noSecrets) Seal(r []gitopsenv.SealRequest) ([][]byte, error) {
	return make([][]byte, len(r)), nil
}

// The development environment is what the generator would make of the base, so
// that it shows how an environment looks.
func TestDevelopmentIsAnEnvironmentLikeOthers(t *testing.T) {
	t.Parallel()
	tree := platform.Tree()
	env, err := gitopsenv.Complete(gitopsenv.Base{Platform: tree}, gitopsenv.Inputs{
		Environment: "developmend", Domain: "dev.kubeopera.example", Region: "eu-central-1", Email: "platform@dev.kubeopera.example",
		Registry: gitopsenv.Registry{Server: "registry.dev.kubeopera.example", Username: "development"},
	}, noSecrets{})
	if err != nil {
		t.Fatal(err)
	}
	for file, data := range env.Tree {
		original := strings.ReplaceAll(file, "developmend", "development")
		switch {
		case strings.Contains(file, "/sealed-secrets/"),
			strings.HasSuffix(file, "/database/kustomization.yaml"),
			strings.HasSuffix(file, "/developmend/apps/kustomization.yaml"),
			strings.HasSuffix(file, "/gotk-sync.yaml"):
			continue // secrets are in clear there
		}
		got := strings.ReplaceAll(string(data), "developmend", "development")
		want := tree[original]
		if i := bytes.Index(want, []byte("apiVersion")); i > 0 && strings.HasSuffix(file, "developmend/kustomization.yaml") {
			want = want[i:] // explained there
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-development +generated):\n%s", original, diff)
		}
	}
}

// The two services of runs have in the tree the rights that they ship with: what is
// rendered of both is compared, so that a file that nobody applies counts for nothing.
func TestRightsAreThoseThatTheServicesShipWith(t *testing.T) {
	t.Parallel()
	for service, module := range map[string]string{"cluster-provisioner": "provisioner", "gitops-scaffolder": "scaffolder"} {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			shipped := rights(render(t, filesys.MakeFsOnDisk(), "../../"+module+"/deploy"))
			if len(shipped) < 8 { // two accounts, each with a Role and its binding, and the policies of runs
				t.Fatalf("%s/deploy has only %d objects about rights", module, len(shipped))
			}
			if diff := cmp.Diff(shipped, rights(build(t, "apps/"+service+"/base"))); diff != "" {
				t.Errorf("rights (-%s/deploy +apps/%s/base):\n%s", module, service, diff)
			}
		})
	}
}

// rights are the objects that say who may do what, by name: accounts, which are
// only named, roles, bindings, and what the API server admits.
func rights(objects []map[string]any) map[string]any {
	found := map[string]any{}
	for _, o := range objects {
		version, _ := o["apiVersion"].(string)
		switch group, _, _ := strings.Cut(version, "/"); {
		case o["kind"] == "ServiceAccount":
			found[name(o)] = "account"
		case group == "rbac.authorization.k8s.io", group == "admissionregistration.k8s.io":
			found[name(o)] = o
		}
	}
	return found
}
