package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Environment is one environment file.
type Environment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   EnvironmentSpec   `json:"spec"`
	Status EnvironmentStatus `json:"status,omitzero"`
}

// EnvironmentList is a list of environments.
type EnvironmentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Environment `json:"items"`
}

// EnvironmentSpec is what is wanted.
type EnvironmentSpec struct {
	// Provider says where the machines come from; empty if the caller of the
	// library brings them.
	Provider Provider `json:"provider,omitempty"`

	Auth     `json:"auth,omitzero"`
	Instance `json:"instance,omitzero"`

	// Cluster is set for several machines; Instance then describes nothing.
	Cluster *ClusterSpec `json:"cluster,omitempty"`

	Kernel                 Kernel                 `json:"kernel,omitzero"`
	NVIDIADriver           NVIDIADriver           `json:"nvidiaDriver,omitzero"`
	ContainerRuntime       ContainerRuntime       `json:"containerRuntime,omitzero"`
	NVIDIAContainerToolkit NVIDIAContainerToolkit `json:"nvidiaContainerToolkit,omitzero"`
	Kubernetes             Kubernetes             `json:"kubernetes,omitzero"`

	// LoadBalancer is refused: nothing here makes one. See
	// ClusterSpec.ControlPlaneEndpoint.
	LoadBalancer *LoadBalancer `json:"loadBalancer,omitempty"`

	// CustomTemplates are the user's own scripts, run in their order within a phase.
	CustomTemplates []CustomTemplate `json:"customTemplates,omitempty"`
}

// Provider is where machines come from.
type Provider string

// The providers.
const (
	ProviderAWS Provider = "aws" // EC2 instances
	ProviderSSH Provider = "ssh" // machines that exist
)

// Auth is how to log in. The files are on the caller's machine; a leading ~ is
// their home.
type Auth struct {
	// KeyName is the EC2 key pair.
	KeyName string `json:"keyName,omitempty"`
	// Username is the login name; the usual one of the operating system if empty
	// and that is known.
	Username string `json:"username,omitempty"`
	// PublicKey is the path of the public key.
	PublicKey string `json:"publicKey,omitempty"`
	// PrivateKey is the path of the private key.
	PrivateKey string `json:"privateKey,omitempty"`
	// SSHConfig holds the rest; nil means the defaults.
	SSHConfig *SSHConfig `json:"sshConfig,omitempty"`
}

// SSHConfig is the part of an SSH connection that most need not set. It holds for
// single machines and clusters alike.
type SSHConfig struct {
	// Bastion is a host to go through.
	Bastion *BastionConfig `json:"bastion,omitempty"`
	// UseAgent logs in by the keys of an SSH agent.
	UseAgent bool `json:"useAgent,omitempty"`
	// AgentSocket is the agent's socket; SSH_AUTH_SOCK of the caller if empty.
	AgentSocket string `json:"agentSocket,omitempty"`
	// KnownHostsPolicy is what becomes of host keys; accept-new if empty.
	KnownHostsPolicy string `json:"knownHostsPolicy,omitempty"`
	// ConnectTimeout is for the TCP connection; 10 s if zero.
	ConnectTimeout metav1.Duration `json:"connectTimeout,omitzero"`
	// HandshakeTimeout is for the SSH handshake; 15 s if zero.
	HandshakeTimeout metav1.Duration `json:"handshakeTimeout,omitzero"`
	// KeepaliveInterval is between two questions whether the host still answers;
	// 15 s if zero.
	KeepaliveInterval metav1.Duration `json:"keepaliveInterval,omitzero"`
	// MaxRetries is how often an unreachable host is tried; 20 if zero.
	MaxRetries int `json:"maxRetries,omitempty"`
}

// Host key policies.
const (
	KnownHostsAcceptNew = "accept-new" // a host's first key is remembered, another one later refused
	KnownHostsStrict    = "strict"     // unknown hosts are refused
	KnownHostsOff       = "off"        // any key will do
)

// BastionConfig is a host to go through.
type BastionConfig struct {
	// Host is host or host:port.
	Host string `json:"host"`
	// Username is the target's if empty.
	Username string `json:"username,omitempty"`
	// PrivateKey is a path; the target's if empty.
	PrivateKey string `json:"privateKey,omitempty"`
}

// Instance is the single machine.
type Instance struct {
	// Type is the EC2 instance type.
	Type string `json:"type,omitempty"`
	// Region is the AWS region.
	Region string `json:"region,omitempty"`
	// OS is one of the OS constants; it wins over Image.
	OS string `json:"os,omitempty"`
	// Image is the machine image.
	Image Image `json:"image,omitzero"`
	// IngressIpRanges are the networks (CIDR) that may connect.
	IngressIpRanges []string `json:"ingressIpRanges,omitempty"` //nolint:revive,staticcheck // holodeck's name
	// HostUrl is the machine's host or host:port. It is no URL.
	HostUrl string `json:"hostUrl,omitempty"` //nolint:revive,staticcheck // holodeck's name
	// RootVolumeSizeGB is at least 20.
	RootVolumeSizeGB *int32 `json:"rootVolumeSizeGB,omitempty"`
}

// The supported operating systems, by the names that holodeck has for them.
const (
	OSUbuntu2204      = "ubuntu-22.04"
	OSUbuntu2404      = "ubuntu-24.04"
	OSRocky9          = "rocky-9"
	OSAmazonLinux2023 = "amazon-linux-2023"
)

// Image is a machine image, in EC2's terms.
type Image struct {
	Architecture  string  `json:"architecture,omitempty"` // x86_64 or arm64
	CreationDate  *string `json:"creationDate,omitempty"`
	Description   *string `json:"description,omitempty"`
	ImageId       *string `json:"imageId,omitempty"` //nolint:revive,staticcheck // holodeck's name
	ImageLocation *string `json:"imageLocation,omitempty"`
	Name          *string `json:"name,omitempty"`
	OwnerId       *string `json:"ownerId,omitempty"` //nolint:revive,staticcheck // holodeck's name
}

// Kernel is the machine's kernel.
type Kernel struct {
	// Version is as uname -r prints it; empty leaves the kernel alone.
	Version string `json:"version,omitempty"`
}

// LoadBalancer is a part of holodeck's file format that holodeck never read.
type LoadBalancer struct {
	Enabled         bool   `json:"enabled,omitempty"`
	Type            string `json:"type,omitempty"`
	HealthCheckPath string `json:"healthCheckPath,omitempty"`
}
