package runcontract

// Kind is the first word of every Kubernetes name of a run.
type Kind string

// The kinds of runs.
const (
	KindProvision Kind = "provision"
	KindScaffold  Kind = "scaffold"
)

// Labels on every object of a run.
const (
	LabelManagedBy   = "app.kubernetes.io/managed-by" // the service's name
	LabelRunID       = "kubeopera.io/run-id"
	LabelKind        = "kubeopera.io/kind"
	LabelEnvironment = "kubeopera.io/environment"
	LabelComponent   = "app.kubernetes.io/component" // one of the components below
)

// Values of LabelComponent.
const (
	ComponentRun        = "run"        // Job, its pod, its ConfigMap
	ComponentCredential = "credential" // credential Secret
	ComponentOutputs    = "outputs"    // outputs Secret
)

// JobName names the Job and the ConfigMap of a run.
func JobName(kind Kind, id string) string { return string(kind) + "-" + id }

// CredentialSecretName names the Secret that holds a run's credentials.
func CredentialSecretName(kind Kind, id string) string { return JobName(kind, id) + "-credential" }

// OutputsSecretName names the Secret that a runner publishes to.
func OutputsSecretName(kind Kind, id string) string { return JobName(kind, id) + "-outputs" }

// Keys of the outputs Secret.
const (
	KeyProgress           = "progress.json"
	KeyResult             = "result.json"
	KeyKubeconfig         = "kubeconfig"
	KeyKubeconfigInternal = "kubeconfig_internal"
	KeyLogTail            = "log.gz"
	// KeyErroredState is a Terraform state, in gzip, that could be saved nowhere else.
	KeyErroredState = "errored.tfstate.gz"
)

// SpecFile is the run spec's file name in the ConfigMap.
const SpecFile = "run.json"

// Paths inside a run's containers.
const (
	// WorkspaceDir is an emptyDir that the containers of a run share.
	WorkspaceDir = "/workspace"
	// ModulesDir is the clone of the modules repository.
	ModulesDir = WorkspaceDir + "/modules-repository"
	// CredentialDir holds the credential Secret's files.
	CredentialDir = "/etc/kubeopera/credential"
	// ModulesCADir holds the modules repository's CA certificate, ModulesCAFile, if one is configured.
	ModulesCADir = "/etc/kubeopera/modules-ca"
	// ModulesAuthDir holds the modules repository's credential files, if one is configured.
	ModulesAuthDir = "/etc/kubeopera/modules-auth"
	// ModulesCAFile is the key of the CA bundle (PEM) in its ConfigMap.
	ModulesCAFile = "ca.crt"
	// RescueDir holds KeyErroredState of the run that Spec.RescuedRun names.
	RescueDir = "/etc/kubeopera/rescue"
	// TerminationMessagePath is where a container leaves its compact Result.
	TerminationMessagePath = "/dev/termination-log"
)

// EnvironmentDir is where the ConfigMap of a run is mounted: the one directory
// that the clone must not have yet.
func EnvironmentDir(environment string) string { return ModulesDir + "/environments/" + environment }

// Files of a credential Secret.
const (
	// CredentialConfigFile is an AWS shared config file with the profile CredentialProfile.
	CredentialConfigFile = "config"
	// CredentialKeysFile is an AWS shared credentials file.
	CredentialKeysFile = "credentials"
	// CredentialProfile is the AWS profile that a run uses.
	CredentialProfile = "kubeopera"
	// CredentialMachineKeyFile is a private SSH key for machines, in PEM form; the other
	// two are there if it has a passphrase, or a certificate.
	CredentialMachineKeyFile         = "machine-key"
	CredentialMachinePassphraseFile  = "machine-passphrase"
	CredentialMachineCertificateFile = "machine-certificate"
)

// Environment variables that a Job sets for its containers by the downward API.
const (
	EnvPodName      = "POD_NAME"
	EnvPodUID       = "POD_UID"
	EnvPodNamespace = "POD_NAMESPACE"
	// EnvMemoryLimit is the container's memory limit in bytes.
	EnvMemoryLimit = "MEMORY_LIMIT_BYTES"
)
