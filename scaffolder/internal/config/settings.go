package config

import (
	"errors"
	"net/mail"
	"strings"

	"github.com/kubeopera/platform/scaffolder/internal/scaffold"
	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/envconfig"
	"github.com/kubeopera/platform/shared/runserver"
	"github.com/kubeopera/platform/shared/runservice"
)

// anyService is the value of SERVICES that leaves it to the repository.
const anyService = "*"

// Settings are all variables, in the order of --help.
func Settings() []envconfig.Setting[Config] {
	common := runserver.Settings(runserver.Defaults{
		Database: "sqlite:gitops-scaffolder.db", RunTimeout: "60m", GracePeriod: "2m",
		Work: "it is ended; merges have time of their own", Saving: "an interrupted run may take to end what it pushes",
	})
	return append(envconfig.Within(common, func(c *Config) *runserver.Config { return &c.Config }), []envconfig.Setting[Config]{
		{Name: "CLUSTER_PROVISIONER_URL", Help: "base URL of cluster-provisioner, for target.provision_id; unset: requests bring kubeconfigs", Set: func(c *Config, v string) error {
			return envconfig.WebURL(&c.ProvisionerURL, v)
		}},
		{Name: "CLUSTER_PROVISIONER_API_KEY_FILE", Help: "file with this service's API key for cluster-provisioner", Set: func(c *Config, v string) error {
			return envconfig.Text(&c.ProvisionerAPIKeyFile, v)
		}},
		{Name: "GITOPS_REPOSITORY_URL", Help: "https or ssh URL of the platform's own repository, without a credential; unset: requests name one", Set: func(c *Config, v string) (err error) {
			c.Repository.URL, c.Repository.Platform = v, true
			c.Repository.Auth, err = scaffold.CheckRepositoryURL(v)
			return err
		}},
		{Name: "GITOPS_REPOSITORY_BRANCH", Fallback: scaffold.DefaultBranch, Help: "branch of that repository that Flux follows", Set: func(c *Config, v string) error {
			c.Repository.Branch = v
			return scaffold.CheckBranch(v)
		}},
		{Name: "GITOPS_USERNAME", Fallback: "git", Help: "user of that repository that the token belongs to", Set: func(c *Config, v string) error {
			c.Repository.Username = v
			return cloudcred.CheckUsername(v)
		}},
		{Name: "GITOPS_TOKEN_FILE", Help: "file with a token that may write that repository, for https", Set: func(c *Config, v string) error {
			return envconfig.Text(&c.Files.Token, v)
		}},
		{Name: "GITOPS_SSH_KEY_FILE", Help: "file with a private key that may write that repository, for ssh", Set: func(c *Config, v string) error {
			return envconfig.Text(&c.Files.SSHKey, v)
		}},
		{Name: "GITOPS_KNOWN_HOSTS_FILE", Help: "file with that repository's server's host keys, for ssh", Set: func(c *Config, v string) error {
			return envconfig.Text(&c.Files.KnownHosts, v)
		}},
		{Name: "GIT_CA_CONFIGMAP", Help: "ConfigMap in NAMESPACE with a CA of Git servers under the key ca.crt; unset: publicly trusted ones only", Set: func(c *Config, v string) error {
			return envconfig.Name(&c.CAConfigMap, v)
		}},
		{Name: "COMMIT_AUTHOR", Fallback: "KubeOpera <gitops-scaffolder@kubeopera.invalid>", Help: "author of commits", Set: func(c *Config, v string) error {
			a, err := mail.ParseAddress(v)
			if err != nil || a.Name == "" || strings.ContainsAny(a.Name+a.Address, "<>\n") {
				return errors.New("must be name <address>")
			}
			c.AuthorName, c.AuthorEmail = a.Name, a.Address
			return nil
		}},
		{Name: "SIGNING_KEY_FILE", Help: "file with an SSH private key that signs commits; unset: only requests with a key of their own are signed", Set: func(c *Config, v string) error {
			return envconfig.Text(&c.Files.SigningKey, v)
		}},
		{Name: "DIGEST_KEY_FILE", Required: true, Help: "file with a secret of at least 32 bytes that never changes, from which the keys come that tell whether a sealed value is still the same", Set: func(c *Config, v string) error {
			return envconfig.Text(&c.Files.DigestSecret, v)
		}},
		{Name: "SERVICES", Fallback: "auth-service,build-service,cicd-gateway,cluster-provisioner,gateway,gitops-scaffolder,host-cluster-controller,web-console", Help: "services that requests may choose from; * leaves that to the repository", Set: func(c *Config, v string) error {
			if v == anyService {
				return nil
			}
			if err := envconfig.List(&c.Services, v); err != nil {
				return err
			}
			for _, s := range c.Services {
				if !runservice.IsLabel(s) {
					return errors.New("must be names of services between commas, or *")
				}
			}
			return nil
		}},
		{Name: "SEALED_SECRETS_TIMEOUT", Fallback: "20m", Help: "how long sealed-secrets may take to be available on the target", Set: func(c *Config, v string) error {
			return envconfig.Duration(&c.SealedSecretsTimeout, v)
		}},
		{Name: "MERGE_TIMEOUT", Fallback: "8h", Help: "how long each branch of mode pull_request may take to be merged", Set: func(c *Config, v string) error {
			return envconfig.Duration(&c.MergeTimeout, v)
		}},
		{Name: "POLL_INTERVAL", Fallback: "5s", Help: "how often a run looks at the target, and at a branch that is to be merged", Set: func(c *Config, v string) error {
			return envconfig.Duration(&c.PollInterval, v)
		}},
	}...)
}
