package v1alpha1

// ClusterSpec is a Kubernetes cluster on several machines.
type ClusterSpec struct {
	// Region is the AWS region; only provider aws needs it.
	Region       string           `json:"region,omitempty"`
	ControlPlane ControlPlaneSpec `json:"controlPlane,omitzero"`
	Workers      *WorkerPoolSpec  `json:"workers,omitempty"`
	// HighAvailability is needed for several control planes, unless
	// ControlPlaneEndpoint is set.
	HighAvailability *HAConfig `json:"highAvailability,omitempty"`
	// ControlPlaneEndpoint is the host or host:port (6443 if left out) of a load
	// balancer of the user's own, or a name for one of it, in front of the API
	// servers. If empty the first control plane's address is the endpoint.
	ControlPlaneEndpoint string `json:"controlPlaneEndpoint,omitempty"`
	// PodCIDR is the network of pods; if empty 192.168.0.0/16, or 10.244.0.0/16
	// where the machines are in that.
	PodCIDR string `json:"podCIDR,omitempty"`
}

// ControlPlaneSpec describes the control planes.
type ControlPlaneSpec struct {
	// Count is 1, 3, 5 or 7.
	Count int32 `json:"count,omitempty"`
	// InstanceType is EC2's.
	InstanceType string `json:"instanceType,omitempty"`
	// OS is one of the OS constants; it wins over Image.
	OS    string `json:"os,omitempty"`
	Image *Image `json:"image,omitempty"`
	// Dedicated keeps the taint that keeps workloads off control planes.
	Dedicated bool `json:"dedicated,omitempty"`
	// RootVolumeSizeGB is at least 20.
	RootVolumeSizeGB *int32 `json:"rootVolumeSizeGB,omitempty"`
	// Labels are set on each of the nodes.
	Labels map[string]string `json:"labels,omitempty"`
	// Taints are set on each of the nodes.
	Taints []Taint `json:"taints,omitempty"`
}

// WorkerPoolSpec describes the workers.
type WorkerPoolSpec struct {
	// Count may be 0.
	Count int32 `json:"count,omitempty"`
	// InstanceType is EC2's.
	InstanceType string `json:"instanceType,omitempty"`
	// OS is one of the OS constants; it wins over Image.
	OS    string `json:"os,omitempty"`
	Image *Image `json:"image,omitempty"`
	// RootVolumeSizeGB is at least 20.
	RootVolumeSizeGB *int32 `json:"rootVolumeSizeGB,omitempty"`
	// Labels are set on each of the nodes.
	Labels map[string]string `json:"labels,omitempty"`
	// Taints are set on each of the nodes.
	Taints []Taint `json:"taints,omitempty"`
}

// Taint keeps pods without a matching toleration off a node.
type Taint struct {
	Key    string      `json:"key"`
	Value  string      `json:"value,omitempty"`
	Effect TaintEffect `json:"effect"`
}

// TaintEffect is what a taint does.
type TaintEffect string

// The taint effects.
const (
	TaintEffectNoSchedule       TaintEffect = "NoSchedule"
	TaintEffectPreferNoSchedule TaintEffect = "PreferNoSchedule"
	TaintEffectNoExecute        TaintEffect = "NoExecute"
)

// HAConfig is about several control planes.
type HAConfig struct {
	// Enabled needs three control planes or more.
	Enabled bool `json:"enabled,omitempty"`
	// EtcdTopology is stacked if empty; external is refused.
	EtcdTopology EtcdTopology `json:"etcdTopology,omitempty"`
	// LoadBalancerType is the AWS load balancer in front of the API servers: nlb
	// (also if empty) or alb.
	LoadBalancerType string `json:"loadBalancerType,omitempty"`
}

// EtcdTopology is where etcd runs.
type EtcdTopology string

// The etcd topologies.
const (
	EtcdTopologyStacked  EtcdTopology = "stacked"  // on the control planes
	EtcdTopologyExternal EtcdTopology = "external" // on machines of its own
)

// Load balancer types.
const (
	LoadBalancerNLB = "nlb"
	LoadBalancerALB = "alb"
)
