package kustomize_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/scaffoldrunner/internal/kustomize"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, namespace: ns}\n"

func named(name string) []byte { return []byte(strings.Replace(configMap, "NAME", name, 1)) }

func TestBuild(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		files map[string][]byte
		want  []string
	}{
		{"what the kustomization lists", map[string][]byte{
			"a/kustomization.yaml": []byte("resources: [x.yaml, ../b]\n"),
			"a/x.yaml":             named("x"),
			"a/unlisted.yaml":      named("y"),
			"b/kustomization.yml":  []byte("resources: [z.yaml]\n"),
			"b/z.yaml":             named("z"),
		}, []string{"x", "z"}},
		{"everything, where there is none, as Flux does", map[string][]byte{
			"a/x.yaml":                 named("x"),
			"a/deep/er/y.yml":          named("y"),
			"a/README.md":              []byte("# words"),
			"a/patch.yaml":             []byte("- op: add\n"),
			"a/sub/kustomization.yaml": []byte("resources: [z.yaml]\n"),
			"a/sub/z.yaml":             named("z"),
			"a/sub/unlisted.yaml":      named("n"),
		}, []string{"x", "y", "z"}},
		{"with Windows' line endings", map[string][]byte{
			"a/kustomization.yaml": []byte("resources:\r\n- x.yaml\r\n"),
			"a/x.yaml":             []byte(strings.ReplaceAll(string(named("x")), "\n", "\r\n")),
		}, []string{"x"}},
		{"nothing", map[string][]byte{"a/kustomization.yaml": []byte("resources: []\n")}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, err := kustomize.New(tt.files)
			if err != nil {
				t.Fatal(err)
			}
			objects, err := b.Build("a")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range objects {
				got = append(got, o.Name)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

// Nothing outside of the tree is read, run or fetched.
func TestRemote(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a repository":    "resources: [\"https://git.example.com/x//y?ref=main\"]",
		"a short one":     "resources: [git.example.com/x/y]",
		"over SSH":        "resources: [\"git@git.example.com:x/y\"]",
		"a file":          "resources: [\"https://example.com/x.yaml\"]",
		"a base":          "bases: [\"https://git.example.com/x\"]",
		"a component":     "components: [\"https://git.example.com/x\"]",
		"a patch":         "patches: [{path: \"http://example.com/x.yaml\"}]",
		"an old patch":    "patchesStrategicMerge: [\"http://example.com/x.yaml\"]",
		"a file of a map": "configMapGenerator: [{name: x, files: [\"a=http://example.com/x\"]}]",
		"a chart":         "helmCharts: [{name: x, repo: \"https://example.com\"}]",
		"a transformer":   "transformers: [t.yaml]",
		"outside":         "resources: [../../etc]",
		"an absolute one": "resources: [/etc]",
		"through another": "resources: [../b]",
	} {
		b, err := kustomize.New(map[string][]byte{
			"a/kustomization.yaml": []byte(text),
			"a/t.yaml":             []byte("apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: x}\npath: https://example.com/x.yaml\n"),
			"b/kustomization.yaml": []byte("resources: [\"https://git.example.com/x\"]\n"),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Build("a"); !errors.Is(err, kustomize.ErrRemote) {
			t.Errorf("%s: %v, want ErrRemote", name, err)
		}
	}
}

func TestBroken(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string][]byte{
		"no such folder":                 {"b/x.yaml": named("x")},
		"a cycle":                        {"a/kustomization.yaml": []byte("resources: [../b]\n"), "b/kustomization.yaml": []byte("resources: [../a]\n")},
		"an unknown field":               {"a/kustomization.yaml": []byte("resource: []\n")},
		"a kustomization that is a list": {"a/kustomization.yaml": []byte("- a\n")},
	} {
		b, err := kustomize.New(files)
		if err != nil {
			t.Fatal(err)
		}
		if objects, err := b.Build("a"); err == nil {
			t.Errorf("%s: rendered %v", name, objects)
		}
	}
}
