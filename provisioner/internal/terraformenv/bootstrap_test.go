package terraformenv

import (
	"bytes"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/shared/golden"
	"github.com/kubeopera/platform/shared/skip"
)

// scripts are the shell files of the nodes, with the stand-ins that test them.
func scripts(tb testing.TB) []string {
	tb.Helper()
	paths, err := filepath.Glob(filepath.Join(bootstrapDir, "*.sh"))
	if err != nil || len(paths) == 0 {
		tb.Fatalf("no scripts (%v)", err)
	}
	stands, err := filepath.Glob(filepath.Join("testdata", "machine", "*"))
	if err != nil || len(stands) == 0 {
		tb.Fatalf("no stand-ins (%v)", err)
	}
	return append(paths, stands...)
}

func TestScriptsParse(t *testing.T) {
	t.Parallel()
	for _, path := range scripts(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string][]byte{"as it is": text, "without comments": withoutComments(t, text)} {
			cmd := exec.CommandContext(t.Context(), "bash", "-n")
			cmd.Stdin = bytes.NewReader(text)
			if output, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s, %s: %v\n%s", filepath.Base(path), name, err, output)
			}
		}
	}
}

// withoutComments does what user_data.tf does, by the same expression.
func withoutComments(tb testing.TB, text []byte) []byte {
	tb.Helper()
	configuration, err := os.ReadFile(filepath.Join(modulesDir, "compute", "user_data.tf"))
	if err != nil {
		tb.Fatal(err)
	}
	found := regexp.MustCompile(`bootstrap/\$\{name\}"\), "/(.*)/", ""\)`).FindSubmatch(configuration)
	if found == nil {
		tb.Fatal("user_data.tf takes no comments out")
	}
	// HCL reads a backslash that is doubled.
	return regexp.MustCompile(strings.ReplaceAll(string(found[1]), `\\`, `\`)).ReplaceAll(text, nil)
}

func TestCommentsAreTakenOut(t *testing.T) {
	t.Parallel()
	const text = "#!/usr/bin/env bash\n# one\n#\nset -e # stays\n  # two\necho '#x'\n"
	if got, want := string(withoutComments(t, []byte(text))), "#!/usr/bin/env bash\nset -e # stays\necho '#x'\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestScriptsPassShellcheck(t *testing.T) {
	t.Parallel()
	shellcheck, err := exec.LookPath("shellcheck")
	if err != nil {
		skip.Missing(t, skip.Shellcheck, err.Error())
	}
	arguments := append([]string{"--external-sources", "--source-path=SCRIPTDIR", "--shell=bash"}, scripts(t)...)
	if output, err := exec.CommandContext(t.Context(), shellcheck, arguments...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

func TestDisabledRulesHaveReasons(t *testing.T) {
	t.Parallel()
	for _, path := range scripts(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "shellcheck disable=") && !regexp.MustCompile(`disable=SC\d+ # \w+`).MatchString(line) {
				t.Errorf("%s: no reason: %s", filepath.Base(path), line)
			}
		}
	}
}

// Every version has a way of being verified, and no line is without use.
func TestVersionsAreVerified(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(bootstrapDir, "versions.env"))
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || !regexp.MustCompile(`^[A-Z0-9_]+$`).MatchString(key) || !regexp.MustCompile(`^[A-Za-z0-9.:/*_-]+$`).MatchString(value) {
			t.Errorf("not KEY=value that a shell reads as itself: %s", line)
		}
		versions[key] = value
	}
	for key, value := range versions {
		name, kind := key[:strings.LastIndexByte(key, '_')], key[strings.LastIndexByte(key, '_')+1:]
		switch kind {
		case "URL":
			if !strings.HasPrefix(value, "https://") {
				t.Errorf("%s is not https", key)
			}
			sum, fingerprint := versions[name+"_SHA256"], versions[strings.TrimSuffix(name, "_APT")+"_KEY_FINGERPRINT"]
			if sum == "" && fingerprint == "" {
				t.Errorf("nothing verifies what %s gives", key)
			}
		case "SHA256":
			if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(value) {
				t.Errorf("%s is no sum", key)
			}
		case "FINGERPRINT":
			if !regexp.MustCompile(`^[0-9A-F]{40}$`).MatchString(value) {
				t.Errorf("%s is no fingerprint", key)
			}
		}
	}
}

// kubeadmConfigs are the configuration files that nodes write for kubeadm.
func kubeadmConfigs() map[string]string {
	const certificateKey = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	return map[string]string{
		"init-single":        `ENDPOINT=10.0.1.5:6443 KUBEOPERA_CERT_SANS=203.0.113.9; kubeadm_init_config`,
		"init-three":         `KUBEOPERA_CERT_SANS=K8S-acme-pub.elb.eu-west-1.amazonaws.com,api.example.com; kubeadm_init_config ` + certificateKey,
		"join-control-plane": `kubeadm_join_config api.example.com:6443 abcdef.0123456789abcdef sha256:` + certificateKey + ` ` + certificateKey,
		"join-worker":        `kubeadm_join_config api.example.com:6443 abcdef.0123456789abcdef sha256:` + certificateKey,
	}
}

// kubeadmConfig is what the scripts write for a machine and a version.
func kubeadmConfig(tb testing.TB, call, version string) []byte {
	tb.Helper()
	script := `set -euo pipefail
. "$1"
NODE_NAME=ip-10-0-1-5 NODE_IP=10.0.1.5 INSTANCE_ID=i-0123456789abcdef0 ZONE=eu-west-1a
ENDPOINT=k8s-acme-int-0123456789abcdef.elb.eu-west-1.amazonaws.com:6443
KUBEOPERA_CLUSTER_NAME=acme KUBEOPERA_KUBERNETES_VERSION=$2
KUBEOPERA_POD_CIDR=192.168.0.0/16 KUBEOPERA_SERVICE_CIDR=10.96.0.0/12
` + call
	cmd := exec.CommandContext(tb.Context(), "bash", "-c", script, "bash", filepath.Join(bootstrapDir, "kubeadm.sh"), version)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		tb.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	return output
}

func TestKubeadmConfigsMatchGoldenFiles(t *testing.T) {
	t.Parallel()
	for name, call := range kubeadmConfigs() {
		config := kubeadmConfig(t, call, "1.36.3")
		golden.Equal(t, "kubeadm/"+name+".yaml", config)
		var kinds []string
		for document := range bytes.SplitSeq(config, []byte("---\n")) {
			var object struct {
				Kind string `json:"kind"`
			}
			if err := yaml.UnmarshalStrict(document, &map[string]any{}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := yaml.Unmarshal(document, &object); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			kinds = append(kinds, object.Kind)
		}
		want := []string{"JoinConfiguration"}
		if strings.HasPrefix(name, "init") {
			want = []string{"InitConfiguration", "ClusterConfiguration", "KubeletConfiguration"}
		}
		if !slices.Equal(kinds, want) {
			t.Errorf("%s has documents %q, want %q", name, kinds, want)
		}
	}
}

// findKubeadm is a kubeadm that tools/build has built.
func findKubeadm(tb testing.TB) string {
	tb.Helper()
	output, err := exec.CommandContext(tb.Context(), filepath.Join(modulesDir, "..", "tools", "build"), "--cached", "kubeadm").Output()
	if err != nil {
		skip.Missing(tb, skip.Kubeadm, "tools/build kubeadm has not been run")
	}
	return filepath.Join(strings.TrimSpace(string(output)), "kubeadm")
}

func TestKubeadmAcceptsItsConfigs(t *testing.T) {
	t.Parallel()
	kubeadm := findKubeadm(t)
	validate := func(config []byte) (string, error) {
		path := filepath.Join(t.TempDir(), "config.yaml")
		writeFile(t, path, string(config))
		output, err := exec.CommandContext(t.Context(), kubeadm, "config", "validate", "--config", path).CombinedOutput()
		return string(output), err
	}
	for name, call := range kubeadmConfigs() {
		for _, version := range []string{"1.33.12", "1.34.8", "1.35.5", "1.36.3"} {
			if output, err := validate(kubeadmConfig(t, call, version)); err != nil {
				t.Errorf("%s for %s: %v\n%s", name, version, err, output)
			}
		}
	}
	broken := bytes.Replace(kubeadmConfig(t, "kubeadm_init_config", "1.36.3"), []byte("controlPlaneEndpoint"), []byte("controlPlaneEndpiont"), 1)
	if output, err := validate(broken); err == nil {
		t.Errorf("a field that does not exist was accepted:\n%s", output)
	}
}

// The published kubeconfig must fit into a parameter of 4096 bytes, in base64, with
// the longest name of a load balancer.
func TestKubeconfigFitsItsParameter(t *testing.T) {
	t.Parallel()
	kubeadm := findKubeadm(t)
	dir := t.TempDir()
	const longest = "k8s-a-name-of-the-longest-k-int-0123456789abcdef.elb.ap-southeast-5.amazonaws.com:6443"
	config := kubeadmConfig(t, "ENDPOINT="+longest+"; kubeadm_init_config", "1.36.3")
	_, cluster, _ := bytes.Cut(config, []byte("---\n"))
	cluster, _, _ = bytes.Cut(cluster, []byte("---\n"))
	path := filepath.Join(dir, "config.yaml")
	writeFile(t, path, string(cluster)+"certificatesDir: "+dir+"\n")
	if output, err := exec.CommandContext(t.Context(), kubeadm, "init", "phase", "certs", "ca", "--config", path).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	kubeconfig, err := exec.CommandContext(t.Context(), kubeadm, "kubeconfig", "user",
		"--client-name", "kubeopera-admin", "--validity-period", "8760h0m0s", "--config", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(kubeconfig, []byte("https://"+longest)) {
		t.Errorf("kubeconfig is not for the endpoint:\n%s", kubeconfig)
	}
	if size := base64.StdEncoding.EncodedLen(len(kubeconfig)); size > 4096 {
		t.Errorf("%d bytes, at most 4096 fit", size)
	}
}
