package v1alpha1_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
)

const header = "apiVersion: holodeck.nvidia.com/v1alpha1\nkind: Environment\n"

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, data, want string }{
		{"nothing", "", "the file is empty"},
		{"comments only", "# none\n", "the file is empty"},
		{"an empty document", "---\n", "the file is empty"},
		{"a list", "- a\n", "must be a mapping"},
		{"two documents", header + "---\n" + header, "several documents"},
		{"an empty second document", header + "---\n", "several documents"},
		{"text after the end", header + "...\nfoo: [\n", "not valid YAML"},
		{"no YAML", header + "spec: [\n", "not valid YAML"},
		{"another kind", "apiVersion: v1\nkind: Pod\nspec: {containers: []}\n", "apiVersion: must be holodeck.nvidia.com/v1alpha1\n  kind: must be Environment"},
		{"no kind", "apiVersion: holodeck.nvidia.com/v1alpha1\n", "kind: must be Environment"},
		{"too large", header + "#" + strings.Repeat("x", v1alpha1.MaxSize), "larger than 1024 KiB"},

		{"an unknown key", header + "spec:\n  kubernets: {}\n", "spec.kubernets: unknown key; did you mean kubernetes? (line 4)"},
		{"a key with a better name", header + "spec: {kubernetes: {kubernetesVersion: v1}}\n", "spec.kubernetes.kubernetesVersion: unknown key; did you mean release.version?"},
		{"a key of another place", header + "spec: {hostUrl: x}\n", "spec.hostUrl: unknown key; did you mean spec.instance.hostUrl?"},
		{"a key of several places", header + "spec: {region: x}\n", "did you mean spec.instance.region or spec.cluster.region?"},
		{"a key like nothing", header + "spec: {zzzzzz: x}\n", "spec.zzzzzz: unknown key (line 3)"},
		{"an unknown key at the top", header + "specs: {}\n", "specs: unknown key; did you mean spec?"},
		{"an unknown key in a list", header + "spec: {customTemplates: [{}, {script: x}]}\n", "spec.customTemplates[1].script: unknown key"},
		{"an unknown key of metadata", header + "metadata: {names: x}\n", "metadata.names: unknown key; did you mean name?"},
		{"a key that steers terminals", header + "spec: {\"a\\e[2J\": x}\n", `spec."a\x1b[2J": unknown key`},
		{"a key of a megabyte", header + "spec: {" + strings.Repeat("k", 1000) + ": x}\n", "spec." + strings.Repeat("k", 64) + "…: unknown key"},

		{"a key twice", header + "spec: {provider: aws, provider: ssh}\n", "spec.provider: given before, in line 3 (line 3)"},
		{"a key twice in other letters", header + "spec:\n  kubernetes:\n    installer: kind\n    Installer: kind\n", "spec.kubernetes.installer: given before, in line 5 (line 6)"},
		{"a label twice", header + "metadata: {labels: {a: b, a: c}}\n", "metadata.labels.a: given before"},

		{"text for a number", header + "spec: {cluster: {controlPlane: {count: three}}}\n", "spec.cluster.controlPlane.count: must be a whole number"},
		{"a fraction for a number", header + "spec: {cluster: {controlPlane: {count: 1.5}}}\n", "spec.cluster.controlPlane.count: must be a whole number"},
		{"a number in quotes", header + "spec: {cluster: {controlPlane: {count: '3'}}}\n", "spec.cluster.controlPlane.count: must be a whole number"},
		{"a number too large", header + "spec: {cluster: {controlPlane: {count: 4294967297}}}\n", "spec.cluster.controlPlane.count: must be a whole number of at most 32 bits"},
		{"text for a boolean", header + "spec: {kubernetes: {install: maybe}}\n", "spec.kubernetes.install: must be true or false"},
		{"a boolean in quotes", header + "spec: {kubernetes: {install: 'true'}}\n", "spec.kubernetes.install: must be true or false"},
		{"a list for text", header + "spec: {provider: [aws]}\n", "spec.provider: must be text"},
		{"binary text", header + "spec: {provider: !!binary YXdz}\n", "spec.provider: must be text"},
		{"text for a list", header + "spec: {instance: {ingressIpRanges: 192.0.2.0/24}}\n", "spec.instance.ingressIpRanges: must be a list"},
		{"text for a mapping", header + "spec: {instance: x}\n", "spec.instance: must be a mapping"},
		{"a list for labels", header + "metadata: {labels: [a]}\n", "metadata.labels: must be a mapping"},
		{"a number for a duration", header + "spec: {auth: {sshConfig: {connectTimeout: 30}}}\n", "spec.auth.sshConfig.connectTimeout: must be a duration, such as 30s"},
		{"text for a time", header + "metadata: {creationTimestamp: yesterday}\n", "metadata.creationTimestamp: must be a time"},
		{"a mapping for a time", header + "metadata: {creationTimestamp: {a: b}}\n", "metadata.creationTimestamp: must be a time"},
		{"a merge key", header + "spec: {auth: &a {username: x}, instance: {<<: *a}}\n", "spec.instance: merge keys"},
		{"a mapping as a key", header + "spec: {? {a: b} : c}\n", "spec: merge keys and keys that are no plain text"},
		{"an alias to itself", header + "metadata: &a {labels: *a}\n", "must be text"},
		{"description in two places", header + "metadata: {description: a, annotations: {b: c}}\n", "metadata.description: put it into annotations"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			env, err := v1alpha1.Decode([]byte(tt.data))
			if err == nil {
				t.Fatalf("accepted: %+v", env)
			}
			if !errors.Is(err, v1alpha1.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, want it to contain %q", err, tt.want)
			}
		})
	}
}

func TestDecodeNamesAllUnknownKeys(t *testing.T) {
	t.Parallel()
	_, err := v1alpha1.Decode([]byte(header + "a: 1\nspec: {b: 2, kubernetes: {c: 3, install: x}}\nstatus: {d: 4}\n"))
	var errs v1alpha1.FieldErrors
	if !errors.As(err, &errs) {
		t.Fatal(err)
	}
	var got []string
	for _, e := range errs {
		got = append(got, e.Field)
	}
	want := []string{"a", "spec.b", "spec.kubernetes.c", "spec.kubernetes.install", "status.d"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

// Ten levels of ten aliases each would be 10^10 values.
func TestDecodeBoundsAliases(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(header + "metadata:\n  managedFields:\n  - fieldsV1:\n      l0: &l0 [" + strings.Repeat("x,", 9) + "x]\n")
	for i := 1; i <= 10; i++ {
		level, below := string(rune('a'+i)), string(rune('a'+i-1))
		if i == 1 {
			below = "l0"
		}
		b.WriteString("      " + level + ": &" + level + " [" + strings.Repeat("*"+below+",", 9) + "*" + below + "]\n")
	}
	if _, err := v1alpha1.Decode([]byte(b.String())); err == nil || !strings.Contains(err.Error(), "too many or too deeply nested values") {
		t.Errorf("got %v", err)
	}
}

func TestDecodeGivesUpOnTheWrongFile(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(header)
	for i := range 20_000 {
		b.WriteString("key" + strings.Repeat("x", i%30) + string(rune('a'+i%26)) + ": 1\n")
	}
	_, err := v1alpha1.Decode([]byte(b.String()))
	var errs v1alpha1.FieldErrors
	if !errors.As(err, &errs) || len(errs) != 100 {
		t.Errorf("got %d errors, want 100", len(errs))
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	env := decode(t, []byte(header+`
METADATA: {name: x, Description: for tests}
spec:
  Auth: {sshconfig: {connectTimeout: 90s}}
  nvidiaDriver: {install: YES, package: {branch: 580, version: 580.10}}
  containerRuntime: {install: off, version: 1.30}
  kubernetes: {INSTALLER: kind, VERSION: 1.34.0, k8sfeaturegates: [A=true]}
  customTemplates:
    - {name: 007, inline: ~, env: {A: true, B: 0x10, C: null, D: 2026-01-31}}
`))
	if env.Annotations[v1alpha1.DescriptionAnnotation] != "for tests" || env.Name != "x" {
		t.Errorf("metadata: %+v", env.ObjectMeta)
	}
	if env.Spec.SSHConfig.ConnectTimeout.Duration != 90*time.Second {
		t.Errorf("sshConfig: %+v", env.Spec.SSHConfig)
	}
	if d := env.Spec.NVIDIADriver; !d.Install || d.Package.Branch != "580" || d.Package.Version != "580.10" {
		t.Errorf("driver: %+v %+v", d, d.Package)
	}
	if r := env.Spec.ContainerRuntime; r.Install || r.Version != "1.30" {
		t.Errorf("runtime: %+v", r)
	}
	want := v1alpha1.Kubernetes{KubernetesInstaller: "kind", KubernetesVersion: "1.34.0", K8sFeatureGates: []string{"A=true"}}
	if diff := cmp.Diff(want, env.Spec.Kubernetes); diff != "" {
		t.Errorf("kubernetes (-want +got):\n%s", diff)
	}
	templates := []v1alpha1.CustomTemplate{{Name: "007", Env: map[string]string{"A": "true", "B": "0x10", "C": "", "D": "2026-01-31"}}}
	if diff := cmp.Diff(templates, env.Spec.CustomTemplates); diff != "" {
		t.Errorf("templates (-want +got):\n%s", diff)
	}
}
