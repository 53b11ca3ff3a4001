package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EnvironmentStatus is what there is.
type EnvironmentStatus struct {
	// Properties are named facts about the machines, such as AWS ids.
	Properties []Properties       `json:"properties,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Cluster is nil for a single machine.
	Cluster *ClusterStatus `json:"cluster,omitempty"`
	// Components is what was installed.
	Components *ComponentsStatus `json:"components,omitempty"`
}

// Types of conditions.
const (
	ConditionProgressing string = "Progressing"
	ConditionDegraded    string = "Degraded"
	ConditionAvailable   string = "Available"
	ConditionTerminated  string = "Terminated"
)

// Properties is one named fact.
type Properties struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// ClusterStatus is the state of a cluster.
type ClusterStatus struct {
	Nodes []NodeStatus `json:"nodes,omitempty"`
	// ControlPlaneEndpoint is the host or host:port of the API servers.
	ControlPlaneEndpoint string `json:"controlPlaneEndpoint,omitempty"`
	// LoadBalancerDNS is the name of the load balancer before the API servers.
	LoadBalancerDNS string `json:"loadBalancerDns,omitempty"`
	TotalNodes      int32  `json:"totalNodes,omitempty"`
	ReadyNodes      int32  `json:"readyNodes,omitempty"`
	// Phase is one of the cluster phases.
	Phase string `json:"phase,omitempty"`
}

// Phases of a cluster.
const (
	ClusterPhasePending      = "Pending"
	ClusterPhaseCreating     = "Creating"
	ClusterPhaseProvisioning = "Provisioning"
	ClusterPhaseReady        = "Ready"
	ClusterPhaseDegraded     = "Degraded"
	ClusterPhaseDeleting     = "Deleting"
	ClusterPhaseFailed       = "Failed"
)

// NodeStatus is the state of a node.
type NodeStatus struct {
	Name string `json:"name"`
	// Role is one of the node roles.
	Role string `json:"role"`
	// InstanceID is EC2's.
	InstanceID string `json:"instanceId,omitempty"`
	PublicIP   string `json:"publicIp,omitempty"`
	PrivateIP  string `json:"privateIp,omitempty"`
	// SSHUsername is the login name; that of Auth if empty.
	SSHUsername string `json:"sshUsername,omitempty"`
	// Phase is one of the node phases.
	Phase string `json:"phase"`
	// Message is for humans.
	Message string `json:"message,omitempty"`
}

// Roles of nodes.
const (
	NodeRoleControlPlane = "control-plane"
	NodeRoleWorker       = "worker"
)

// Phases of a node.
const (
	NodePhasePending      = "Pending"
	NodePhaseProvisioning = "Provisioning"
	NodePhaseRunning      = "Running"
	NodePhaseReady        = "Ready"
	NodePhaseFailed       = "Failed"
	NodePhaseTerminating  = "Terminating"
)

// ComponentsStatus is what was installed; nil for what was not.
type ComponentsStatus struct {
	Driver     *ComponentProvenance `json:"driver,omitempty"`
	Runtime    *ComponentProvenance `json:"runtime,omitempty"`
	Toolkit    *ComponentProvenance `json:"toolkit,omitempty"`
	Kubernetes *ComponentProvenance `json:"kubernetes,omitempty"`
}

// ComponentProvenance is where a component came from.
type ComponentProvenance struct {
	// Source is one of the component's sources, such as package or git.
	Source  string `json:"source"`
	Version string `json:"version,omitempty"`
	Branch  string `json:"branch,omitempty"` // of packages, or the branch that was followed
	Repo    string `json:"repo,omitempty"`
	Ref     string `json:"ref,omitempty"`
	Commit  string `json:"commit,omitempty"`
}
