package v1alpha1

// NVIDIADriver is the GPU driver. Of Package and Runfile only that of Source may be
// set; Git is refused.
type NVIDIADriver struct {
	Install bool `json:"install,omitempty"`
	// Source is package if empty.
	Source  DriverSource       `json:"source,omitempty"`
	Package *DriverPackageSpec `json:"package,omitempty"`
	Runfile *DriverRunfileSpec `json:"runfile,omitempty"`
	Git     *DriverGitSpec     `json:"git,omitempty"`
	// Branch is Package.Branch.
	//
	// Deprecated: set Package.Branch.
	Branch string `json:"branch,omitempty"`
	// Version is Package.Version.
	//
	// Deprecated: set Package.Version.
	Version string `json:"version,omitempty"`
}

// DriverSource is where a driver comes from.
type DriverSource string

// The driver sources.
const (
	DriverSourcePackage DriverSource = "package" // NVIDIA's CUDA package repository
	DriverSourceRunfile DriverSource = "runfile" // NVIDIA's .run installer
	DriverSourceGit     DriverSource = "git"     // holodeck builds it; refused here
)

// DriverPackageSpec chooses a packaged driver: its Version if set, else the newest
// of its Branch.
type DriverPackageSpec struct {
	Branch  string `json:"branch,omitempty"`  // like 580
	Version string `json:"version,omitempty"` // like 580.95.05
}

// DriverRunfileSpec is a .run installer.
type DriverRunfileSpec struct {
	URL      string `json:"url"`                // https
	Checksum string `json:"checksum,omitempty"` // sha256:<64 hex digits>
}

// DriverGitSpec is a source tree of the open kernel modules.
type DriverGitSpec struct {
	Repo string `json:"repo,omitempty"`
	Ref  string `json:"ref"`
}

// ContainerRuntime is the container runtime. Git and Latest are refused.
type ContainerRuntime struct {
	Install bool `json:"install,omitempty"`
	// Name also says which runtime there is when Install is false.
	Name ContainerRuntimeName `json:"name,omitempty"`
	// Source is package if empty.
	Source  RuntimeSource       `json:"source,omitempty"`
	Package *RuntimePackageSpec `json:"package,omitempty"`
	Git     *RuntimeGitSpec     `json:"git,omitempty"`
	Latest  *RuntimeLatestSpec  `json:"latest,omitempty"`
	// Version is Package.Version.
	//
	// Deprecated: set Package.Version.
	Version string `json:"version,omitempty"`
}

// ContainerRuntimeName is a container runtime.
type ContainerRuntimeName string

// The container runtimes.
const (
	ContainerRuntimeDocker     ContainerRuntimeName = "docker"
	ContainerRuntimeContainerd ContainerRuntimeName = "containerd"
	ContainerRuntimeCrio       ContainerRuntimeName = "crio"
	ContainerRuntimeNone       ContainerRuntimeName = ""
)

// RuntimeSource is where a container runtime comes from.
type RuntimeSource string

// The container runtime sources.
const (
	RuntimeSourcePackage RuntimeSource = "package" // packages
	RuntimeSourceGit     RuntimeSource = "git"     // a fixed ref; refused here
	RuntimeSourceLatest  RuntimeSource = "latest"  // the newest commit of a branch; refused here
)

// RuntimePackageSpec chooses a package; the newest if empty.
type RuntimePackageSpec struct {
	Version string `json:"version,omitempty"` // may have an epoch: 5:28.0.1-1~ubuntu.24.04~noble
}

// RuntimeGitSpec is a source tree.
type RuntimeGitSpec struct {
	Repo string `json:"repo,omitempty"`
	Ref  string `json:"ref"`
}

// RuntimeLatestSpec is a branch to follow.
type RuntimeLatestSpec struct {
	Track string `json:"track,omitempty"`
	Repo  string `json:"repo,omitempty"`
}

// NVIDIAContainerToolkit makes GPUs known to the container runtime. Git and Latest
// are refused.
type NVIDIAContainerToolkit struct {
	Install bool `json:"install,omitempty"`
	// Source is package if empty.
	Source  CTKSource       `json:"source,omitempty"`
	Package *CTKPackageSpec `json:"package,omitempty"`
	Git     *CTKGitSpec     `json:"git,omitempty"`
	Latest  *CTKLatestSpec  `json:"latest,omitempty"`
	// EnableCDI hands devices over by the Container Device Interface.
	EnableCDI bool `json:"enableCDI,omitempty"`
	// Version is Package.Version.
	//
	// Deprecated: set Package.Version.
	Version string `json:"version,omitempty"`
}

// CTKSource is where the container toolkit comes from.
type CTKSource string

// The container toolkit sources.
const (
	CTKSourcePackage CTKSource = "package" // NVIDIA's package repository
	CTKSourceGit     CTKSource = "git"     // a fixed ref; refused here
	CTKSourceLatest  CTKSource = "latest"  // the newest commit of a branch; refused here
)

// CTKPackageSpec chooses a package; the newest if Version is empty.
type CTKPackageSpec struct {
	Channel string `json:"channel,omitempty"` // stable (also if empty) or experimental
	Version string `json:"version,omitempty"` // like 1.18.0-1
}

// Channels of the container toolkit's packages.
const (
	CTKChannelStable       = "stable"
	CTKChannelExperimental = "experimental"
)

// CTKGitSpec is a source tree.
type CTKGitSpec struct {
	Repo string `json:"repo,omitempty"`
	Ref  string `json:"ref"`
}

// CTKLatestSpec is a branch to follow.
type CTKLatestSpec struct {
	Track string `json:"track,omitempty"`
	Repo  string `json:"repo,omitempty"`
}
