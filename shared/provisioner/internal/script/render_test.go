package script_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/golden"
	"github.com/kubeopera/platform/shared/provisioner/internal/script"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/skip"
)

// everyStep renders all steps of an environment that has everything.
func everyStep(tb testing.TB) []script.Step {
	tb.Helper()
	var steps []script.Step
	add := func(s script.Step, err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		steps = append(steps, s)
	}
	env := environment(func(s *v1alpha1.EnvironmentSpec) {
		s.Kernel.Version = "6.8.0-50-generic"
		s.NVIDIADriver.Install, s.NVIDIAContainerToolkit.Install = true, true
	})
	add(script.Kernel(env))
	add(script.Driver(env))
	for _, name := range []v1alpha1.ContainerRuntimeName{v1alpha1.ContainerRuntimeContainerd, v1alpha1.ContainerRuntimeDocker, v1alpha1.ContainerRuntimeCrio} {
		env.Spec.ContainerRuntime.Name = name
		add(script.ContainerRuntime(env))
	}
	add(script.Toolkit(env))
	for _, installer := range []string{v1alpha1.InstallerKind, v1alpha1.InstallerMicroK8s, v1alpha1.InstallerKubeadm} {
		env.Spec.Kubernetes.KubernetesInstaller = installer
		add(script.Kubernetes(env, script.Node{Address: "node.example.com:2222"}))
		add(script.Kubeconfig(env))
		add(script.Reset(env))
	}
	add(script.Prerequisites(env))
	add(script.Init(env, first))
	add(script.JoinData(env, ""))
	add(script.JoinData(env, redact.Secret(key)))
	add(script.JoinControlPlane(env, controlPlane))
	add(script.JoinWorker(env, worker))
	add(script.Forget(env, script.Node{Name: "gone", Address: "10.0.0.9"}))
	add(script.Observe(env))
	add(script.Custom(v1alpha1.CustomTemplate{Name: "t", Env: map[string]string{"A": "b"}}, []byte("echo it's\n")))
	return steps
}

var fragment = regexp.MustCompile(`(?s)\n# shellcheck shell=bash\n.*\nmain\(\) \{`)

// What the steps have of their own: the values, and the calls. The functions between
// are the .sh files.
func TestSteps(t *testing.T) {
	t.Parallel()
	var all bytes.Buffer
	for _, s := range everyStep(t) {
		all.WriteString("## " + s.Name + ", at most " + s.Timeout.String() + "\n")
		all.Write(fragment.ReplaceAll(s.Body, []byte("\n…\nmain() {")))
		all.WriteString("\n")
		if !bytes.HasPrefix(s.Body, []byte(script.Shebang+"{ set +x; } 2>/dev/null\n")) || !bytes.HasSuffix(s.Body, []byte("  exit 0\n}\nmain\n")) {
			t.Errorf("%s: begins or ends otherwise", s.Name)
		}
		if s.Timeout == 0 || s.Class == 0 {
			t.Errorf("%s: has no timeout or class", s.Name)
		}
	}
	golden.Equal(t, "golden/steps.sh", all.Bytes())
}

func TestStepsParse(t *testing.T) {
	t.Parallel()
	for _, s := range everyStep(t) {
		cmd := exec.CommandContext(t.Context(), "bash", "-n")
		cmd.Stdin = bytes.NewReader(s.Body)
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", s.Name, err, output)
		}
	}
}

func TestStepsPassShellcheck(t *testing.T) {
	t.Parallel()
	shellcheck, err := exec.LookPath("shellcheck")
	if err != nil {
		skip.Missing(t, skip.Shellcheck, err.Error())
	}
	files, err := filepath.Glob("*.sh")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	// One with its values, too.
	step, err := script.Observe(environment(nil))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "observe")
	if err := os.WriteFile(path, step.Body, 0o600); err != nil {
		t.Fatal(err)
	}
	files = append(files, path, "testdata/host/command")
	// These are about what other files use and set.
	arguments := append([]string{"--shell=bash", "--exclude=SC2034,SC2317,SC2154"}, files...)
	if output, err := exec.CommandContext(t.Context(), shellcheck, arguments...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

// The same sources and sums as the nodes of modules/compute.
func TestSettingsAgreeWithTheModule(t *testing.T) {
	t.Parallel()
	read := func(path string) map[string]string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && regexp.MustCompile(`^[A-Z0-9_]+$`).MatchString(key) {
				out[key] = strings.Trim(value, "'")
			}
		}
		return out
	}
	module, ours := read("../../../../modules/compute/bootstrap/versions.env"), read("settings.sh")
	same := 0
	for key, value := range ours {
		if want, ok := module[key]; ok {
			same++
			if value != want {
				t.Errorf("%s is %s, in the module %s", key, value, want)
			}
		}
	}
	if same < 9 {
		t.Errorf("only %d settings are in both", same)
	}
	if module["CALICO_VERSION"] != v1alpha1.DefaultCalicoVersion {
		t.Errorf("Calico is %s, in the module %s", v1alpha1.DefaultCalicoVersion, module["CALICO_VERSION"])
	}
}

func TestWhatIsNotImplementedIsRefused(t *testing.T) {
	t.Parallel()
	for name, render := range map[string]func() (script.Step, error){
		"driver from git": func() (script.Step, error) {
			return script.Driver(environment(func(s *v1alpha1.EnvironmentSpec) { s.NVIDIADriver.Source = v1alpha1.DriverSourceGit }))
		},
		"runtime from git": func() (script.Step, error) {
			return script.ContainerRuntime(environment(func(s *v1alpha1.EnvironmentSpec) { s.ContainerRuntime.Source = v1alpha1.RuntimeSourceGit }))
		},
		"toolkit from a branch": func() (script.Step, error) {
			return script.Toolkit(environment(func(s *v1alpha1.EnvironmentSpec) { s.NVIDIAContainerToolkit.Source = v1alpha1.CTKSourceLatest }))
		},
		"Kubernetes from git": func() (script.Step, error) {
			return script.Prerequisites(environment(func(s *v1alpha1.EnvironmentSpec) { s.Kubernetes.Source = v1alpha1.K8sSourceGit }))
		},
		"old Kubernetes": func() (script.Step, error) {
			return script.Prerequisites(environment(func(s *v1alpha1.EnvironmentSpec) { s.Kubernetes.Release.Version = "v1.30.9" }))
		},
		"Calico without sums": func() (script.Step, error) {
			return script.Prerequisites(environment(func(s *v1alpha1.EnvironmentSpec) { s.Kubernetes.CalicoVersion = "v3.31.5" }))
		},
		"another installer": func() (script.Step, error) {
			return script.Kubernetes(environment(func(s *v1alpha1.EnvironmentSpec) { s.Kubernetes.KubernetesInstaller = "k0s" }), script.Node{})
		},
	} {
		if _, err := render(); !errors.Is(err, script.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKubeadmConfigurationOfTheUser(t *testing.T) {
	t.Parallel()
	env := environment(func(s *v1alpha1.EnvironmentSpec) {
		s.Kubernetes.KubeAdmConfig = "kubeadm.yaml"
		s.Kubernetes.K8sFeatureGates = []string{"A=true", "B=false"}
	})
	const theirs = `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
clusterName: mine
networking: {podSubnet: 10.9.0.0/16}
apiServer: {certSANs: [api.example.com]}
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
`
	m := newMachine(t, ubuntu2404)
	m.must(script.Kubernetes(env, script.Node{Address: "Node.example.com:2222", Config: []byte(theirs)}))
	golden.Equal(t, "golden/init-merged.yaml", []byte(m.read("init.yaml")))

	for name, text := range map[string]string{
		"another version":      "kind: ClusterConfiguration\nkubernetesVersion: v1.30.0\n",
		"another socket":       "kind: InitConfiguration\nnodeRegistration: {criSocket: unix:///run/x}\n",
		"an old API":           "kind: ClusterConfiguration\napiVersion: kubeadm.k8s.io/v1beta3\n",
		"a token":              "kind: InitConfiguration\nbootstrapTokens: [{token: a.b}]\n",
		"a kind that joins":    "kind: JoinConfiguration\n",
		"no YAML":              "{",
		"the same field twice": "kind: ClusterConfiguration\nclusterName: a\nclusterName: b\n",
		"no network":           "kind: ClusterConfiguration\nnetworking: {podSubnet: here}\n",
		"nothing":              "",
	} {
		if _, err := script.Kubernetes(env, script.Node{Config: []byte(text)}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// The real kubeadm reads what the golden files hold.
func TestKubeadmAcceptsConfigurations(t *testing.T) {
	t.Parallel()
	output, err := exec.CommandContext(t.Context(), "../../../../tools/build", "--cached", "kubeadm").Output()
	if err != nil {
		skip.Missing(t, skip.Kubeadm, "tools/build kubeadm has not been run")
	}
	kubeadm := filepath.Join(strings.TrimSpace(string(output)), "kubeadm")
	for _, name := range []string{"init", "init-merged", "join-control-plane", "join-worker"} {
		cmd := exec.CommandContext(t.Context(), kubeadm, "config", "validate", "--config", "testdata/golden/"+name+".yaml")
		if output, err := cmd.CombinedOutput(); err != nil || bytes.Contains(output, []byte("unknown field")) {
			t.Errorf("%s: %v\n%s", name, err, output)
		}
	}
}

func TestPodsAreNotWhereMachinesAre(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ address, asked, want string }{
		{"10.0.0.5", "", "192.168.0.0/16"}, {"192.168.7.5", "", "10.244.0.0/16"}, {"192.168.7.5", "172.20.0.0/16", "172.20.0.0/16"},
	} {
		env := environment(nil)
		env.Spec.Cluster = &v1alpha1.ClusterSpec{PodCIDR: test.asked}
		s, err := script.Init(env, script.InitParameters{Node: script.Node{Name: "n", Address: test.address}})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(s.Body), "POD_SUBNET='"+test.want+"'\n") {
			t.Errorf("pods of %s are not in %s", test.address, test.want)
		}
	}
}

// --- injection -------------------------------------------------------------------

// injections are the lines of the list, and what a line cannot hold.
func injections(tb testing.TB) []string {
	tb.Helper()
	text, err := os.ReadFile("testdata/injections.txt")
	if err != nil {
		tb.Fatal(err)
	}
	list := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	return append(list, "a\nid\n", "'", "\\", "x'\n'y", "\r\nid", "!id", "~", "a\x7fb", "@TOKEN@")
}

// Values that get into files and command lines of other programs are refused unless
// they look like what they are for; else they would be arguments, if not commands.
func TestInjectionsAreRefused(t *testing.T) {
	t.Parallel()
	component := func(render func(v1alpha1.Environment) (script.Step, error), set func(*v1alpha1.EnvironmentSpec, string)) func(string) error {
		return func(text string) error {
			_, err := render(environment(func(s *v1alpha1.EnvironmentSpec) { set(s, text) }))
			return err
		}
	}
	initialize := func(env v1alpha1.Environment) (script.Step, error) { return script.Init(env, first) }
	join := func(set func(*script.JoinParameters, string)) func(string) error {
		return func(text string) error {
			p := controlPlane
			set(&p, text)
			_, err := script.JoinControlPlane(environment(nil), p)
			return err
		}
	}
	fields := map[string]func(string) error{
		"kernel.version": component(script.Kernel, func(s *v1alpha1.EnvironmentSpec, v string) { s.Kernel.Version = v }),
		"driver.branch": component(script.Driver, func(s *v1alpha1.EnvironmentSpec, v string) {
			s.NVIDIADriver.Package = &v1alpha1.DriverPackageSpec{Branch: v}
		}),
		"driver.version": component(script.Driver, func(s *v1alpha1.EnvironmentSpec, v string) {
			s.NVIDIADriver.Package = &v1alpha1.DriverPackageSpec{Version: v}
		}),
		"runfile.url": component(script.Driver, func(s *v1alpha1.EnvironmentSpec, v string) {
			s.NVIDIADriver.Source, s.NVIDIADriver.Runfile = "runfile", &v1alpha1.DriverRunfileSpec{URL: v, Checksum: "sha256:" + key}
		}),
		"runfile.checksum": component(script.Driver, func(s *v1alpha1.EnvironmentSpec, v string) {
			s.NVIDIADriver.Source, s.NVIDIADriver.Runfile = "runfile", &v1alpha1.DriverRunfileSpec{URL: "https://example.com/x", Checksum: v}
		}),
		"runtime.version": component(script.ContainerRuntime, func(s *v1alpha1.EnvironmentSpec, v string) {
			s.ContainerRuntime.Package = &v1alpha1.RuntimePackageSpec{Version: v}
		}),
		"crio.version": component(script.ContainerRuntime, func(s *v1alpha1.EnvironmentSpec, v string) {
			s.ContainerRuntime.Name, s.ContainerRuntime.Package = "crio", &v1alpha1.RuntimePackageSpec{Version: v}
		}),
		"runtime.name": component(script.ContainerRuntime, func(s *v1alpha1.EnvironmentSpec, v string) {
			s.ContainerRuntime.Name = v1alpha1.ContainerRuntimeName(v)
		}),
		"runtime.source": component(script.ContainerRuntime, func(s *v1alpha1.EnvironmentSpec, v string) { s.ContainerRuntime.Source = v1alpha1.RuntimeSource(v) }),
		"toolkit.version": component(script.Toolkit, func(s *v1alpha1.EnvironmentSpec, v string) {
			s.NVIDIAContainerToolkit.Package = &v1alpha1.CTKPackageSpec{Version: v}
		}),
		"toolkit.channel": component(script.Toolkit, func(s *v1alpha1.EnvironmentSpec, v string) {
			s.NVIDIAContainerToolkit.Package = &v1alpha1.CTKPackageSpec{Channel: v}
		}),
		"release.version":   component(script.Prerequisites, func(s *v1alpha1.EnvironmentSpec, v string) { s.Kubernetes.Release.Version = v }),
		"installer":         component(script.Reset, func(s *v1alpha1.EnvironmentSpec, v string) { s.Kubernetes.KubernetesInstaller = v }),
		"arch":              component(script.Prerequisites, func(s *v1alpha1.EnvironmentSpec, v string) { s.Kubernetes.Arch = v }),
		"cniPluginsVersion": component(script.Prerequisites, func(s *v1alpha1.EnvironmentSpec, v string) { s.Kubernetes.CniPluginsVersion = v }),
		"calicoVersion":     component(script.Prerequisites, func(s *v1alpha1.EnvironmentSpec, v string) { s.Kubernetes.CalicoVersion = v }),
		"crictlVersion":     component(script.Prerequisites, func(s *v1alpha1.EnvironmentSpec, v string) { s.Kubernetes.CrictlVersion = v }),
		"k8sEndpointHost":   component(initialize, func(s *v1alpha1.EnvironmentSpec, v string) { s.Kubernetes.K8sEndpointHost = v }),
		"k8sFeatureGates":   component(initialize, func(s *v1alpha1.EnvironmentSpec, v string) { s.Kubernetes.K8sFeatureGates = []string{v} }),
		"microk8s": component(script.Kubeconfig, func(s *v1alpha1.EnvironmentSpec, v string) {
			s.Kubernetes.KubernetesInstaller, s.Kubernetes.Release.Version = "microk8s", v
		}),
		"node.name":       join(func(p *script.JoinParameters, v string) { p.Node.Name = v }),
		"node.address":    join(func(p *script.JoinParameters, v string) { p.Node.Address = v }),
		"endpoint":        join(func(p *script.JoinParameters, v string) { p.Endpoint = v }),
		"token":           join(func(p *script.JoinParameters, v string) { p.Token = redact.Secret(v) }),
		"CA hash":         join(func(p *script.JoinParameters, v string) { p.CACertHash = v }),
		"certificate key": join(func(p *script.JoinParameters, v string) { p.CertificateKey = redact.Secret(v) }),
		"template env": func(v string) error {
			_, err := script.Custom(v1alpha1.CustomTemplate{Name: "t", Env: map[string]string{v: ""}}, nil)
			return err
		},
		"first's endpoint": func(v string) error {
			_, err := script.Init(environment(nil), script.InitParameters{Node: first.Node, Endpoint: v})
			return err
		},
	}
	for field, try := range fields {
		for _, text := range injections(t) {
			if try(text) == nil {
				t.Errorf("%s: %q is accepted", field, text)
			}
		}
	}
}

// Texts that may be anything arrive as they are.
func TestInjectionsArrive(t *testing.T) {
	t.Parallel()
	m := newMachine(t, ubuntu2404)
	env := map[string]string{}
	var content strings.Builder
	content.WriteString("cat \"$0\" >\"$SANDBOX/content\"\n")
	for i, text := range injections(t) {
		name := "VALUE_" + strconv.Itoa(i)
		env[name] = text
		content.WriteString("printf '%s' \"$" + name + "\" >\"$SANDBOX/" + name + "\"\n")
	}
	all := strings.Join(injections(t), "\n")
	content.WriteString("exit 0\n" + all)
	r := m.must(script.Custom(v1alpha1.CustomTemplate{Name: all, Env: env}, []byte(content.String())))
	for name, text := range env {
		if got := m.read(name); got != text {
			t.Errorf("environment is %q, want %q", got, text)
		}
	}
	if got := m.read("content"); got != content.String() {
		t.Errorf("content is %q, want %q", got, content.String())
	}
	if !strings.Contains(r.stderr, "template "+all+" has succeeded") {
		t.Errorf("the name is not in %q", r.stderr)
	}

	// Configuration files are data, in YAML too.
	kind := environment(func(s *v1alpha1.EnvironmentSpec) {
		s.Kubernetes.KubernetesInstaller, s.ContainerRuntime.Name = v1alpha1.InstallerKind, v1alpha1.ContainerRuntimeDocker
	})
	kubeadm := environment(func(s *v1alpha1.EnvironmentSpec) { s.Kubernetes.KubeAdmConfig = "f" })
	var config bytes.Buffer
	m.must(script.ContainerRuntime(kind))
	args := []map[string]string{}
	for _, text := range injections(t) {
		// YAML holds control characters only in quotes that our library does not read.
		args = append(args, map[string]string{"name": "x", "value": strings.ReplaceAll(text, "\x7f", "")})
		config.WriteString("# " + text + "\n")
	}
	m.must(script.Kubernetes(kind, script.Node{Config: config.Bytes()}))
	if got := m.read("kind.yaml"); got != config.String() {
		t.Errorf("the configuration of kind is\n%s", got)
	}
	theirs, err := yaml.Marshal(map[string]any{"kind": "ClusterConfiguration", "scheduler": map[string]any{"extraArgs": args}})
	if err != nil {
		t.Fatal(err)
	}
	m = newMachine(t, ubuntu2404)
	m.must(script.Kubernetes(kubeadm, script.Node{Config: theirs}))
	list, _ := documents(t, m.read("init.yaml"))["ClusterConfiguration"]["scheduler"].(map[string]any)["extraArgs"].([]any)
	for i, text := range injections(t) {
		text = strings.ReplaceAll(text, "\x7f", "")
		if text == "@TOKEN@" {
			text = "" // no secret is there to be had
		}
		if got := list[i].(map[string]any)["value"]; got != text {
			t.Errorf("an argument is %q, want %q", got, text)
		}
	}
}

func TestNULIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := script.Quote("a\x00b"); err == nil {
		t.Error("quoted")
	}
	if _, err := script.Custom(v1alpha1.CustomTemplate{Name: "t"}, []byte("a\x00b")); err == nil {
		t.Error("content with NUL is accepted")
	}
	if _, err := script.Custom(v1alpha1.CustomTemplate{Name: "t", Env: map[string]string{"A": "a\x00b"}}, nil); err == nil {
		t.Error("environment with NUL is accepted")
	}
}

// bash reads the text back.
func FuzzQuote(f *testing.F) {
	for _, text := range injections(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quoted, err := script.Quote(text)
		if strings.Contains(text, "\x00") {
			if err == nil {
				t.Fatal("a NUL byte was quoted")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "bash")
		cmd.Stdin = strings.NewReader("v=" + quoted + "\nprintf '%s' \"$v\"\nprintf '%s' " + quoted + "\n")
		out, err := cmd.Output()
		if err != nil || string(out) != text+text {
			t.Errorf("bash read %q (%v), want %q twice", out, err, text)
		}
	})
}
