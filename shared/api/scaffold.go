package api

// PushMode says how a scaffolding run brings a tree to its branch.
type PushMode string

// The ways of pushing.
const (
	// PushDirect commits to the branch itself.
	PushDirect PushMode = "push"
	// PushPullRequest pushes a branch of its own and waits until somebody has merged it.
	PushPullRequest PushMode = "pull_request"
)

// ScaffoldRequest is the body of POST /api/v1/scaffolds. What it holds in clear is
// kept in the run's credential Secret only, until the run has ended.
type ScaffoldRequest struct {
	Environment   string                     `json:"environment" doc:"Name of the environment: a DNS label; its tree is clusters/<environment>" example:"acme-prod"`
	Domain        string                     `json:"domain" doc:"DNS name that the hostnames of the services end in" example:"acme.example.com"`
	Region        string                     `json:"region" doc:"AWS region of the domain's zone" example:"eu-west-1"`
	Email         string                     `json:"email" doc:"Address that the certificate authority writes to" example:"ops@acme.example.com"`
	Repository    *ScaffoldRepository        `json:"repository,omitempty" doc:"Where the tree goes; default: the platform's own repository"`
	Target        ScaffoldTarget             `json:"target" doc:"The cluster that the tree is for"`
	Services      map[string]ScaffoldService `json:"services,omitempty" doc:"Services to have, by name; default: all"`
	Registry      ScaffoldRegistry           `json:"registry" doc:"Login at the registry that the services' images come from"`
	Mode          PushMode                   `json:"mode,omitempty" doc:"push (default), or pull_request: a branch is pushed, and the run waits until it is merged"`
	SigningKey    string                     `json:"signing_key,omitempty" doc:"SSH private key without a passphrase that signs the commits; default: the service's configuration"`
	RotateSecrets bool                       `json:"rotate_secrets,omitempty" doc:"Make new passwords for what the environment has already"`
	AllowDeletion bool                       `json:"allow_deletion,omitempty" doc:"Let sealed secrets, namespaces, databases and layers go that the base no longer has"`
	DryRun        bool                       `json:"dry_run,omitempty" doc:"Push nothing; the diff is there when the run has succeeded"`
}

// ScaffoldRepository is a Git repository and how to get into it: by credential_id,
// by token (https) or by ssh_key (ssh).
type ScaffoldRepository struct {
	URL          string `json:"url" doc:"https://host/path, ssh://user@host/path or user@host:path" example:"https://git.example.com/acme/gitops.git"`
	Branch       string `json:"branch,omitempty" doc:"Branch that Flux follows; default main"`
	CredentialID string `json:"credential_id,omitempty" doc:"UUID of a Git credential in auth-service"`
	Username     string `json:"username,omitempty" doc:"User that the token belongs to; default git"`
	Token        string `json:"token,omitempty" doc:"Access token or password, for https"`
	SSHKey       string `json:"ssh_key,omitempty" doc:"SSH private key without a passphrase"`
	KnownHosts   string `json:"known_hosts,omitempty" doc:"Host keys of the server in the form of known_hosts, for ssh"`
}

// ScaffoldTarget is a cluster: one that the platform has provisioned, or any other
// by its kubeconfig.
type ScaffoldTarget struct {
	ProvisionID  string `json:"provision_id,omitempty" doc:"Id of the run that has built the cluster"`
	Kubeconfig   string `json:"kubeconfig,omitempty" doc:"Kubeconfig with all that it needs inside; of exec plugins only those that the platform publishes, which are read and never executed"`
	CredentialID string `json:"credential_id,omitempty" doc:"UUID of the AWS credential that may use the cluster, for a kubeconfig whose exec plugin holds none; default with provision_id: the credential of that run"`
	Certificate  string `json:"certificate,omitempty" doc:"Certificate of the cluster's sealed-secrets controller as PEM, for when the cluster does not let the run fetch it"`
}

// ScaffoldService is what a request says of one service.
type ScaffoldService struct {
	Hostname string `json:"hostname,omitempty" doc:"Host of the service's Ingress; it ends in domain"`
}

// ScaffoldRegistry is a login at a container registry.
type ScaffoldRegistry struct {
	Server   string `json:"server" doc:"host or host:port" example:"registry.example.com"`
	Username string `json:"username"`
	Password string `json:"password"`
}

// ScaffoldSecrets is the body of POST …/retry: what the first request held in
// clear, which nobody has kept.
type ScaffoldSecrets struct {
	Token            string `json:"token,omitempty" doc:"As repository.token"`
	SSHKey           string `json:"ssh_key,omitempty" doc:"As repository.ssh_key"`
	Kubeconfig       string `json:"kubeconfig,omitempty" doc:"As target.kubeconfig, of the same cluster"`
	RegistryPassword string `json:"registry_password,omitempty" doc:"As registry.password"`
	SigningKey       string `json:"signing_key,omitempty" doc:"As signing_key"`
}

// Scaffold is a scaffolding run. Its inputs never change; RunStatus and
// ScaffoldOutput do.
type Scaffold struct {
	ID               string                     `json:"id" doc:"UUIDv7"`
	Environment      string                     `json:"environment"`
	Domain           string                     `json:"domain"`
	Region           string                     `json:"region"`
	Email            string                     `json:"email"`
	RepositoryURL    string                     `json:"repository_url"`
	Branch           string                     `json:"branch"`
	ProvisionID      string                     `json:"provision_id,omitempty" doc:"Run that has built the cluster"`
	Server           string                     `json:"server" doc:"URL of the cluster's API server"`
	CredentialID     string                     `json:"credential_id,omitempty" doc:"AWS credential that the cluster is used with"`
	Services         map[string]ScaffoldService `json:"services,omitempty"`
	RegistryServer   string                     `json:"registry_server"`
	RegistryUsername string                     `json:"registry_username"`
	Mode             PushMode                   `json:"mode"`
	RotateSecrets    bool                       `json:"rotate_secrets,omitempty"`
	AllowDeletion    bool                       `json:"allow_deletion,omitempty"`
	DryRun           bool                       `json:"dry_run,omitempty"`
	RetryOf          string                     `json:"retry_of,omitempty" doc:"Id of the run that this one repeats"`
	RequestedBy      string                     `json:"requested_by,omitempty" doc:"Name of the API key that started the run"`
	ScaffoldOutput
	RunStatus
}

// ScaffoldOutput is what a scaffolding run has made, as far as it has come.
type ScaffoldOutput struct {
	GitOpsPath             string           `json:"gitops_path,omitempty" doc:"Folder of the repository that Flux is pointed at; absent until it is pushed"`
	Commits                *ScaffoldCommits `json:"commits,omitempty" doc:"Commits of the branch that hold the tree"`
	PushedBranch           string           `json:"pushed_branch,omitempty" doc:"Branch that is to be merged (mode pull_request)"`
	CertificateFingerprint string           `json:"certificate_fingerprint,omitempty" doc:"SHA-256 of the certificate that the secrets are sealed for, in hexadecimal"`
}

// ScaffoldCommits are the commits of both passes. A pass that had nothing to change
// names the commit that it found.
type ScaffoldCommits struct {
	Infrastructure string `json:"infrastructure,omitempty" doc:"Of the first pass; absent if sealed-secrets was there already, so that there was none"`
	Complete       string `json:"complete,omitempty" doc:"Of the second pass"`
}

// ScaffoldList is one page of GET /api/v1/scaffolds, newest first.
type ScaffoldList struct {
	Scaffolds  []Scaffold `json:"scaffolds"`
	NextCursor string     `json:"next_cursor,omitempty" doc:"Pass it as cursor for the next page; absent on the last one"`
}
