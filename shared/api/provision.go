package api

// Topology is the kind of cluster that a provisioning run builds.
type Topology string

// The topologies.
const (
	TopologyEKS              Topology = "eks"
	TopologyVanillaKubeadm   Topology = "vanilla_kubeadm"
	TopologyExistingMachines Topology = "existing_machines"
)

// APIAccess says from where a cluster's API server can be reached.
type APIAccess string //nolint:revive // access to the cluster's API, not to this package

// The kinds of API access.
const (
	APIAccessPublic  APIAccess = "public"
	APIAccessPrivate APIAccess = "private"
)

// KubeconfigAuth says how an EKS kubeconfig authenticates.
type KubeconfigAuth string

// The forms of authentication in an EKS kubeconfig.
const (
	// KubeconfigAuthEmbedded puts the AWS access key into the exec plugin's environment.
	KubeconfigAuthEmbedded KubeconfigAuth = "embedded_credential"
	// KubeconfigAuthExecOnly leaves the AWS credential to the reader's environment.
	KubeconfigAuthExecOnly KubeconfigAuth = "exec_only"
	// KubeconfigAuthServiceAccount holds a revocable service-account token.
	KubeconfigAuthServiceAccount KubeconfigAuth = "service_account_token"
)

// ProvisionRequest is the body of POST /api/v1/provisions. Absent fields get
// the defaults that the documentation of each names.
type ProvisionRequest struct {
	Name                     string            `json:"name" doc:"Name of the cluster: a DNS label" example:"acme-prod"`
	TerraformEnvironment     string            `json:"terraform_environment,omitempty" doc:"Name of the Terraform environment and its state bucket; default: name"`
	Topology                 Topology          `json:"topology" doc:"Kind of cluster" example:"eks"`
	Region                   string            `json:"region,omitempty" doc:"AWS region; not for existing_machines, unless one is reached by ssm" example:"eu-west-1"`
	CredentialID             string            `json:"credential_id,omitempty" doc:"UUID of the AWS credential in auth-service; not for existing_machines, unless one is reached by ssm"`
	KubernetesVersion        string            `json:"kubernetes_version" doc:"Kubernetes version; major.minor for eks" example:"1.35"`
	ControlPlaneCount        *int              `json:"control_plane_count,omitempty" doc:"1, 3 or 5; not for eks, which runs its own"`
	ControlPlaneInstanceType string            `json:"control_plane_instance_type,omitempty" doc:"EC2 instance type of control-plane nodes; not for eks"`
	WorkerCount              *int              `json:"worker_count,omitempty" doc:"Worker nodes at first; default 2"`
	WorkerMin                *int              `json:"worker_min,omitempty" doc:"Fewest worker nodes; default: worker_count"`
	WorkerMax                *int              `json:"worker_max,omitempty" doc:"Most worker nodes; default: worker_count"`
	WorkerInstanceType       string            `json:"worker_instance_type,omitempty" doc:"EC2 instance type of worker nodes; default t3.large"`
	VPCCIDR                  string            `json:"vpc_cidr,omitempty" doc:"Private IPv4 range of the VPC, /16 to /24; default 10.0.0.0/16"`
	PodCIDR                  string            `json:"pod_cidr,omitempty" doc:"IPv4 range of pods; not for eks, whose pods use the VPC's"`
	AvailabilityZones        []string          `json:"availability_zones,omitempty" doc:"Zones of the region, at least two for eks; default: the first three that are available"`
	APIAccess                APIAccess         `json:"api_access,omitempty" doc:"public (default) or private"`
	APIAllowedCIDRs          []string          `json:"api_allowed_cidrs,omitempty" doc:"IPv4 ranges that may reach the API server, at its public address or, if private, inside the VPC; default when public: the service's configuration"`
	AdminPrincipalARN        string            `json:"admin_principal_arn,omitempty" doc:"IAM role or user that becomes cluster administrator as well (eks)"`
	KubeconfigAuth           KubeconfigAuth    `json:"kubeconfig_auth,omitempty" doc:"How the kubeconfig authenticates (eks); default embedded_credential for access keys"`
	Tags                     map[string]string `json:"tags,omitempty" doc:"AWS tags for every resource, beside the service's own"`
	Operation                Operation         `json:"operation,omitempty" doc:"apply (default), or plan: nothing is changed, and changes says what an apply would do"`
	AllowReplacement         bool              `json:"allow_replacement,omitempty" doc:"Let Terraform replace the VPC, the cluster or its load balancer; existing_machines: workers of the last apply may be left out, and their nodes are the caller's to remove"`
	SSHCredentialID          string            `json:"ssh_credential_id,omitempty" doc:"UUID of the credential of kind ssh_key in auth-service (existing_machines)"`
	Machines                 []Machine         `json:"machines,omitempty" doc:"Machines to make a cluster of (existing_machines)"`
	ControlPlaneEndpoint     string            `json:"control_plane_endpoint,omitempty" doc:"Host or host:port of the cluster's API, such as a load balancer of yours; required with several control planes; default: the control plane's address (existing_machines)"`
}

// Role is what a machine is to a cluster.
type Role string

// The roles.
const (
	RoleControlPlane Role = "control-plane"
	RoleWorker       Role = "worker"
)

// Transport is how a machine is reached.
type Transport string

// The transports.
const (
	TransportDirect Transport = "direct" // TCP to its SSH port
	TransportSSM    Transport = "ssm"    // AWS Systems Manager's Session Manager
)

// Machine is a host that exists already (topology existing_machines).
type Machine struct {
	Address    string    `json:"address,omitempty" doc:"IP address or DNS name, at which the other machines find it too; may be left out with ssm"`
	Role       Role      `json:"role" doc:"control-plane or worker"`
	User       string    `json:"user,omitempty" doc:"SSH user: root, or one that becomes root by sudo without a password"`
	Port       int       `json:"port,omitempty" doc:"SSH port; default 22"`
	HostKey    string    `json:"host_key,omitempty" doc:"Its public SSH host key, type and key in base64"`
	Transport  Transport `json:"transport,omitempty" doc:"direct (default) or ssm"`
	InstanceID string    `json:"instance_id,omitempty" doc:"EC2 instance id, or id of a registered machine (ssm)"`
}

// Provision is a provisioning run. Its inputs never change; RunStatus and
// ProvisionDetails do.
type Provision struct {
	ID                   string    `json:"id" doc:"UUIDv7"`
	Name                 string    `json:"name"`
	TerraformEnvironment string    `json:"terraform_environment"`
	Topology             Topology  `json:"topology"`
	Region               string    `json:"region"`
	CredentialID         string    `json:"credential_id"`
	KubernetesVersion    string    `json:"kubernetes_version"`
	Operation            Operation `json:"operation"`
	RetryOf              string    `json:"retry_of,omitempty" doc:"Id of the run that this one repeats"`
	RequestedBy          string    `json:"requested_by,omitempty" doc:"Name of the API key that started the run"`
	RunStatus
	ProvisionDetails
}

// ProvisionDetails is what a provisioning run shows beside its status.
type ProvisionDetails struct {
	Nodes   []Node     `json:"nodes,omitempty" doc:"The cluster's nodes, while the run waits for them and after"`
	Changes *Changes   `json:"changes,omitempty" doc:"What Terraform changed, or would change (operation plan)"`
	Lock    *StateLock `json:"lock,omitempty" doc:"The lock on the Terraform state that stopped the run"`
}

// ProvisionList is one page of GET /api/v1/provisions, newest first.
type ProvisionList struct {
	Provisions []Provision `json:"provisions"`
	NextCursor string      `json:"next_cursor,omitempty" doc:"Pass it as cursor for the next page; absent on the last one"`
}
