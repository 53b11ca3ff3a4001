package v1alpha1

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopy is a copy that shares nothing with e; nil of nil.
func (e *Environment) DeepCopy() *Environment {
	if e == nil {
		return nil
	}
	out := new(Environment)
	e.DeepCopyInto(out)
	return out
}

// DeepCopyInto overwrites out with a copy of e.
func (e *Environment) DeepCopyInto(out *Environment) {
	out.TypeMeta = e.TypeMeta
	e.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec = e.Spec.deepCopy()
	out.Status = e.Status.deepCopy()
}

// DeepCopyObject implements runtime.Object.
func (e *Environment) DeepCopyObject() runtime.Object {
	if e == nil {
		return nil
	}
	return e.DeepCopy()
}

// DeepCopy is a copy that shares nothing with l; nil of nil.
func (l *EnvironmentList) DeepCopy() *EnvironmentList {
	if l == nil {
		return nil
	}
	out := &EnvironmentList{TypeMeta: l.TypeMeta, ListMeta: l.ListMeta, Items: slices.Clone(l.Items)}
	out.RemainingItemCount = clone(l.RemainingItemCount)
	for i := range l.Items {
		l.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}

// DeepCopyObject implements runtime.Object.
func (l *EnvironmentList) DeepCopyObject() runtime.Object {
	if l == nil {
		return nil
	}
	return l.DeepCopy()
}

// Each deepCopy below starts from a plain copy, so that only what is shared by it
// is named. A test that fills every field finds what was forgotten.

func (s EnvironmentSpec) deepCopy() EnvironmentSpec {
	if c := clone(s.SSHConfig); c != nil {
		c.Bastion = clone(c.Bastion)
		s.SSHConfig = c
	}
	i := &s.Instance
	i.Image = i.Image.deepCopy()
	i.IngressIpRanges = slices.Clone(i.IngressIpRanges)
	i.RootVolumeSizeGB = clone(i.RootVolumeSizeGB)
	if c := clone(s.Cluster); c != nil {
		*c = c.deepCopy()
		s.Cluster = c
	}
	d := &s.NVIDIADriver
	d.Package, d.Runfile, d.Git = clone(d.Package), clone(d.Runfile), clone(d.Git)
	r := &s.ContainerRuntime
	r.Package, r.Git, r.Latest = clone(r.Package), clone(r.Git), clone(r.Latest)
	t := &s.NVIDIAContainerToolkit
	t.Package, t.Git, t.Latest = clone(t.Package), clone(t.Git), clone(t.Latest)
	k := &s.Kubernetes
	k.Release, k.Git, k.Latest = clone(k.Release), clone(k.Git), clone(k.Latest)
	k.KubernetesFeatures = slices.Clone(k.KubernetesFeatures)
	k.K8sFeatureGates = slices.Clone(k.K8sFeatureGates)
	s.LoadBalancer = clone(s.LoadBalancer)
	s.CustomTemplates = slices.Clone(s.CustomTemplates)
	for i := range s.CustomTemplates {
		s.CustomTemplates[i].Env = maps.Clone(s.CustomTemplates[i].Env)
	}
	return s
}

func (c ClusterSpec) deepCopy() ClusterSpec {
	p := &c.ControlPlane
	p.Image = cloneImage(p.Image)
	p.RootVolumeSizeGB = clone(p.RootVolumeSizeGB)
	p.Labels = maps.Clone(p.Labels)
	p.Taints = slices.Clone(p.Taints)
	if w := clone(c.Workers); w != nil {
		w.Image = cloneImage(w.Image)
		w.RootVolumeSizeGB = clone(w.RootVolumeSizeGB)
		w.Labels = maps.Clone(w.Labels)
		w.Taints = slices.Clone(w.Taints)
		c.Workers = w
	}
	c.HighAvailability = clone(c.HighAvailability)
	return c
}

func (i Image) deepCopy() Image {
	i.CreationDate, i.Description, i.ImageId = clone(i.CreationDate), clone(i.Description), clone(i.ImageId)
	i.ImageLocation, i.Name, i.OwnerId = clone(i.ImageLocation), clone(i.Name), clone(i.OwnerId)
	return i
}

func (s EnvironmentStatus) deepCopy() EnvironmentStatus {
	s.Properties = slices.Clone(s.Properties)
	s.Conditions = slices.Clone(s.Conditions) // its times are values
	if c := clone(s.Cluster); c != nil {
		c.Nodes = slices.Clone(c.Nodes)
		s.Cluster = c
	}
	if c := clone(s.Components); c != nil {
		c.Driver, c.Runtime = clone(c.Driver), clone(c.Runtime)
		c.Toolkit, c.Kubernetes = clone(c.Toolkit), clone(c.Kubernetes)
		s.Components = c
	}
	return s
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	out := *p
	return &out
}

func cloneImage(p *Image) *Image {
	if p == nil {
		return nil
	}
	out := p.deepCopy()
	return &out
}
