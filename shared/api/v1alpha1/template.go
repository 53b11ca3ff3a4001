package v1alpha1

// CustomTemplate is a script of the user's own. Exactly one of Inline, File and URL
// is set.
type CustomTemplate struct {
	// Name is unique among the templates of a file.
	Name string `json:"name"`
	// Phase is post-install if empty.
	Phase TemplatePhase `json:"phase,omitempty"`
	// Inline is the script itself.
	Inline string `json:"inline,omitempty"`
	// File is a path below the directory of the environment file.
	File string `json:"file,omitempty"`
	// URL is an https address to fetch the script from.
	URL string `json:"url,omitempty"`
	// Checksum is sha256:<64 hex digits> of the script.
	Checksum string `json:"checksum,omitempty"`
	// Timeout is in seconds; 600 if zero.
	Timeout int `json:"timeout,omitempty"`
	// ContinueOnError lets provisioning go on if the script fails.
	ContinueOnError bool `json:"continueOnError,omitempty"`
	// Env is the script's environment. The values are treated as secrets.
	Env map[string]string `json:"env,omitempty"`
}

// TemplatePhase is when a template runs.
type TemplatePhase string

// The template phases, in their order.
const (
	TemplatePhasePreInstall     TemplatePhase = "pre-install"     // before everything
	TemplatePhasePostRuntime    TemplatePhase = "post-runtime"    // after the container runtime
	TemplatePhasePostToolkit    TemplatePhase = "post-toolkit"    // after the container toolkit
	TemplatePhasePostKubernetes TemplatePhase = "post-kubernetes" // after Kubernetes
	TemplatePhasePostInstall    TemplatePhase = "post-install"    // after everything
)
