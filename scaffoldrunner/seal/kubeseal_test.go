package seal_test

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
	"github.com/kubeopera/platform/scaffoldrunner/platform"
	"github.com/kubeopera/platform/scaffoldrunner/seal"
	"github.com/kubeopera/platform/scaffoldrunner/verify"
	"github.com/kubeopera/platform/shared/skip"
)

// kubeseal is upstream's program, of a newer release than the package that seals
// here. Nothing of it is linked into these tests.
type kubeseal struct {
	t   *testing.T
	dir string
}

func findKubeseal(t *testing.T) kubeseal {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join("..", "..", "tools", "build"), "--cached", "sealed-secrets").Output()
	if err != nil {
		skip.Missing(t, skip.GitOps, "tools/build sealed-secrets has not been run")
	}
	return kubeseal{t, strings.TrimSpace(string(out))}
}

func (k kubeseal) run(input []byte, args ...string) ([]byte, error) {
	k.t.Helper()
	cmd := exec.CommandContext(k.t.Context(), filepath.Join(k.dir, "kubeseal"), args...)
	cmd.Env = []string{"HOME=" + k.t.TempDir()} // nobody's kubeconfig
	cmd.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr.String())
	}
	return out, nil
}

// file writes a file for an argument.
func (k kubeseal) file(content []byte) string {
	k.t.Helper()
	name := filepath.Join(k.t.TempDir(), "file")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		k.t.Fatal(err)
	}
	return name
}

// unseal opens a manifest with a controller's key, as after the loss of a cluster.
func (k kubeseal) unseal(c controller, manifest []byte) (corev1.Secret, error) {
	k.t.Helper()
	var secret corev1.Secret
	out, err := k.run(manifest, "--recovery-unseal", "--recovery-private-key", k.file(c.privateKey()))
	if err == nil {
		err = json.Unmarshal(out, &secret)
	}
	return secret, err
}

func (c controller) privateKey() []byte {
	keys := slices.Collect(maps.Values(c.keys))
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(keys[0])})
}

// seal seals a value as a user does, for a controller.
func (k kubeseal) seal(c controller, namespace, name, key, value string, flags ...string) []byte {
	k.t.Helper()
	secret := fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {namespace: %s, name: %s}\nstringData: {%s: %q}\n", namespace, name, key, value)
	out, err := k.run([]byte(secret), append([]string{"--cert", k.file(c.pem), "--format", "yaml"}, flags...)...)
	if err != nil {
		k.t.Fatal(err)
	}
	return out
}

func TestKubesealOpensWhatIsSealed(t *testing.T) {
	t.Parallel()
	k := findKubeseal(t)
	all := []gitopsenv.Secret{postgres, client, pull}
	for i, manifest := range sealWith(t, config(t), requests(nil, all...)) {
		want := open(t, controllers()[0], manifest)
		secret, err := k.unseal(controllers()[0], manifest)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for key, value := range secret.Data {
			got[key] = string(value)
		}
		if diff := cmp.Diff(want, got); diff != "" || len(got) == 0 {
			t.Errorf("values (-upstream's package +kubeseal):\n%s", diff)
		}
		kind := corev1.SecretTypeOpaque
		if all[i].Type != "" {
			kind = corev1.SecretType(all[i].Type)
		}
		if secret.Name != all[i].Name || secret.Namespace != all[i].Namespace || secret.Type != kind || !maps.Equal(secret.Labels, all[i].Labels) {
			t.Errorf("%s is %s/%s of type %s with the labels %v", ref(all[i]), secret.Namespace, secret.Name, secret.Type, secret.Labels)
		}
	}
}

func ref(s gitopsenv.Secret) seal.Ref { return seal.Ref{Namespace: s.Namespace, Name: s.Name} }

// A strict scope binds a value to its name and namespace, whoever holds the key.
func TestKubesealOpensItNowhereElse(t *testing.T) {
	t.Parallel()
	k := findKubeseal(t)
	manifest := sealWith(t, config(t), requests(nil, postgres))[0]
	refused := func(what string, c controller, manifest []byte) {
		t.Helper()
		if _, err := k.unseal(c, manifest); err == nil || !strings.Contains(err.Error(), "no key could decrypt") {
			t.Errorf("%s: error %v", what, err)
		}
	}
	refused("another controller's key", controllers()[1], manifest)
	for what, change := range map[string][2]string{
		"another name":      {"name: postgres", "name: stolen"},
		"another namespace": {"namespace: data", "namespace: core"},
		"a wider scope":     {"  annotations:\n", "  annotations:\n    sealedsecrets.bitnami.com/namespace-wide: \"true\"\n"},
		"the widest scope":  {"  annotations:\n", "  annotations:\n    sealedsecrets.bitnami.com/cluster-wide: \"true\"\n"},
	} {
		other := bytes.Replace(manifest, []byte(change[0]), []byte(change[1]), 1)
		if bytes.Equal(other, manifest) {
			t.Fatalf("%s: nothing was replaced", what)
		}
		refused(what, controllers()[0], other)
	}
	// A value that is moved to another manifest of the same controller.
	other := sealWith(t, config(t), requests(nil, client))[0]
	value := encrypted(t, manifest, "password")
	refused("another's value", controllers()[0], bytes.Replace(other, []byte(encrypted(t, other, "key")), []byte(value), 1))
}

// encrypted is the sealed value of a key.
func encrypted(t *testing.T, manifest []byte, key string) string {
	t.Helper()
	for line := range strings.Lines(string(manifest)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), key+": "); ok {
			return value
		}
	}
	t.Fatalf("no value of %s", key)
	return ""
}

// What a user adds with kubeseal to a manifest of ours opens beside what is there.
func TestKubesealAddsToWhatIsSealed(t *testing.T) {
	t.Parallel()
	k := findKubeseal(t)
	manifest := sealWith(t, config(t), requests(nil, postgres))[0]
	want := open(t, controllers()[0], manifest)
	file := k.file(manifest)
	_, err := k.run([]byte("apiVersion: v1\nkind: Secret\nmetadata: {namespace: data, name: postgres}\nstringData: {extra: more}\n"),
		"--cert", k.file(controllers()[0].pem), "--merge-into", file, "--format", "yaml")
	if err != nil {
		t.Fatal(err)
	}
	merged, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want["extra"] = "more"
	if diff := cmp.Diff(want, open(t, controllers()[0], merged)); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	// The next run makes it what it should be again, with the password that is in use.
	c := config(t)
	c.Live = map[seal.Ref]map[string][]byte{ref(postgres): {"username": []byte("kubeopera"), "password": []byte(want["password"])}}
	delete(want, "extra")
	again := sealWith(t, c, requests([][]byte{merged}, postgres))[0]
	if diff := cmp.Diff(want, open(t, controllers()[0], again)); diff != "" {
		t.Errorf("values of the next run (-want +got):\n%s", diff)
	}
}

// A manifest that kubeseal has made is opened as ours is, and sealed again with the
// password that it has brought to the cluster.
func TestWhatKubesealSealsIsTakenOver(t *testing.T) {
	t.Parallel()
	k := findKubeseal(t)
	manifest := k.seal(controllers()[0], "data", "postgres", "password", "by-hand")
	if got := open(t, controllers()[0], manifest)["password"]; got != "by-hand" {
		t.Errorf("password %q", got)
	}
	c := config(t)
	c.Live = map[seal.Ref]map[string][]byte{ref(postgres): {"password": []byte("by-hand")}}
	again := sealWith(t, c, requests([][]byte{manifest}, postgres))[0]
	secret, err := k.unseal(controllers()[0], again)
	if err != nil || string(secret.Data["password"]) != "by-hand" || string(secret.Data["username"]) != "kubeopera" {
		t.Errorf("values %v, error %v", slices.Sorted(maps.Keys(secret.Data)), err)
	}
}

// Verification takes what kubeseal seals for its own name and namespace, and
// nothing with a wider scope.
func TestVerificationOfWhatKubesealSeals(t *testing.T) {
	t.Parallel()
	k := findKubeseal(t)
	inputs := gitopsenv.Inputs{Environment: "acme", Domain: "acme.example.com", Region: "eu-west-1", Email: "ops@acme.example.com", Registry: registry}
	s, err := seal.New(config(t))
	if err != nil {
		t.Fatal(err)
	}
	base := gitopsenv.Base{Platform: platform.Tree()}
	env, err := gitopsenv.Complete(base, inputs, s)
	if err != nil {
		t.Fatal(err)
	}
	before := env.Tree
	secret := env.Secrets[slices.IndexFunc(env.Secrets, func(s gitopsenv.Secret) bool { return s.Registry == nil && len(s.Values) > 0 })]
	file := ""
	for path, data := range before {
		if text := string(data); strings.Contains(text, "kind: SealedSecret\n") && strings.Contains(text, "\n  name: "+secret.Name+"\n") && strings.Contains(path, secret.Namespace) {
			file = path
		}
	}
	if file == "" {
		t.Fatalf("no file of %s", ref(secret))
	}
	findings := func(manifest []byte, certificate string) string {
		env.Tree = maps.Clone(before)
		env.Tree[file] = manifest
		var all []string
		for _, f := range verify.Findings(verify.Config{
			Base: gitopsenv.Base{Repository: before, Platform: base.Platform}, Inputs: inputs, Environment: env, Certificate: certificate,
		}) {
			all = append(all, f.String())
		}
		return strings.Join(all, "\n")
	}
	for scope, want := range map[string]string{
		"strict":         "",
		"namespace-wide": "is sealed namespace-wide: anybody who can write",
		"cluster-wide":   "is sealed cluster-wide: anybody who can write",
	} {
		manifest := k.seal(controllers()[0], secret.Namespace, secret.Name, "password", "by-hand", "--scope", scope)
		if got := findings(manifest, ""); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("scope %s: findings %q, want %q", scope, got, want)
		}
	}
	// It says nowhere whom it is sealed for, which a run that has sealed has to know.
	manifest := k.seal(controllers()[0], secret.Namespace, secret.Name, "password", "by-hand")
	if got := findings(manifest, controllers()[0].certificate(t).Fingerprint); !strings.Contains(got, "another controller's certificate") {
		t.Errorf("findings %q", got)
	}
}
