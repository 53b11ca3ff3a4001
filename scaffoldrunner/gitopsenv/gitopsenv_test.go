package gitopsenv_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
	"github.com/kubeopera/platform/scaffoldrunner/platform"
	"github.com/kubeopera/platform/scaffoldrunner/verify"
	"github.com/kubeopera/platform/shared/golden"
)

func TestMain(m *testing.M) {
	// An example generates the whole platform twice: a hundred would take long.
	if err := flag.Set("rapid.checks", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// sealer writes what it was asked for, as a SealedSecret that looks like one.
type sealer struct{ asked []gitopsenv.SealRequest }

func (s *sealer) Seal(requests []gitopsenv.SealRequest) ([][]byte, error) {
	s.asked = requests
	var manifests [][]byte
	for _, r := range requests {
		var b strings.Builder
		fmt.Fprintf(&b, "apiVersion: bitnami.com/v1alpha1\nkind: SealedSecret\nmetadata:\n  name: %s\n", r.MetaName)
		if r.MetaNamespace != "" {
			fmt.Fprintf(&b, "  namespace: %s\n", r.MetaNamespace)
		}
		b.WriteString("spec:\n  encryptedData:\n")
		values := maps.Clone(r.Secret.Values)
		if r.Secret.Registry != nil {
			values = map[string]gitopsenv.Value{".dockerconfigjson": {{Text: r.Secret.Registry.Server + " " + r.Secret.Registry.Username}}}
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			fmt.Fprintf(&b, "    # %s\n    %s: %s\n", describe(values[key]), key, strings.Repeat("A", 400))
		}
		manifests = append(manifests, []byte(b.String()))
	}
	return manifests, nil
}

func describe(value gitopsenv.Value) string {
	var parts []string
	for _, p := range value {
		switch {
		case p.SHA256:
			parts = append(parts, "sha256("+p.Password+")")
		case p.Password != "":
			parts = append(parts, "password("+p.Password+")")
		default:
			parts = append(parts, fmt.Sprintf("%q", p.Text))
		}
	}
	return strings.Join(parts, " + ")
}

func acme() gitopsenv.Inputs {
	return gitopsenv.Inputs{
		Environment: "acme-prod",
		Domain:      "acme.example.com",
		Region:      "eu-west-1",
		Email:       "ops@acme.example.com",
		Registry:    gitopsenv.Registry{Server: "registry.example.com", Username: "robot"},
	}
}

func embedded(repository gitopsenv.Tree) gitopsenv.Base {
	return gitopsenv.Base{Repository: repository, Platform: platform.Tree()}
}

// complete generates, and checks the result as it would be before a push.
func complete(tb testing.TB, base gitopsenv.Base, in gitopsenv.Inputs) gitopsenv.Environment {
	tb.Helper()
	env, err := gitopsenv.Complete(base, in, &sealer{})
	if err != nil {
		tb.Fatal(err)
	}
	if err := verify.Verify(verify.Config{Base: base, Inputs: in, Environment: env}); err != nil {
		tb.Fatal(err)
	}
	return env
}

func infrastructure(tb testing.TB, base gitopsenv.Base, in gitopsenv.Inputs) gitopsenv.Environment {
	tb.Helper()
	env, err := gitopsenv.Infrastructure(base, in)
	if err != nil {
		tb.Fatal(err)
	}
	if err := verify.Verify(verify.Config{Base: base, Inputs: in, Environment: env}); err != nil {
		tb.Fatal(err)
	}
	return env
}

// summary is a tree for people: files that are copies are only named.
func summary(env gitopsenv.Environment, environment string) []byte {
	source := platform.Tree()
	var b bytes.Buffer
	for _, c := range gitopsenv.Changes(nil, env.Tree) {
		original := strings.Replace(c.Path, "clusters/"+environment+"/", "clusters/development/", 1)
		if bytes.Equal(source[original], c.New) {
			fmt.Fprintf(&b, "== %s is a copy of %s\n", c.Path, original)
			continue
		}
		fmt.Fprintf(&b, "== %s\n%s", c.Path, c.New)
	}
	for _, name := range slices.Sorted(maps.Keys(env.Hosts)) {
		fmt.Fprintf(&b, "host of %s: %s\n", name, strings.Join(env.Hosts[name], ", "))
	}
	return b.Bytes()
}

func TestInfrastructure(t *testing.T) {
	t.Parallel()
	golden.Equal(t, "infrastructure.txt", summary(infrastructure(t, embedded(nil), acme()), "acme-prod"))
}

func TestComplete(t *testing.T) {
	t.Parallel()
	golden.Equal(t, "complete.txt", summary(complete(t, embedded(nil), acme()), "acme-prod"))
}

func TestInfrastructureWithChosenServices(t *testing.T) {
	t.Parallel()
	in := acme()
	in.Services = map[string]gitopsenv.Service{"gateway": {Hostname: "front.acme.example.com"}}
	if env := infrastructure(t, embedded(nil), in); env.Hosts != nil || env.Secrets != nil {
		t.Errorf("pass 1 has hosts %v and secrets %v", env.Hosts, env.Secrets)
	}
}

func TestFilesThatTheBaseGivesAnotherName(t *testing.T) {
	t.Parallel()
	before := complete(t, embedded(nil), acme())
	renamed := platform.Tree()
	const folder = "clusters/development/database/"
	renamed[folder+"queue.yaml"] = renamed[folder+"rabbitmq.yaml"]
	delete(renamed, folder+"rabbitmq.yaml")
	renamed[folder+"kustomization.yaml"] = bytes.Replace(renamed[folder+"kustomization.yaml"], []byte("rabbitmq.yaml"), []byte("queue.yaml"), 1)
	after := complete(t, gitopsenv.Base{Repository: before.Tree, Platform: renamed}, acme())
	want := []string{
		"clusters/acme-prod/database/kustomization.yaml",
		"clusters/acme-prod/database/queue.yaml",
		"clusters/acme-prod/database/rabbitmq.yaml",
	}
	if diff := cmp.Diff(want, paths(gitopsenv.Changes(before.Tree, after.Tree))); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
}

func paths(changes []gitopsenv.Change) []string {
	var paths []string
	for _, c := range changes {
		paths = append(paths, c.Path)
	}
	return paths
}

func TestBothPassesGiveWhatTheSecondAloneGives(t *testing.T) {
	t.Parallel()
	first := infrastructure(t, embedded(nil), acme())
	both := complete(t, embedded(first.Tree), acme())
	alone := complete(t, embedded(nil), acme())
	if diff := cmp.Diff(alone.Tree, both.Tree); diff != "" {
		t.Errorf("alone and after pass 1 (-alone +after):\n%s", diff)
	}
}

func TestPassOneLeavesWhatPassTwoWrote(t *testing.T) {
	t.Parallel()
	done := complete(t, embedded(nil), acme())
	again := infrastructure(t, embedded(done.Tree), acme())
	if changes := gitopsenv.Changes(done.Tree, again.Tree); len(changes) != 0 {
		t.Errorf("pass 1 changed %v", paths(changes))
	}
}

func TestAnotherDomainChangesOnlyWhatDependsOnIt(t *testing.T) {
	t.Parallel()
	before := complete(t, embedded(nil), acme())
	in := acme()
	in.Domain = "acme.example.org"
	after := complete(t, embedded(before.Tree), in)
	want := []string{
		"apps/auth-service/overlays/acme-prod/ingress-hostname.yaml",
		"apps/cicd-gateway/overlays/acme-prod/ingress-hostname.yaml",
		"apps/gateway/overlays/acme-prod/ingress-hostname.yaml",
		"apps/web-console/overlays/acme-prod/ingress-hostname.yaml",
		"clusters/acme-prod/apps/environment.yaml",
		"clusters/acme-prod/infrastructure/external-dns.yaml",
	}
	if diff := cmp.Diff(want, paths(gitopsenv.Changes(before.Tree, after.Tree))); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
}

func TestEnvironmentsShareTheBaseAndNothingElse(t *testing.T) {
	t.Parallel()
	first := complete(t, embedded(nil), acme())
	in := acme()
	in.Environment, in.Domain = "acme-test", "test.acme.example.com"
	second := complete(t, embedded(first.Tree), in)
	for _, c := range gitopsenv.Changes(first.Tree, second.Tree) {
		if c.Old != nil || !strings.Contains(c.Path, "/acme-test/") {
			t.Errorf("%s changed", c.Path)
		}
	}
}

// The same inputs change nothing, whatever they are, and everything that is
// written reads as what was meant.
func TestGeneratingAgainChangesNothing(t *testing.T) {
	t.Parallel()
	name := rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?`)
	services := []string{"auth-service", "build-service", "cicd-gateway", "cluster-provisioner", "gateway", "gitops-scaffolder", "host-cluster-controller", "web-console"}
	rapid.Check(t, func(rt *rapid.T) {
		in := acme()
		in.Environment = rapid.OneOf(rapid.SampledFrom([]string{"no", "yes", "on", "0123", "1e3", "null", "0x1f", "true"}), name).
			Filter(func(s string) bool { return s != "development" && s != "base" }).Draw(rt, "environment")
		in.Domain = rapid.Custom(func(rt *rapid.T) string { return name.Draw(rt, "label") + ".example" }).Draw(rt, "domain")
		in.Registry.Username = rapid.StringMatching(`[ -9;-~]{1,20}`).Draw(rt, "username")
		if chosen := rapid.SliceOfNDistinct(rapid.SampledFrom(services), 0, len(services), rapid.ID).Draw(rt, "services"); len(chosen) > 0 {
			in.Services = map[string]gitopsenv.Service{}
			for _, s := range chosen {
				in.Services[s] = gitopsenv.Service{}
			}
		}
		base := embedded(nil)
		once, err := gitopsenv.Complete(base, in, &sealer{})
		if err != nil {
			rt.Fatal(err)
		}
		if err := verify.Verify(verify.Config{Base: base, Inputs: in, Environment: once}); err != nil {
			rt.Fatal(err)
		}
		twice, err := gitopsenv.Complete(embedded(once.Tree), in, &sealer{})
		if err != nil {
			rt.Fatal(err)
		}
		if changes := gitopsenv.Changes(once.Tree, twice.Tree); len(changes) != 0 {
			rt.Fatalf("generated again, changed %v", paths(changes))
		}
	})
}

func TestServicesThatAreNotWantedGo(t *testing.T) {
	t.Parallel()
	before := complete(t, embedded(nil), acme())
	in := acme()
	in.Services = map[string]gitopsenv.Service{"gateway": {Hostname: "front.acme.example.com"}, "auth-service": {}}
	after := complete(t, embedded(before.Tree), in)
	want := map[string][]string{"auth-service": {"auth.acme.example.com"}, "gateway": {"front.acme.example.com"}}
	if diff := cmp.Diff(want, after.Hosts); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	for file := range after.Tree {
		if strings.HasPrefix(file, "apps/web-console/overlays/acme-prod/") {
			t.Errorf("%s is still there", file)
		}
	}
	if list := string(after.Tree["clusters/acme-prod/apps/kustomization.yaml"]); strings.Contains(list, "web-console") {
		t.Errorf("web-console is still listed:\n%s", list)
	}
	if data := string(after.Tree["clusters/acme-prod/apps/environment.yaml"]); strings.Contains(data, "WEB_CONSOLE_HOST") {
		t.Errorf("the environment still has a host for web-console:\n%s", data)
	}
}

func TestWhatOthersWroteStays(t *testing.T) {
	t.Parallel()
	tree := complete(t, embedded(nil), acme()).Tree
	bootstrap := `# This manifest was generated by flux. DO NOT EDIT.
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata:
  name: flux-system
  namespace: flux-system
spec:
  interval: 1m0s
  url: ssh://git@git.example.com/acme/gitops.git
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: flux-system
  namespace: flux-system
spec:
  interval: 10m0s
  path: ./clusters/acme-prod
  prune: true
  sourceRef:
    kind: GitRepository
    name: flux-system
`
	const sync = "clusters/acme-prod/flux-system/gotk-sync.yaml"
	layers := tree[sync]
	tree[sync] = []byte(bootstrap) // flux bootstrap has taken the layers out
	tree["clusters/acme-prod/flux-system/kustomization.yaml"] = []byte("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- gotk-components.yaml\n- gotk-sync.yaml\n")
	tree["clusters/acme-prod/flux-system/gotk-components.yaml"] = []byte("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: flux-system\n")
	tree["clusters/acme-prod/apps/budget.yaml"] = []byte("apiVersion: v1\nkind: ResourceQuota\nmetadata:\n  name: budget\n  namespace: kubeopera-core\n")
	const list = "clusters/acme-prod/apps/kustomization.yaml"
	tree[list] = append(tree[list], "- budget.yaml\n"...)
	// A base that the repository's owner has changed.
	const base = "apps/gateway/base/deployment.yaml"
	tree[base] = bytes.Replace(tree[base], []byte("replicas: 2"), []byte("replicas: 5"), 1)

	after := complete(t, embedded(tree), acme())
	if changes := paths(gitopsenv.Changes(tree, after.Tree)); !slices.Equal(changes, []string{sync}) {
		t.Errorf("changed %v, want the sync file only", changes)
	}
	got := string(after.Tree[sync])
	for _, text := range []string{"ssh://git@git.example.com/acme/gitops.git", "path: ./clusters/acme-prod\n", string(layers)} {
		if !strings.Contains(got, text) {
			t.Errorf("the sync file lacks %q:\n%s", text, got)
		}
	}
}

func TestLineEndingsAreKept(t *testing.T) {
	t.Parallel()
	unix := complete(t, embedded(nil), acme())
	windows := gitopsenv.Tree{}
	for file, data := range unix.Tree {
		windows[file] = bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n"))
	}
	in := acme()
	in.Domain = "acme.example.org"
	after := complete(t, embedded(windows), in)
	for _, c := range gitopsenv.Changes(windows, after.Tree) {
		if strings.HasPrefix(c.Path, "clusters/acme-prod/infrastructure/") {
			continue // as in the base, to the byte
		}
		if got := bytes.Count(c.New, []byte("\n")); got == 0 || got != bytes.Count(c.New, []byte("\r\n")) {
			t.Errorf("%s has lines that end otherwise than before", c.Path)
		}
		if bytes.Equal(bytes.ReplaceAll(c.New, []byte("\r"), nil), bytes.ReplaceAll(c.Old, []byte("\r"), nil)) {
			t.Errorf("%s changed in its line endings only", c.Path)
		}
	}
}

func TestHostsThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		services map[string]gitopsenv.Service
		want     string
	}{
		{"a service that nobody knows", map[string]gitopsenv.Service{"nope": {}}, "it has auth-service, build-service,"},
		{"a host for a service without one", map[string]gitopsenv.Service{"build-service": {Hostname: "b.acme.example.com"}}, "services.build-service.hostname cannot be set"},
		{"a host that is another service's default", map[string]gitopsenv.Service{"gateway": {Hostname: "console.acme.example.com"}, "web-console": {}}, "have one hostname"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := acme()
			in.Services = tt.services
			_, err := gitopsenv.Complete(embedded(nil), in, &sealer{})
			var invalid *gitopsenv.InvalidError
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want an InvalidError with %q", err, tt.want)
			}
		})
	}
}
