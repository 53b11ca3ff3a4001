package config

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kubeopera/platform/scaffolder/internal/platform"
	"github.com/kubeopera/platform/scaffolder/internal/scaffold"
	"github.com/kubeopera/platform/shared/envconfig"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runserver"
)

// Config is the whole configuration of the service.
type Config struct {
	runserver.Config

	ProvisionerURL        string // empty: provision_id cannot be used
	ProvisionerAPIKeyFile string

	Repository scaffold.Repository // the platform's own; an empty URL: there is none
	Files      platform.Files

	CAConfigMap string // empty: Git servers are publicly trusted
	AuthorName  string
	AuthorEmail string
	Services    []string

	SealedSecretsTimeout time.Duration
	MergeTimeout         time.Duration
	PollInterval         time.Duration
}

// Read reads the configuration. Its error names every variable that is missing or
// wrong, and none of their values.
func Read(getenv func(string) string) (Config, error) {
	c, err := envconfig.Read(Settings(), getenv)
	if err != nil {
		return Config{}, err
	}
	return c, c.Check()
}

// Check says which variables do not fit together.
func (c Config) Check() error {
	var errs []error
	need := func(condition bool, what string) {
		if !condition {
			errs = append(errs, errors.New(what))
		}
	}
	need(c.ProvisionerURL == "" || c.ProvisionerAPIKeyFile != "", "CLUSTER_PROVISIONER_API_KEY_FILE is required with CLUSTER_PROVISIONER_URL")
	switch {
	case c.Repository.URL == "":
		need(c.Files.Token == "" && c.Files.SSHKey == "", "GITOPS_TOKEN_FILE and GITOPS_SSH_KEY_FILE are of no use without GITOPS_REPOSITORY_URL")
	case c.Repository.Auth == runcontract.RepositoryAuthToken:
		need(c.Files.Token != "", "GITOPS_TOKEN_FILE is required with an https GITOPS_REPOSITORY_URL")
	default:
		need(c.Files.SSHKey != "" && c.Files.KnownHosts != "", "GITOPS_SSH_KEY_FILE and GITOPS_KNOWN_HOSTS_FILE are required with an ssh GITOPS_REPOSITORY_URL")
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("configuration:\n%w", err)
	}
	return nil
}

// LogValue is the configuration for the log: secrets are files, and of what goes
// to the runner only the names are shown.
func (c Config) LogValue() slog.Value {
	return slog.GroupValue(append(c.Attrs(),
		slog.String("cluster_provisioner_url", c.ProvisionerURL),
		slog.String("cluster_provisioner_api_key_file", c.ProvisionerAPIKeyFile),
		slog.String("gitops_repository_url", c.Repository.URL),
		slog.String("gitops_repository_branch", c.Repository.Branch),
		slog.String("gitops_username", c.Repository.Username),
		slog.String("gitops_token_file", c.Files.Token),
		slog.String("gitops_ssh_key_file", c.Files.SSHKey),
		slog.String("gitops_known_hosts_file", c.Files.KnownHosts),
		slog.String("signing_key_file", c.Files.SigningKey),
		slog.String("digest_key_file", c.Files.DigestSecret),
		slog.String("git_ca_configmap", c.CAConfigMap),
		slog.String("commit_author_name", c.AuthorName),
		slog.String("commit_author_email", c.AuthorEmail),
		slog.Any("services", c.Services),
		slog.String("sealed_secrets_timeout", c.SealedSecretsTimeout.String()),
		slog.String("merge_timeout", c.MergeTimeout.String()),
		slog.String("poll_interval", c.PollInterval.String()),
	)...)
}
