package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// status is checked since addresses and user names are taken from it, and a file is
// not always what a program has written.
func (c *checker) status(s *EnvironmentStatus) {
	for i, p := range s.Properties {
		c.check(index("status.properties", i)+".name", p.Name, templateNameRule)
		c.check(index("status.properties", i)+".value", p.Value, plainTextRule)
	}
	for i, k := range s.Conditions {
		field := index("status.conditions", i)
		c.check(field+".type", k.Type, conditionTypeRule)
		c.check(field+".status", string(k.Status), oneOf(metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown))
		c.check(field+".reason", k.Reason, reasonRule)
		c.check(field+".message", k.Message, freeTextRule)
	}
	if k := s.Cluster; k != nil {
		c.check("status.cluster.controlPlaneEndpoint", k.ControlPlaneEndpoint, endpointRule)
		c.check("status.cluster.loadBalancerDns", k.LoadBalancerDNS, endpointHostRule)
		c.check("status.cluster.phase", k.Phase, oneOf(ClusterPhasePending, ClusterPhaseCreating, ClusterPhaseProvisioning,
			ClusterPhaseReady, ClusterPhaseDegraded, ClusterPhaseDeleting, ClusterPhaseFailed))
		c.must(k.TotalNodes >= 0, "status.cluster.totalNodes", "must not be negative")
		c.must(k.ReadyNodes >= 0, "status.cluster.readyNodes", "must not be negative")
		for i, n := range k.Nodes {
			c.nodeStatus(index("status.cluster.nodes", i), n)
		}
	}
	if p := s.Components; p != nil {
		c.provenance("status.components.driver", p.Driver)
		c.provenance("status.components.runtime", p.Runtime)
		c.provenance("status.components.toolkit", p.Toolkit)
		c.provenance("status.components.kubernetes", p.Kubernetes)
	}
}

func (c *checker) nodeStatus(field string, n NodeStatus) {
	c.check(field+".name", n.Name, objectNameRule)
	c.check(field+".role", n.Role, oneOf(NodeRoleControlPlane, NodeRoleWorker))
	c.check(field+".instanceId", n.InstanceID, instanceIDRule)
	c.check(field+".publicIp", n.PublicIP, addressRule)
	c.check(field+".privateIp", n.PrivateIP, addressRule)
	c.check(field+".sshUsername", n.SSHUsername, userRule)
	c.check(field+".phase", n.Phase, oneOf(NodePhasePending, NodePhaseProvisioning, NodePhaseRunning,
		NodePhaseReady, NodePhaseFailed, NodePhaseTerminating))
	c.check(field+".message", n.Message, freeTextRule)
}

func (c *checker) provenance(field string, p *ComponentProvenance) {
	if p == nil {
		return
	}
	c.check(field+".source", p.Source, oneOf("package", "runfile", "release", "git", "latest"))
	c.check(field+".version", p.Version, versionRule)
	c.check(field+".branch", p.Branch, gitRefRule)
	c.check(field+".repo", p.Repo, httpsRule)
	c.check(field+".ref", p.Ref, gitRefRule)
	c.check(field+".commit", p.Commit, commitRule)
}
