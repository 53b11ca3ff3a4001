package provisioner

import (
	"bytes"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/golden"
	"github.com/kubeopera/platform/shared/logger"
	"github.com/kubeopera/platform/shared/provisioner/internal/script"
)

// singleNode is an environment of one machine.
func singleNode(change func(*v1alpha1.EnvironmentSpec)) *v1alpha1.Environment {
	env := &v1alpha1.Environment{Spec: v1alpha1.EnvironmentSpec{
		Provider: v1alpha1.ProviderSSH,
		Auth:     v1alpha1.Auth{Username: "ubuntu", PrivateKey: "key"},
		Instance: v1alpha1.Instance{HostUrl: "192.0.2.10"},
	}}
	env.Name = "one"
	change(&env.Spec)
	return env
}

func order(r resolution) string {
	var names []string
	for _, t := range r.tasks {
		name := string(t.component)
		if t.template != nil {
			name = t.template.Name
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func TestResolve(t *testing.T) {
	t.Parallel()
	everything := func(s *v1alpha1.EnvironmentSpec) {
		s.Kubernetes.Install, s.NVIDIAContainerToolkit.Install, s.ContainerRuntime.Install, s.NVIDIADriver.Install = true, true, true, true
		s.Kernel.Version = "6.8.0-50-generic"
		for _, p := range []v1alpha1.TemplatePhase{"", v1alpha1.TemplatePhasePostKubernetes, v1alpha1.TemplatePhasePostToolkit, v1alpha1.TemplatePhasePostRuntime, v1alpha1.TemplatePhasePreInstall} {
			for _, n := range []string{"-b", "-a"} {
				name := strings.TrimSuffix("t-"+string(p), "-") + n
				s.CustomTemplates = append(s.CustomTemplates, v1alpha1.CustomTemplate{Name: name, Phase: p, Inline: "true"})
			}
		}
	}
	for _, test := range []struct {
		name     string
		change   func(*v1alpha1.EnvironmentSpec)
		want     string
		warnings int
	}{
		{"nothing", func(*v1alpha1.EnvironmentSpec) {}, "", 0},
		{"only a kernel", func(s *v1alpha1.EnvironmentSpec) { s.Kernel.Version = "6.8.0-50-generic" }, "kernel", 0},
		{"kubernetes brings a runtime", func(s *v1alpha1.EnvironmentSpec) { s.Kubernetes.Install = true }, "runtime kubernetes", 1},
		{"a runtime that is there is not installed", func(s *v1alpha1.EnvironmentSpec) {
			s.Kubernetes.Install, s.ContainerRuntime.Name = true, v1alpha1.ContainerRuntimeCrio
		}, "kubernetes", 0},
		{"the toolkit brings a runtime and wants a driver", func(s *v1alpha1.EnvironmentSpec) { s.NVIDIAContainerToolkit.Install = true }, "runtime toolkit", 2},
		{"the toolkit with its driver", func(s *v1alpha1.EnvironmentSpec) {
			s.NVIDIAContainerToolkit.Install, s.NVIDIADriver.Install = true, true
		}, "driver runtime toolkit", 1},
		{"kind", func(s *v1alpha1.EnvironmentSpec) {
			s.Kubernetes.Install, s.Kubernetes.KubernetesInstaller = true, v1alpha1.InstallerKind
		}, "runtime kubernetes", 1},
		{"everything, templates in their order within a phase", everything, "t-pre-install-b t-pre-install-a kernel driver runtime t-post-runtime-b t-post-runtime-a " +
			"toolkit t-post-toolkit-b t-post-toolkit-a kubernetes t-post-kubernetes-b t-post-kubernetes-a t-b t-a", 0},
		{"microk8s replaces runtime and toolkit, and nothing else", func(s *v1alpha1.EnvironmentSpec) {
			everything(s)
			s.Kubernetes.KubernetesInstaller = v1alpha1.InstallerMicroK8s
		}, "t-pre-install-b t-pre-install-a kernel driver t-post-runtime-b t-post-runtime-a " +
			"t-post-toolkit-b t-post-toolkit-a kubernetes t-post-kubernetes-b t-post-kubernetes-a t-b t-a", 2},
		{"templates follow absent components", func(s *v1alpha1.EnvironmentSpec) {
			s.Kernel.Version = "6.8.0-50-generic"
			s.CustomTemplates = []v1alpha1.CustomTemplate{{Name: "t", Phase: v1alpha1.TemplatePhasePostToolkit, Inline: "true"}}
		}, "kernel t", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			env := singleNode(test.change)
			before := env.DeepCopy()
			r, err := resolve(env)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, order(r)); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
			if len(r.warnings) != test.warnings {
				t.Errorf("%d warnings, want %d: %q", len(r.warnings), test.warnings, r.warnings)
			}
			if diff := cmp.Diff(before, env); diff != "" {
				t.Errorf("the caller's environment changed (-before +after):\n%s", diff)
			}
			d := NewDependencies(env)
			for range 2 { // twice is as once
				functions := d.Resolve()
				if len(functions) != len(r.tasks) || len(d.Dependencies) != len(r.tasks) {
					t.Errorf("%d functions, %d dependencies, want %d", len(functions), len(d.Dependencies), len(r.tasks))
				}
			}
			for i, function := range d.Dependencies {
				var text bytes.Buffer
				if err := function(&text, *env); err != nil || !strings.HasPrefix(text.String(), Shebang) {
					t.Errorf("function %d: %v, %.40q", i, err, text.String())
				}
			}
		})
	}
}

func TestResolveRefuses(t *testing.T) {
	t.Parallel()
	for _, env := range []*v1alpha1.Environment{
		nil,
		singleNode(func(s *v1alpha1.EnvironmentSpec) { s.Provider = "vsphere" }),
		singleNode(func(s *v1alpha1.EnvironmentSpec) {
			s.Kubernetes.Install, s.Kubernetes.KubernetesInstaller = true, v1alpha1.InstallerKind
			s.ContainerRuntime.Install, s.ContainerRuntime.Name = true, v1alpha1.ContainerRuntimeCrio
		}),
	} {
		functions := NewDependencies(env).Resolve()
		if len(functions) != 1 {
			t.Fatalf("%d functions, want one that fails", len(functions))
		}
		if err := functions[0](new(bytes.Buffer), v1alpha1.Environment{}); err == nil {
			t.Error("no error")
		}
	}
}

func TestSetBaseDir(t *testing.T) {
	t.Parallel()
	env := singleNode(func(s *v1alpha1.EnvironmentSpec) {
		s.CustomTemplates = []v1alpha1.CustomTemplate{{Name: "t", File: "template.sh"}}
	})
	d := NewDependencies(env)
	d.SetBaseDir("testdata")
	var text bytes.Buffer
	if err := d.Resolve()[0](&text, *env); err != nil || !strings.Contains(text.String(), "from testdata") {
		t.Errorf("%v, %s", err, text.String())
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]*v1alpha1.Environment{
		"single": singleNode(func(s *v1alpha1.EnvironmentSpec) {
			s.Kernel.Version, s.NVIDIADriver.Install, s.NVIDIAContainerToolkit.Install, s.Kubernetes.Install = "6.8.0-50-generic", true, true, true
		}),
		"cluster": testEnvironment(3, 9),
		"nothing": singleNode(func(*v1alpha1.EnvironmentSpec) {}),
	} {
		if env.Spec.Cluster != nil {
			env.Spec.CustomTemplates = []v1alpha1.CustomTemplate{
				{Name: "before", Phase: v1alpha1.TemplatePhasePreInstall, Inline: "true"},
				{Name: "after", Inline: "true"},
			}
			env.Spec.Cluster.HighAvailability = &v1alpha1.HAConfig{Enabled: true}
		}
		plan, err := NewPlan(t.Context(), env, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		for i := range plan.Stages { // what it is of changes with every script
			for j := range plan.Stages[i].Scripts {
				if s := &plan.Stages[i].Scripts[j]; s.Digest != "" {
					s.Digest = strings.Repeat("0", 64)
				}
			}
		}
		var text bytes.Buffer
		PrintPlan(&text, plan)
		golden.Equal(t, "plan-"+name+".txt", text.Bytes())

		var log bytes.Buffer
		if err := Dryrun(&logger.FunLogger{Out: &log}, *env); err != nil {
			t.Errorf("Dryrun of %s: %v", name, err)
		}
		if !strings.Contains(log.String(), "the environment is valid") {
			t.Errorf("log of %s:\n%s", name, log.String())
		}
	}
	env := testEnvironment(1, 0)
	plan, err := NewPlan(t.Context(), env, testNodes(1, 1), "")
	if err != nil || plan.Stages[0].Nodes[1] != "w1" {
		t.Errorf("plan for nodes: %v, %v", plan, err)
	}
	if _, err := NewPlan(t.Context(), env, testNodes(0, 1), ""); !errors.Is(err, ErrNoControlPlane) {
		t.Errorf("plan without a control plane: %v", err)
	}
	if err := Dryrun(&logger.FunLogger{Out: new(bytes.Buffer)}, *singleNode(func(s *v1alpha1.EnvironmentSpec) { s.Provider = "no" })); !errors.Is(err, v1alpha1.ErrInvalid) {
		t.Errorf("Dryrun of a wrong environment: %v", err)
	}
}

// TestInjections tries hostile texts in every string of an environment: each is
// refused, or quoted wherever it stands in a script.
func TestInjections(t *testing.T) {
	t.Parallel()
	hostile := []string{
		"$(id)", "`id`", ";id", "|id", "&& id", "x' ; id ; '", `x" ; id ; "`, "${IFS}id", "$'\\x0aid'", "../../etc/passwd", "-oProxyCommand=id",
		"--kubeconfig=/etc/shadow", "{{ .Spec.Auth }}", "{{`{{`}} template", "%s%s%n\tb", "a\nid\n", "é☸",
	}
	bases := []*v1alpha1.Environment{testEnvironment(3, 2), singleNode(func(*v1alpha1.EnvironmentSpec) {})}
	for _, base := range bases {
		s := &base.Spec
		s.Kernel.Version, s.NVIDIADriver.Install, s.NVIDIAContainerToolkit.Install, s.Kubernetes.Install, s.ContainerRuntime.Install = "6.8.0-50-generic", true, true, true, true
		s.CustomTemplates = []v1alpha1.CustomTemplate{{Name: "t", Inline: "true", Env: map[string]string{"A": "b"}}}
		s.Kubernetes.K8sFeatureGates = []string{"A=true"}
		if s.Cluster != nil {
			s.Cluster.ControlPlane.Labels = map[string]string{"a": "b"}
			s.Cluster.Workers.Taints = []v1alpha1.Taint{{Key: "k", Value: "v", Effect: v1alpha1.TaintEffectNoExecute}}
		}
		base.SetDefaults()
		if err := base.Validate(); err != nil {
			t.Fatal(err)
		}
		passed, refused := 0, 0
		for _, text := range hostile {
			for i := 0; ; i++ {
				env := base.DeepCopy()
				n := i
				if !replaceString(reflect.ValueOf(&env.Spec).Elem(), &n, text) {
					break
				}
				bodies, err := everyBody(t, env)
				if err != nil {
					refused++
					continue
				}
				passed++
				for _, body := range bodies {
					if values, functions := splitBody(body); strings.Contains(values, text) || command.MatchString(values) || strings.Contains(functions, text) {
						t.Errorf("string %d of the environment: %q stands in a script without quotes", i, text)
					}
				}
			}
		}
		if refused == 0 || passed == 0 {
			t.Errorf("%d refused, %d passed: the test proves nothing", refused, passed)
		}
	}
}

var (
	quotedText = regexp.MustCompile(`'[^']*'`)
	command    = regexp.MustCompile(`\bid\b`)
)

// splitBody is the part of a script that has an environment's values, without what
// is in quotes, and the part that is the same in all scripts.
func splitBody(body string) (values, functions string) {
	values, functions, _ = strings.Cut(body, "\n# shellcheck shell=bash\n")
	values = strings.ReplaceAll(values, `'\''`, "") // a quote within quotes
	return quotedText.ReplaceAllString(values, ""), functions
}

// replaceString sets the n-th string below v, counting down, and says whether
// there was one.
func replaceString(v reflect.Value, n *int, text string) bool {
	switch v.Kind() {
	case reflect.String:
		if *n == 0 {
			v.SetString(text)
			return true
		}
		*n--
	case reflect.Pointer:
		return !v.IsNil() && replaceString(v.Elem(), n, text)
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() && replaceString(field, n, text) {
				return true
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if replaceString(v.Index(i), n, text) {
				return true
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			value := v.MapIndex(key)
			for _, replace := range []bool{true, false} { // the key, the value
				if *n > 0 {
					*n--
					continue
				}
				v.SetMapIndex(key, reflect.Value{})
				if replace {
					v.SetMapIndex(reflect.ValueOf(text), value)
				} else {
					v.SetMapIndex(key, reflect.ValueOf(text))
				}
				return true
			}
		}
	default: // neither a string nor with any in it
	}
	return false
}

// everyBody is all scripts that an environment leads to.
func everyBody(t *testing.T, env *v1alpha1.Environment) ([]string, error) {
	t.Helper()
	r, err := resolve(env)
	if err != nil {
		return nil, err
	}
	source := newTemplateSource("testdata")
	var steps []script.Step
	add := func(s script.Step, e error) {
		steps = append(steps, s)
		err = errors.Join(err, e)
	}
	if env.Spec.Cluster != nil {
		scripts, e := renderCluster(t.Context(), r.env, r.tasks, source)
		err = e
		for _, j := range append(append(scripts.base, scripts.postKubernetes...), scripts.postInstall...) {
			steps = append(steps, j.step)
		}
		node := script.Node{Name: "n", Address: "10.0.0.1"}
		add(script.Init(r.env, script.InitParameters{Node: node, Endpoint: r.env.Spec.Cluster.ControlPlaneEndpoint}))
		add(script.JoinWorker(r.env, script.JoinParameters{
			Node: node, Endpoint: "10.0.0.1:6443", Token: "abcdef.0123456789abcdef", CACertHash: "sha256:" + strings.Repeat("0", 64),
		}))
		add(script.Reset(r.env))
	} else {
		jobs, e := renderAll(t.Context(), r.env, r.tasks, script.Node{Address: r.env.Spec.HostUrl}, source)
		err = e
		for _, j := range jobs {
			steps = append(steps, j.step)
		}
	}
	var bodies []string
	for _, s := range steps {
		bodies = append(bodies, string(s.Body))
	}
	return bodies, err
}
