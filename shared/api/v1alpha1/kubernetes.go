package v1alpha1

// Kubernetes is Kubernetes itself. Git and Latest are refused. Keys of files are matched without regard to case, so that the
// irregular names need not be remembered.
type Kubernetes struct {
	Install bool `json:"install,omitempty"`
	// Source is release if empty.
	Source  K8sSource       `json:"source,omitempty"`
	Release *K8sReleaseSpec `json:"release,omitempty"`
	Git     *K8sGitSpec     `json:"git,omitempty"`
	Latest  *K8sLatestSpec  `json:"latest,omitempty"`
	// KubernetesInstaller is kubeadm (also if empty), kind or microk8s.
	KubernetesInstaller string `json:"Installer,omitempty"`
	// RemoteAccess makes the kubeconfig name the machine's address, so that it
	// works from elsewhere.
	RemoteAccess bool `json:"remoteAccess,omitempty"`
	// KubeConfig is where the kubeconfig is written, on the caller's machine.
	KubeConfig string `json:"kubeConfig,omitempty"`
	// KubernetesVersion is Release.Version.
	//
	// Deprecated: set Release.Version.
	KubernetesVersion string `json:"Version,omitempty"`
	// KubernetesFeatures is refused: holodeck never read it. See K8sFeatureGates.
	KubernetesFeatures []string `json:"Features,omitempty"`
	// KubeletReleaseVersion is the release of the kubelet's unit files in holodeck;
	// here they come with the kubelet's package.
	KubeletReleaseVersion string `json:"KubeletReleaseVersion,omitempty"`
	// Arch is amd64 or arm64; the machine's own if empty.
	Arch string `json:"Arch,omitempty"`
	// CniPluginsVersion and CrictlVersion are those of the Kubernetes repository's
	// packages if empty.
	CniPluginsVersion string `json:"CniPluginsVersion,omitempty"`
	CrictlVersion     string `json:"CrictlVersion,omitempty"`
	// CalicoVersion is DefaultCalicoVersion if empty, and can be no other.
	CalicoVersion string `json:"CalicoVersion,omitempty"`
	// K8sEndpointHost is the host by which the API server is reached from elsewhere.
	K8sEndpointHost string `json:"K8sEndpointHost,omitempty"`
	// K8sFeatureGates are Name=true or Name=false.
	K8sFeatureGates []string `json:"K8sFeatureGates,omitempty"`
	// KubeAdmConfig is the path of a kubeadm configuration on the caller's machine,
	// used instead of the one that is made.
	KubeAdmConfig string `json:"kubeAdmConfig,omitempty"`
	// KindConfig is the path of a kind configuration on the caller's machine.
	KindConfig string `json:"kindConfig,omitempty"`
}

// Installers of Kubernetes.
const (
	InstallerKubeadm  = "kubeadm"
	InstallerKind     = "kind"
	InstallerMicroK8s = "microk8s"
)

// K8sSource is where Kubernetes comes from.
type K8sSource string

// The Kubernetes sources.
const (
	K8sSourceRelease K8sSource = "release" // the project's releases
	K8sSourceGit     K8sSource = "git"     // a fixed ref; refused here
	K8sSourceLatest  K8sSource = "latest"  // the newest commit of a branch; refused here
)

// K8sReleaseSpec is a release.
type K8sReleaseSpec struct {
	Version string `json:"version"` // like v1.36.3; SetDefaults adds a missing v
}

// K8sGitSpec is a source tree.
type K8sGitSpec struct {
	Repo string `json:"repo,omitempty"`
	Ref  string `json:"ref"`
}

// K8sLatestSpec is a branch to follow.
type K8sLatestSpec struct {
	Track string `json:"track,omitempty"`
	Repo  string `json:"repo,omitempty"`
}

// ExtraPortMapping publishes a port of a kind node. No field has it; its name is
// part of holodeck's API.
type ExtraPortMapping struct {
	ContainerPort int `json:"containerPort"`
	HostPort      int `json:"hostPort"`
}
