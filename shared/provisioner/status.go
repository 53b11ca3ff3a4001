package provisioner

import (
	"context"
	"errors"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/provisioner/internal/script"
)

// BuildComponentsStatus creates a ComponentsStatus from the environment spec. This
// captures what was requested for provisioning (source, version, git refs) so the
// CLI can display provenance information; what an environment leaves out has its
// default. It is nil if nothing is installed. What is on a machine is Run's to say.
func BuildComponentsStatus(env v1alpha1.Environment) *v1alpha1.ComponentsStatus {
	copied := env.DeepCopy()
	copied.SetDefaults()
	s := &copied.Spec
	var out v1alpha1.ComponentsStatus
	// Of the blocks of a component only that of its source is set.
	if d := s.NVIDIADriver; d.Install {
		p := &v1alpha1.ComponentProvenance{Source: string(d.Source)}
		switch {
		case d.Package != nil:
			p.Branch, p.Version = d.Package.Branch, d.Package.Version
		case d.Runfile != nil:
			p.Repo = d.Runfile.URL
		case d.Git != nil:
			p.Repo, p.Ref = d.Git.Repo, d.Git.Ref
		}
		out.Driver = p
	}
	if r := s.ContainerRuntime; r.Install {
		p := &v1alpha1.ComponentProvenance{Source: string(r.Source)}
		switch {
		case r.Package != nil:
			p.Version = r.Package.Version
		case r.Git != nil:
			p.Repo, p.Ref = r.Git.Repo, r.Git.Ref
		case r.Latest != nil:
			p.Repo, p.Branch = r.Latest.Repo, r.Latest.Track
		}
		out.Runtime = p
	}
	if t := s.NVIDIAContainerToolkit; t.Install {
		p := &v1alpha1.ComponentProvenance{Source: string(t.Source)}
		switch {
		case t.Package != nil:
			p.Version, p.Branch = t.Package.Version, t.Package.Channel
		case t.Git != nil:
			p.Repo, p.Ref = t.Git.Repo, t.Git.Ref
		case t.Latest != nil:
			p.Repo, p.Branch = t.Latest.Repo, t.Latest.Track
		}
		out.Toolkit = p
	}
	if k := s.Kubernetes; k.Install {
		p := &v1alpha1.ComponentProvenance{Source: string(k.Source)}
		switch {
		case k.Release != nil:
			p.Version = k.Release.Version
		case k.Git != nil:
			p.Repo, p.Ref = k.Git.Repo, k.Git.Ref
		case k.Latest != nil:
			p.Repo, p.Branch = k.Latest.Repo, k.Latest.Track
		}
		out.Kubernetes = p
	}
	if out == (v1alpha1.ComponentsStatus{}) {
		return nil
	}
	return &out
}

// observation is what script.Observe prints: versions, empty for what is not there.
type observation struct {
	Driver     string `json:"driver"`
	Containerd string `json:"containerd"`
	Docker     string `json:"docker"`
	Crio       string `json:"crio"`
	Toolkit    string `json:"toolkit"`
	Kubelet    string `json:"kubelet"`
	Kind       string `json:"kind"`
	MicroK8s   string `json:"microk8s"`
}

// observe is what env asked for, with the versions that are on the machine.
func (m *machine) observe(ctx context.Context, env *v1alpha1.Environment) (*v1alpha1.ComponentsStatus, error) {
	status := BuildComponentsStatus(*env)
	if status == nil {
		return nil, nil
	}
	step, err := script.Observe(*env)
	if err != nil {
		return nil, err
	}
	data, err := m.query(ctx, step)
	if err != nil {
		return nil, err
	}
	var found observation
	if err := decode("observe components", data, &found); err != nil {
		return nil, err
	}
	return found.over(status, env), nil
}

// over replaces the versions in status by those that were found. A component that
// is not there, such as a driver on a machine without a GPU, is taken out.
func (o observation) over(status *v1alpha1.ComponentsStatus, env *v1alpha1.Environment) *v1alpha1.ComponentsStatus {
	runtimes := map[v1alpha1.ContainerRuntimeName]string{
		v1alpha1.ContainerRuntimeContainerd: o.Containerd,
		v1alpha1.ContainerRuntimeDocker:     o.Docker,
		v1alpha1.ContainerRuntimeCrio:       o.Crio,
	}
	set := func(p **v1alpha1.ComponentProvenance, version string) {
		switch {
		case *p == nil:
		case version == "":
			*p = nil
		default:
			(*p).Version = version
		}
	}
	set(&status.Driver, o.Driver)
	set(&status.Runtime, runtimes[env.Spec.ContainerRuntime.Name])
	set(&status.Toolkit, o.Toolkit)
	switch env.Spec.Kubernetes.KubernetesInstaller {
	case v1alpha1.InstallerKind:
		if o.Kind == "" { // its version is not that of Kubernetes
			status.Kubernetes = nil
		}
	case v1alpha1.InstallerMicroK8s:
		set(&status.Kubernetes, o.MicroK8s)
	default:
		set(&status.Kubernetes, o.Kubelet)
	}
	if *status == (v1alpha1.ComponentsStatus{}) {
		return nil
	}
	return status
}

// partial is what there is after a failure, together with the failure.
func (m *machine) partial(ctx context.Context, env *v1alpha1.Environment, failure error) (*v1alpha1.ComponentsStatus, error) {
	if ctx.Err() != nil {
		return nil, failure
	}
	status, err := m.observe(ctx, env)
	if err != nil {
		return nil, errors.Join(failure, err)
	}
	return status, failure
}
