package v1alpha1

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// source checks where a component comes from: one of supported, the first of which
// is the default, and no block of another source. Nothing is built on machines, so
// that git and latest are refused everywhere.
func source[T ~string](c *checker, field string, value T, blocks map[T]bool, supported ...T) {
	r := oneOf(supported...)
	r.message += ": only released software is installed, nothing is built on machines"
	c.check(field+".source", string(value), r)
	value = or(value, supported[0])
	for _, name := range slices.Sorted(maps.Keys(blocks)) {
		if blocks[name] && name != value {
			c.errs.add(field+"."+string(name), "has no effect, since source is not "+string(name))
		}
	}
}

func (c *checker) driver(d *NVIDIADriver) {
	const field = "spec.nvidiaDriver"
	source(c, field, d.Source, map[DriverSource]bool{
		DriverSourcePackage: d.Package != nil, DriverSourceRunfile: d.Runfile != nil, DriverSourceGit: d.Git != nil,
	}, DriverSourcePackage, DriverSourceRunfile)
	c.check(field+".branch", d.Branch, driverBranchRule)
	c.check(field+".version", d.Version, versionRule)
	if p := d.Package; p != nil {
		c.check(field+".package.branch", p.Branch, driverBranchRule)
		c.check(field+".package.version", p.Version, versionRule)
		c.renamed(field+".branch", d.Branch, p.Branch, "package.branch")
		c.renamed(field+".version", d.Version, p.Version, "package.version")
	}
	if d.Source == DriverSourceRunfile {
		c.must(d.Branch == "", field+".branch", "has no effect, since source is runfile")
		c.must(d.Version == "", field+".version", "has no effect, since source is runfile")
		c.must(d.Runfile != nil, field+".runfile.url", "is required for source runfile: "+httpsRule.message)
	}
	if r := d.Runfile; r != nil {
		c.need(field+".runfile.url", r.URL, httpsRule)
		c.check(field+".runfile.checksum", r.Checksum, checksumRule)
	}
}

func (c *checker) runtime(r *ContainerRuntime) {
	const field = "spec.containerRuntime"
	c.check(field+".name", string(r.Name), oneOf(ContainerRuntimeDocker, ContainerRuntimeContainerd, ContainerRuntimeCrio))
	source(c, field, r.Source, map[RuntimeSource]bool{
		RuntimeSourcePackage: r.Package != nil, RuntimeSourceGit: r.Git != nil, RuntimeSourceLatest: r.Latest != nil,
	}, RuntimeSourcePackage)
	c.check(field+".version", r.Version, versionRule)
	if p := r.Package; p != nil {
		c.check(field+".package.version", p.Version, versionRule)
		c.renamed(field+".version", r.Version, p.Version, "package.version")
	}
	if r.Name == ContainerRuntimeCrio {
		c.check(field+".version", r.Version, crioRule)
		if r.Package != nil {
			c.check(field+".package.version", r.Package.Version, crioRule)
		}
	}
}

func (c *checker) toolkit(t *NVIDIAContainerToolkit) {
	const field = "spec.nvidiaContainerToolkit"
	source(c, field, t.Source, map[CTKSource]bool{
		CTKSourcePackage: t.Package != nil, CTKSourceGit: t.Git != nil, CTKSourceLatest: t.Latest != nil,
	}, CTKSourcePackage)
	c.check(field+".version", t.Version, versionRule)
	if p := t.Package; p != nil {
		c.check(field+".package.channel", p.Channel, oneOf(CTKChannelStable, CTKChannelExperimental))
		c.check(field+".package.version", p.Version, versionRule)
		c.renamed(field+".version", t.Version, p.Version, "package.version")
	}
}

func (c *checker) kubernetes(s *EnvironmentSpec) {
	const field = "spec.kubernetes"
	k := &s.Kubernetes
	c.check(field+".installer", k.KubernetesInstaller, oneOf(InstallerKubeadm, InstallerKind, InstallerMicroK8s))
	installer := or(k.KubernetesInstaller, InstallerKubeadm)
	source(c, field, k.Source, map[K8sSource]bool{
		K8sSourceRelease: k.Release != nil, K8sSourceGit: k.Git != nil, K8sSourceLatest: k.Latest != nil,
	}, K8sSourceRelease)
	c.release(field+".version", k.KubernetesVersion, installer)
	if k.Release != nil {
		c.release(field+".release.version", k.Release.Version, installer)
		c.renamed(field+".version", withV(k.KubernetesVersion), withV(k.Release.Version), "release.version")
	}

	c.check(field+".kubeConfig", k.KubeConfig, localPathRule)
	c.must(len(k.KubernetesFeatures) == 0, field+".features", "is not supported: use k8sFeatureGates")
	c.check(field+".kubeletReleaseVersion", k.KubeletReleaseVersion, releaseRule)
	c.check(field+".arch", k.Arch, oneOf("amd64", "arm64"))
	c.check(field+".cniPluginsVersion", k.CniPluginsVersion, releaseRule)
	c.check(field+".calicoVersion", k.CalicoVersion, calicoRule)
	c.check(field+".crictlVersion", k.CrictlVersion, releaseRule)
	c.check(field+".k8sEndpointHost", k.K8sEndpointHost, endpointHostRule)
	c.list(field+".k8sFeatureGates", k.K8sFeatureGates, featureGateRule)
	c.must(len(k.K8sFeatureGates) == 0 || installer == InstallerKubeadm, field+".k8sFeatureGates", "has no effect unless the installer is kubeadm")
	c.check(field+".kubeAdmConfig", k.KubeAdmConfig, localPathRule)
	c.must(k.KubeAdmConfig == "" || installer == InstallerKubeadm, field+".kubeAdmConfig", "has no effect unless the installer is kubeadm")
	c.check(field+".kindConfig", k.KindConfig, localPathRule)
	c.must(k.KindConfig == "" || installer == InstallerKind, field+".kindConfig", "has no effect unless the installer is kind")

	if !k.Install {
		return
	}
	name := s.ContainerRuntime.Name
	c.must(installer != InstallerKind || name == ContainerRuntimeNone || name == ContainerRuntimeDocker,
		"spec.containerRuntime.name", "must be docker for kind, whose nodes are its containers")
	c.must(installer != InstallerMicroK8s || s.OS == "" || strings.HasPrefix(s.OS, "ubuntu-"),
		field+".installer", "must not be microk8s unless the system is Ubuntu")
}

var calicoRule = rule{
	func(s string) bool { return withV(s) == DefaultCalicoVersion },
	"must be " + DefaultCalicoVersion + ", the one whose manifests can be verified",
}

// oldestKubeadm has kubeadm's configuration format v1beta4, the one that is written.
// https://kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4/
const oldestKubeadm = 31

func (c *checker) release(field, version, installer string) {
	r := kubernetesRule
	if installer == InstallerMicroK8s {
		r = microK8sRule
	}
	c.check(field, version, r)
	if version == "" || !r.ok(version) || installer != InstallerKubeadm {
		return
	}
	minor, err := strconv.Atoi(strings.Split(version, ".")[1])
	c.must(err == nil && minor >= oldestKubeadm, field, "must be v1.31 or later for kubeadm: older ones do not read the configuration format v1beta4")
}

// withV is a version with its v.
func withV(version string) string {
	if version == "" || strings.HasPrefix(version, "v") {
		return version
	}
	return "v" + version
}
