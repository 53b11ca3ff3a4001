package runcontract

import (
	"fmt"

	"github.com/kubeopera/platform/shared/api"
)

// ScaffoldSpec is run.json of a scaffolding run: all that its runner needs to know
// and no secret. Secrets are files in CredentialDir; see the constants below.
type ScaffoldSpec struct {
	Version   int           `json:"version"` // SpecVersion
	ID        string        `json:"id"`
	Kind      Kind          `json:"kind"`      // KindScaffold
	Operation api.Operation `json:"operation"` // OperationScaffold; OperationDryRun pushes nothing and publishes KeyDiff

	// Inputs say what the environment is.
	Inputs     ScaffoldInputs `json:"inputs"`
	Repository Repository     `json:"repository"`
	Target     Target         `json:"target"`

	// Rotation, if not empty, asks for new passwords and names the request for
	// them: the id of the run that asked first, so that a retry of it does not
	// rotate again what that one has rotated.
	Rotation string `json:"rotation,omitempty"`
	// AllowDeletion lets sealed secrets, namespaces, databases and layers go.
	AllowDeletion bool `json:"allow_deletion,omitempty"`

	// TimeoutSeconds is the runner's own deadline for all of it.
	TimeoutSeconds int `json:"timeout_seconds"`
	// GraceSeconds is the pod's termination grace period.
	GraceSeconds int `json:"grace_seconds"`
	// SealedSecretsTimeoutSeconds is how long the runner waits, after the first
	// pass is on the branch, for sealed-secrets to be Available.
	SealedSecretsTimeoutSeconds int `json:"sealed_secrets_timeout_seconds"`
	// MergeTimeoutSeconds is how long the runner waits for each of its branches to
	// be merged (PushPullRequest); 0 otherwise.
	MergeTimeoutSeconds int `json:"merge_timeout_seconds,omitempty"`
	// PollIntervalSeconds is how often the runner looks at the cluster, and at the
	// branch that is to be merged.
	PollIntervalSeconds int `json:"poll_interval_seconds"`

	// Env is added to the environment of git and of the AWS SDK. Only the service's
	// own configuration can set it (emulators, proxies, CA bundles).
	Env map[string]string `json:"env,omitempty"`
	// TraceParent carries the W3C trace context of the request.
	TraceParent string `json:"traceparent,omitempty"`
}

// Repository is where a tree goes and how its commits are made.
type Repository struct {
	// URL is https://host[:port]/path, ssh://user@host[:port]/path or
	// user@host:path; it holds no password and begins with no hyphen.
	URL    string       `json:"url"`
	Branch string       `json:"branch"` // passes git check-ref-format --branch
	Mode   api.PushMode `json:"mode"`
	// MergeBranch is the branch that is pushed with PushPullRequest; each pass
	// moves it, by force, from where the branch above is. Empty with PushDirect.
	MergeBranch string `json:"merge_branch,omitempty"`
	// Auth is how the runner gets in.
	Auth RepositoryAuth `json:"auth"`
	// Username goes with the token.
	Username string `json:"username,omitempty"`
	// CA says that RepositoryCADir holds RepositoryCAFile, which is trusted beside
	// the image's certificates.
	CA bool `json:"ca,omitempty"`
	// AuthorName and AuthorEmail are author and committer.
	AuthorName  string `json:"author_name"`
	AuthorEmail string `json:"author_email"`
	// Signed says that commits are signed with CredentialSigningKeyFile (an SSH
	// key: gpg.format=ssh).
	Signed bool `json:"signed,omitempty"`
}

// RepositoryAuth is a way into a repository.
type RepositoryAuth string

// The ways into a repository.
const (
	// RepositoryAuthToken is basic authentication over https: Username, and the
	// content of CredentialGitTokenFile.
	RepositoryAuthToken RepositoryAuth = "token"
	// RepositoryAuthSSH is CredentialSSHKeyFile, and CredentialKnownHostsFile for
	// the server.
	RepositoryAuthSSH RepositoryAuth = "ssh_key"
)

// Target is the cluster that a tree is for. Its kubeconfig is CredentialKubeconfigFile;
// the service has checked it (package kubeconfig), and so does the runner.
type Target struct {
	// EKS is set for a kubeconfig whose user is an exec plugin: the runner signs
	// tokens itself, with the AWS profile CredentialProfile of CredentialConfigFile
	// and CredentialKeysFile, which are there then and only then.
	EKS *EKSCluster `json:"eks,omitempty"`
	// Certificate is that of the sealed-secrets controller as PEM, from the caller,
	// for when it cannot be fetched; empty: there is none.
	Certificate string `json:"certificate,omitempty"`
}

// EKSCluster is whose tokens are signed.
type EKSCluster struct {
	Name   string `json:"name"`
	Region string `json:"region"`
}

// Files of a scaffolding run's credential Secret. Each holds exactly the value, with
// no line break added.
const (
	CredentialGitTokenFile   = "git-token"       // RepositoryAuthToken
	CredentialSSHKeyFile     = "git-ssh-key"     // RepositoryAuthSSH; ends in a line break
	CredentialKnownHostsFile = "git-known-hosts" // RepositoryAuthSSH
	// CredentialSigningKeyFile is an SSH private key, ending in a line break, if
	// Repository.Signed.
	CredentialSigningKeyFile = "signing-key"
	// CredentialKubeconfigFile is always there.
	CredentialKubeconfigFile = "kubeconfig"
	// CredentialRegistryPasswordFile is always there.
	CredentialRegistryPasswordFile = "registry-password"
	// CredentialDigestKeyFile is the key of the digests that tell whether a sealed
	// value is still the same: 32 bytes, raw, the same for every run of an
	// environment. It is always there.
	CredentialDigestKeyFile = "digest-key"
)

// Paths inside a scaffolding run's container.
const (
	// SpecDir is where the ConfigMap with SpecFile is mounted.
	SpecDir = "/etc/kubeopera/run"
	// RepositoryCADir holds RepositoryCAFile, if Repository.CA.
	RepositoryCADir  = "/etc/kubeopera/repository-ca"
	RepositoryCAFile = "ca.crt"
)

// KeyDiff is the key of the outputs Secret that holds, in gzip, what a dry run would
// have changed as a unified diff. MaxDiff is how many bytes it may have before.
const (
	KeyDiff = "tree.diff.gz"
	MaxDiff = 8 << 20
)

// ReadScaffoldSpec reads the run spec of a scaffolding run. Unknown fields are
// errors, as with ReadSpec.
func ReadScaffoldSpec(data []byte) (ScaffoldSpec, error) {
	var s ScaffoldSpec
	if err := decodeSpec(data, &s); err != nil {
		return ScaffoldSpec{}, err
	}
	if err := checkVersion(s.Version); err != nil {
		return ScaffoldSpec{}, err
	}
	if s.Kind != KindScaffold {
		return ScaffoldSpec{}, fmt.Errorf("run spec: kind %q, this runner's is %q", s.Kind, KindScaffold)
	}
	return s, nil
}
