package provisioner

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/provisioner/internal/script"
)

// ProvisionFunc appends one script to tpl, for env. The scripts of an environment
// are executed in the order in which Resolve returns them.
type ProvisionFunc func(tpl *bytes.Buffer, env v1alpha1.Environment) error

// DependencyConfigurator defines methods for configuring dependencies. It is
// DependencyResolver's; no other package can implement it.
type DependencyConfigurator interface {
	// Resolve returns the functions in the order in which their scripts run.
	Resolve() []ProvisionFunc

	resolve() (resolution, error)
}

var _ DependencyConfigurator = (*DependencyResolver)(nil)

// DependencyResolver puts what an environment asks for, and what that implies,
// into the order of its dependencies: pre-install templates, kernel, driver,
// container runtime, post-runtime templates, container toolkit, post-toolkit
// templates, Kubernetes, post-kubernetes templates, post-install templates.
//
// Kubernetes by kubeadm or kind and the container toolkit imply a container
// runtime, unless the environment names one that is there already (a name, and
// install left out). MicroK8s brings its own: runtime and toolkit are left out
// then, and everything else stays.
type DependencyResolver struct {
	// Dependencies is what Resolve last returned.
	Dependencies []ProvisionFunc

	env     *v1alpha1.Environment
	baseDir string
}

// NewDependencies creates a new DependencyResolver for the given environment.
// The environment is read by Resolve and never changed.
func NewDependencies(env *v1alpha1.Environment) *DependencyResolver {
	return &DependencyResolver{env: env}
}

// SetBaseDir sets the base directory for resolving relative file paths in custom
// templates. No path leads out of it, by symbolic links neither. Without one it is
// the working directory.
func (d *DependencyResolver) SetBaseDir(dir string) { d.baseDir = dir }

// Resolve returns the dependency list in the correct order. It may be called
// again, with the same result. An environment that is refused gives one function,
// which returns the reason.
func (d *DependencyResolver) Resolve() []ProvisionFunc {
	d.Dependencies = d.functions()
	return d.Dependencies
}

// functionTimeout bounds the download of a template by a ProvisionFunc, which has
// no context.
const functionTimeout = 2 * time.Minute

func (d *DependencyResolver) functions() []ProvisionFunc {
	r, err := d.resolve()
	if err != nil {
		return []ProvisionFunc{func(*bytes.Buffer, v1alpha1.Environment) error { return err }}
	}
	source := newTemplateSource(d.baseDir)
	functions := make([]ProvisionFunc, 0, len(r.tasks))
	for _, t := range r.tasks {
		functions = append(functions, func(tpl *bytes.Buffer, env v1alpha1.Environment) error {
			ctx, cancel := context.WithTimeout(context.Background(), functionTimeout)
			defer cancel()
			own, err := resolve(&env)
			if err != nil {
				return err
			}
			j, err := t.render(ctx, own.env, script.Node{}, source)
			if err != nil {
				return err
			}
			tpl.Write(j.step.Body)
			return nil
		})
	}
	return functions
}

func (d *DependencyResolver) resolve() (resolution, error) { return resolve(d.env) }

// component is a part of an environment that has a script of its own.
type component string

const (
	kernel     component = "kernel"
	driver     component = "driver"
	runtime    component = "runtime"
	toolkit    component = "toolkit"
	kubernetes component = "kubernetes"
)

// task is one script of an environment: a component or a custom template.
type task struct {
	component component
	template  *v1alpha1.CustomTemplate
}

// resolution is an environment put into order.
type resolution struct {
	env      v1alpha1.Environment // a copy, with defaults and what is implied
	tasks    []task
	warnings []string
}

// resolve checks env and puts its parts into order. It is pure: it reads no file
// and asks no network.
func resolve(env *v1alpha1.Environment) (resolution, error) {
	if env == nil {
		return resolution{}, errors.New("no environment given")
	}
	r := resolution{env: *env.DeepCopy()}
	r.replaceByMicroK8s()
	hadRuntime := r.env.Spec.ContainerRuntime.Install
	r.env.SetDefaults()
	if err := r.env.Validate(); err != nil {
		return resolution{}, err
	}
	s := &r.env.Spec
	if s.ContainerRuntime.Install && !hadRuntime {
		r.warn("spec.containerRuntime: %s is installed, since what else is installed needs a container runtime", s.ContainerRuntime.Name)
	}
	if s.NVIDIAContainerToolkit.Install && !s.NVIDIADriver.Install {
		r.warn("spec.nvidiaContainerToolkit: works only where there is a driver already, since spec.nvidiaDriver installs none")
	}
	for _, w := range r.env.Warnings() {
		r.warn("%v", w)
	}
	return r, r.order()
}

func (r *resolution) warn(format string, a ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, a...))
}

// replaceByMicroK8s takes out what MicroK8s brings itself.
func (r *resolution) replaceByMicroK8s() {
	s := &r.env.Spec
	if !s.Kubernetes.Install || s.Kubernetes.KubernetesInstaller != v1alpha1.InstallerMicroK8s {
		return
	}
	if s.ContainerRuntime.Install {
		r.warn("spec.containerRuntime: left out, microk8s brings its own")
		s.ContainerRuntime = v1alpha1.ContainerRuntime{}
	}
	if s.NVIDIAContainerToolkit.Install {
		r.warn("spec.nvidiaContainerToolkit: left out, it does not know the container runtime of microk8s")
		s.NVIDIAContainerToolkit = v1alpha1.NVIDIAContainerToolkit{}
	}
}

// order sorts the tasks. Each phase of templates is a place in the graph that is
// there whether it has templates or not, and so is each component: what follows an
// absent one still follows what came before it.
func (r *resolution) order() error {
	s := &r.env.Spec
	var g graph
	tasks := make(map[string]task)
	place := func(c component, wanted bool, after ...string) {
		g.add(string(c), after...)
		if wanted {
			tasks[string(c)] = task{component: c}
		}
	}
	phase := func(p v1alpha1.TemplatePhase, after ...string) {
		for i := range s.CustomTemplates {
			t := &s.CustomTemplates[i]
			if t.Phase != p {
				continue
			}
			name := "template " + t.Name
			g.add(name, after...)
			tasks[name] = task{template: t}
			g.add(string(p), name)
		}
		g.add(string(p), after...)
	}
	phase(v1alpha1.TemplatePhasePreInstall)
	place(kernel, s.Kernel.Version != "", string(v1alpha1.TemplatePhasePreInstall))
	place(driver, s.NVIDIADriver.Install, string(kernel))
	place(runtime, s.ContainerRuntime.Install, string(kernel), string(driver))
	phase(v1alpha1.TemplatePhasePostRuntime, string(runtime))
	place(toolkit, s.NVIDIAContainerToolkit.Install, string(driver), string(runtime), string(v1alpha1.TemplatePhasePostRuntime))
	phase(v1alpha1.TemplatePhasePostToolkit, string(toolkit))
	place(kubernetes, s.Kubernetes.Install, string(runtime), string(toolkit), string(v1alpha1.TemplatePhasePostToolkit))
	phase(v1alpha1.TemplatePhasePostKubernetes, string(kubernetes))
	phase(v1alpha1.TemplatePhasePostInstall, string(v1alpha1.TemplatePhasePostKubernetes))
	names, err := g.order()
	if err != nil {
		return err
	}
	for _, name := range names {
		if t, ok := tasks[name]; ok {
			r.tasks = append(r.tasks, t)
		}
	}
	return nil
}

// in says whether the task is a template of the phase.
func (t task) in(p v1alpha1.TemplatePhase) bool { return t.template != nil && t.template.Phase == p }

// render makes the task's script. Only templates use source.
func (t task) render(ctx context.Context, env v1alpha1.Environment, node script.Node, source *templateSource) (job, error) {
	var j job
	var err error
	switch t.component {
	case kernel:
		j.step, err = script.Kernel(env)
	case driver:
		j.step, err = script.Driver(env)
	case runtime:
		j.step, err = script.ContainerRuntime(env)
	case toolkit:
		j.step, err = script.Toolkit(env)
	case kubernetes:
		if node.Config, err = installerConfig(env.Spec.Kubernetes); err == nil {
			j.step, err = script.Kubernetes(env, node)
		}
	default:
		var content []byte
		if content, err = source.load(ctx, *t.template); err == nil {
			j.step, err = script.Custom(*t.template, content)
			j.mayFail = t.template.ContinueOnError
		}
	}
	return j, err
}

// installerConfig is the file that the installer is configured by, if there is one.
func installerConfig(k v1alpha1.Kubernetes) ([]byte, error) {
	path := cmp.Or(k.KubeAdmConfig, k.KindConfig) // of another installer than its own each is refused
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(expandHome(path))
	if err != nil {
		return nil, fmt.Errorf("configuration of %s: %w", k.KubernetesInstaller, err)
	}
	defer f.Close()
	return readAtMost(f)
}
