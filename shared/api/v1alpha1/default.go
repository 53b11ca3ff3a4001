package v1alpha1

import "strings"

// Versions that are taken when none is asked for.
const (
	// DefaultKubernetesVersion is the newest patch release of 1.36, the newest minor
	// version that is tested here on machines; see modules/compute.
	DefaultKubernetesVersion = "v1.36.3"
	// DefaultKindKubernetesVersion is the node image that kind v0.30.0 was released
	// with: https://github.com/kubernetes-sigs/kind/releases/tag/v0.30.0
	DefaultKindKubernetesVersion = "v1.34.0"
	// DefaultCalicoVersion is that of modules/compute/bootstrap/versions.env, whose
	// manifests are known by their sums.
	DefaultCalicoVersion = "v3.32.1"
	// DefaultDriverBranch is holodeck's, too: the long term support branch that NVIDIA
	// maintains until June 2028.
	// https://docs.nvidia.com/datacenter/tesla/drivers/620/supported-drivers-and-cuda-toolkit-versions.html
	DefaultDriverBranch = "580"
)

// DefaultTemplateSeconds is the time limit of a custom template.
const DefaultTemplateSeconds = 600

// SetDefaults fills in what is left out, and brings the deprecated fields into the
// places of those that replaced them, so that only these need be read. It changes
// nothing else, and nothing when called again. A cluster has Kubernetes whatever
// kubernetes.install says; Kubernetes and the container toolkit bring containerd
// (kind: docker) where no runtime is installed or named.
func (e *Environment) SetDefaults() {
	e.APIVersion = or(e.APIVersion, APIVersion)
	e.Kind = or(e.Kind, Kind)
	s := &e.Spec
	if s.Username == "" {
		s.Username = defaultUser(s)
	}
	if k := s.Cluster; k != nil {
		s.Kubernetes.Install = true
		if k.ControlPlane.Count == 0 {
			k.ControlPlane.Count = 1
		}
		if h := k.HighAvailability; h != nil && h.Enabled {
			h.EtcdTopology = or(h.EtcdTopology, EtcdTopologyStacked)
		}
	}
	if s.Kubernetes.Install {
		s.Kubernetes.setDefaults()
	}
	s.setRuntimeDefaults()
	if s.NVIDIADriver.Install {
		s.NVIDIADriver.setDefaults()
	}
	if s.NVIDIAContainerToolkit.Install {
		s.NVIDIAContainerToolkit.setDefaults()
	}
	for i := range s.CustomTemplates {
		t := &s.CustomTemplates[i]
		t.Phase = or(t.Phase, TemplatePhasePostInstall)
		t.Checksum = strings.ToLower(t.Checksum)
		if t.Timeout == 0 {
			t.Timeout = DefaultTemplateSeconds
		}
	}
}

// defaultUser is the login name that the makers of the images have; empty where
// nothing is known of the machine.
func defaultUser(s *EnvironmentSpec) string {
	os := s.OS
	if s.Cluster != nil {
		os = s.Cluster.ControlPlane.OS
	}
	switch {
	case strings.HasPrefix(os, "ubuntu-"), os == "" && s.Provider == ProviderAWS:
		return "ubuntu"
	case os == OSRocky9:
		return "rocky"
	case os == OSAmazonLinux2023:
		return "ec2-user"
	}
	return ""
}

func (k *Kubernetes) setDefaults() {
	k.KubernetesInstaller = or(k.KubernetesInstaller, InstallerKubeadm)
	k.Source = or(k.Source, K8sSourceRelease)
	if k.Source == K8sSourceRelease {
		if k.Release == nil {
			k.Release = new(K8sReleaseSpec)
		}
		version := DefaultKubernetesVersion
		if k.KubernetesInstaller == InstallerKind {
			version = DefaultKindKubernetesVersion
		}
		k.KubernetesVersion = withV(k.KubernetesVersion)
		k.Release.Version = or(withV(k.Release.Version), or(k.KubernetesVersion, version))
	}
	if k.KubernetesInstaller == InstallerKubeadm {
		k.CalicoVersion = or(withV(k.CalicoVersion), DefaultCalicoVersion)
	}
}

func (s *EnvironmentSpec) setRuntimeDefaults() {
	r := &s.ContainerRuntime
	installer := ""
	if s.Kubernetes.Install {
		installer = s.Kubernetes.KubernetesInstaller
	}
	wanted := s.Kubernetes.Install || s.NVIDIAContainerToolkit.Install
	if wanted && r.Name == ContainerRuntimeNone && installer != InstallerMicroK8s {
		r.Install = true
	}
	if !r.Install {
		return
	}
	name := ContainerRuntimeContainerd
	if installer == InstallerKind {
		name = ContainerRuntimeDocker
	}
	r.Name = or(r.Name, name)
	r.Source = or(r.Source, RuntimeSourcePackage)
	if r.Source == RuntimeSourcePackage {
		if r.Package == nil {
			r.Package = new(RuntimePackageSpec)
		}
		r.Package.Version = or(r.Package.Version, r.Version)
	}
}

func (d *NVIDIADriver) setDefaults() {
	d.Source = or(d.Source, DriverSourcePackage)
	switch {
	case d.Source == DriverSourcePackage:
		if d.Package == nil {
			d.Package = new(DriverPackageSpec)
		}
		d.Package.Branch = or(d.Package.Branch, d.Branch)
		d.Package.Version = or(d.Package.Version, d.Version)
		if d.Package.Version == "" {
			d.Package.Branch = or(d.Package.Branch, DefaultDriverBranch)
		}
	case d.Runfile != nil:
		d.Runfile.Checksum = strings.ToLower(d.Runfile.Checksum)
	}
}

func (t *NVIDIAContainerToolkit) setDefaults() {
	t.Source = or(t.Source, CTKSourcePackage)
	if t.Source == CTKSourcePackage {
		if t.Package == nil {
			t.Package = new(CTKPackageSpec)
		}
		t.Package.Channel = or(t.Package.Channel, CTKChannelStable)
		t.Package.Version = or(t.Package.Version, t.Version)
	}
}
