package v1alpha1

// cluster checks spec.cluster and what other parts must be for a cluster.
func (c *checker) cluster(s *EnvironmentSpec) {
	const field = "spec.cluster"
	k := s.Cluster
	c.check(field+".region", k.Region, regionRule)
	c.must(k.Region != "" || s.Provider != ProviderAWS, field+".region", "is required for provider aws")
	c.check(field+".controlPlaneEndpoint", k.ControlPlaneEndpoint, endpointRule)
	c.check(field+".podCIDR", k.PodCIDR, networkRule)

	p := &k.ControlPlane
	count := p.Count
	if count == 0 {
		count = 1 // as SetDefaults has it
	}
	c.must(count == 1 || count == 3 || count == 5 || count == 7, field+".controlPlane.count",
		"must be 1, 3, 5 or 7: etcd needs a majority")
	c.check(field+".controlPlane.instanceType", p.InstanceType, instanceTypeRule)
	c.machine(field+".controlPlane", p.OS, p.Image, p.RootVolumeSizeGB)
	c.labels(field+".controlPlane.labels", p.Labels)
	c.taints(field+".controlPlane.taints", p.Taints)

	if w := k.Workers; w != nil {
		c.must(w.Count >= 0 && w.Count <= maxWorkers, field+".workers.count", "must be 0 to 5000")
		c.check(field+".workers.instanceType", w.InstanceType, instanceTypeRule)
		c.machine(field+".workers", w.OS, w.Image, w.RootVolumeSizeGB)
		c.labels(field+".workers.labels", w.Labels)
		c.taints(field+".workers.taints", w.Taints)
	}
	c.highAvailability(k, count)
	c.clusterMethod(s)
}

// maxWorkers is what Kubernetes is made for.
// https://kubernetes.io/docs/setup/best-practices/cluster-large/
const maxWorkers = 5000

func (c *checker) highAvailability(k *ClusterSpec, count int32) {
	const field = "spec.cluster.highAvailability"
	h := k.HighAvailability
	enabled := h != nil && h.Enabled
	c.must(count == 1 || enabled || k.ControlPlaneEndpoint != "", field,
		"must be enabled for several control planes, unless spec.cluster.controlPlaneEndpoint is set")
	if h == nil {
		return
	}
	c.must(!enabled || count >= 3, "spec.cluster.controlPlane.count", "must be 3, 5 or 7, since highAvailability is enabled")
	c.check(field+".etcdTopology", string(h.EtcdTopology), rule{
		func(t string) bool { return t == string(EtcdTopologyStacked) }, "must be stacked: etcd on machines of its own is not supported",
	})
	c.check(field+".loadBalancerType", h.LoadBalancerType, oneOf(LoadBalancerNLB, LoadBalancerALB))
}

// clusterMethod refuses what works on a single machine only.
func (c *checker) clusterMethod(s *EnvironmentSpec) {
	k := &s.Kubernetes
	c.must(or(k.KubernetesInstaller, InstallerKubeadm) == InstallerKubeadm, "spec.kubernetes.installer",
		"must be kubeadm for a cluster: the others make single machines")
	c.must(k.KubeAdmConfig == "", "spec.kubernetes.kubeAdmConfig", "is not supported for a cluster: each node needs a configuration of its own")
}

func (c *checker) taints(field string, taints []Taint) {
	type identity struct {
		key    string
		effect TaintEffect
	}
	seen := make(map[identity]bool)
	for i, t := range taints {
		at := index(field, i)
		c.need(at+".key", t.Key, rule{labelKeyRule.ok, "must be of the form of a label key"})
		c.check(at+".value", t.Value, labelValueRule)
		c.need(at+".effect", string(t.Effect), oneOf(TaintEffectNoSchedule, TaintEffectPreferNoSchedule, TaintEffectNoExecute))
		id := identity{t.Key, t.Effect}
		c.must(!seen[id], at, "has key and effect of an earlier taint")
		seen[id] = true
	}
}
