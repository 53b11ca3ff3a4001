package v1alpha1

// Warnings names fields that work but deserve a look: deprecated ones, those
// without effect, and those that leave something unverified.
func (e *Environment) Warnings() []FieldError {
	var w FieldErrors
	warn := func(when bool, field, message string) {
		if when {
			w.add(field, message)
		}
	}
	s := &e.Spec
	d, r, t, k := &s.NVIDIADriver, &s.ContainerRuntime, &s.NVIDIAContainerToolkit, &s.Kubernetes
	warn(d.Branch != "", "spec.nvidiaDriver.branch", "is deprecated: use package.branch")
	warn(d.Version != "", "spec.nvidiaDriver.version", "is deprecated: use package.version")
	warn(r.Version != "", "spec.containerRuntime.version", "is deprecated: use package.version")
	warn(t.Version != "", "spec.nvidiaContainerToolkit.version", "is deprecated: use package.version")
	warn(k.KubernetesVersion != "", "spec.kubernetes.version", "is deprecated: use release.version")

	warn(k.KubeletReleaseVersion != "", "spec.kubernetes.kubeletReleaseVersion", "has no effect: the kubelet's package has its unit files")
	if k.Install && k.KubernetesInstaller != InstallerKubeadm && k.KubernetesInstaller != "" {
		const message = "has no effect unless the installer is kubeadm"
		warn(k.Arch != "", "spec.kubernetes.arch", message)
		warn(k.CalicoVersion != "", "spec.kubernetes.calicoVersion", message)
		warn(k.CniPluginsVersion != "", "spec.kubernetes.cniPluginsVersion", message)
		warn(k.CrictlVersion != "", "spec.kubernetes.crictlVersion", message)
	}
	warn(s.LoadBalancer != nil, "spec.loadBalancer", "has no effect: nothing here makes one")
	if c := s.Cluster; c != nil {
		h := c.HighAvailability
		warn(h != nil && h.LoadBalancerType != "", "spec.cluster.highAvailability.loadBalancerType", "has no effect: nothing here makes a load balancer")
		warn(s.HostUrl != "", "spec.instance.hostUrl", "has no effect in a cluster")
	}

	if c := s.SSHConfig; c != nil {
		warn(c.KnownHostsPolicy == KnownHostsOff, "spec.auth.sshConfig.knownHostsPolicy", "off lets anybody between here and the machine read and change everything")
	}
	warn(d.Runfile != nil && d.Runfile.Checksum == "", "spec.nvidiaDriver.runfile.checksum", "is missing: what is downloaded is not verified")
	for i, c := range s.CustomTemplates {
		warn(c.URL != "" && c.Checksum == "", index("spec.customTemplates", i)+".checksum", "is missing: what is downloaded is not verified")
	}
	return w
}
