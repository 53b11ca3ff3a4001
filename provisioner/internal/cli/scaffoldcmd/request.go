package scaffoldcmd

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/request"
	"github.com/kubeopera/platform/shared/api"
)

// Variables of the environment with secrets for requests.
const (
	tokenVariable      = "KUBEOPERA_REPOSITORY_TOKEN" //nolint:gosec // where it is, not what
	sshKeyVariable     = "KUBEOPERA_REPOSITORY_SSH_KEY"
	passwordVariable   = "KUBEOPERA_REGISTRY_PASSWORD" //nolint:gosec // where it is, not what
	signingKeyVariable = "KUBEOPERA_SIGNING_KEY"
)

// addRequestFlags adds -f and a flag for each field.
func addRequestFlags(cmd *cobra.Command) *request.Flags[api.ScaffoldRequest] {
	type query = api.ScaffoldRequest
	r := request.New[query](cmd)
	request.Text(r, "environment", "name of the environment: a DNS label", func(q *query) *string { return &q.Environment })
	request.Text(r, "domain", "DNS name that the hostnames of the services end in", func(q *query) *string { return &q.Domain })
	request.Text(r, "region", "AWS region of the domain's zone", func(q *query) *string { return &q.Region })
	request.Text(r, "email", "address that the certificate authority writes to", func(q *query) *string { return &q.Email })

	request.Text(r, "repository-url", "repository that the tree goes to: https://host/path, ssh://user@host/path or user@host:path (default: the platform's own)", func(q *query) *string { return &repository(q).URL })
	request.Text(r, "repository-branch", "branch that Flux follows (default main)", func(q *query) *string { return &repository(q).Branch })
	request.Text(r, "repository-credential-id", "id of the Git credential in auth-service", func(q *query) *string { return &repository(q).CredentialID })
	request.Text(r, "repository-username", "user that the token belongs to (default git)", func(q *query) *string { return &repository(q).Username })
	request.Secret(r, "repository-token-file", tokenVariable, "the access token or password for the repository, by https", func(q *query) *string { return &repository(q).Token })
	request.Secret(r, "repository-ssh-key-file", sshKeyVariable, "the SSH private key for the repository, without a passphrase", func(q *query) *string { return &repository(q).SSHKey })
	request.Content(r, "repository-known-hosts", "host keys of the repository's server, in the form of known_hosts", func(q *query) *string { return &repository(q).KnownHosts })

	request.Text(r, "target-provision-id", "run of `kubeopera provision` that has built the cluster", func(q *query) *string { return &q.Target.ProvisionID })
	request.Content(r, "target-kubeconfig", "kubeconfig of the cluster, with all that it needs inside", func(q *query) *string { return &q.Target.Kubeconfig })
	request.Text(r, "target-credential-id", "id of the AWS credential that may use the cluster", func(q *query) *string { return &q.Target.CredentialID })
	request.Content(r, "target-certificate", "certificate of the cluster's sealed-secrets controller as PEM, for when the run cannot fetch it", func(q *query) *string { return &q.Target.Certificate })

	services := cmd.Flags().StringSlice("services", nil, "services to have, as name or name=hostname separated by commas (default: all)")
	r.When("services", func(_ *request.Input, q *query) error {
		q.Services = map[string]api.ScaffoldService{}
		for _, s := range *services {
			name, hostname, _ := strings.Cut(s, "=")
			q.Services[name] = api.ScaffoldService{Hostname: hostname}
		}
		return nil
	})

	request.Text(r, "registry-server", "registry that the services' images come from: host or host:port", func(q *query) *string { return &q.Registry.Server })
	request.Text(r, "registry-username", "user at the registry", func(q *query) *string { return &q.Registry.Username })
	request.Secret(r, "registry-password-file", passwordVariable, "the password for the registry", func(q *query) *string { return &q.Registry.Password })

	request.Text(r, "mode", "push, or pull_request: a branch is pushed, and the run waits until it is merged (default push)", func(q *query) *api.PushMode { return &q.Mode })
	request.Secret(r, "signing-key-file", signingKeyVariable, "the SSH private key that signs the commits, without a passphrase", func(q *query) *string { return &q.SigningKey })
	request.Bool(r, "rotate-secrets", "make new passwords for what the environment has already", func(q *query) *bool { return &q.RotateSecrets })
	request.Bool(r, "allow-deletion", "let sealed secrets, namespaces, databases and layers go that the base no longer has", func(q *query) *bool { return &q.AllowDeletion })
	request.Bool(r, "dry-run", "push nothing; scaffold diff shows the diff once the run has succeeded", func(q *query) *bool { return &q.DryRun })
	r.Always(fromEnvironment)

	r.Values("mode", string(api.PushDirect), string(api.PushPullRequest))
	for _, name := range []string{
		"environment", "domain", "region", "email", "repository-url", "repository-branch", "repository-credential-id", "repository-username",
		"target-provision-id", "target-credential-id", "services", "registry-server", "registry-username",
	} {
		r.Values(name)
	}
	return r
}

func repository(q *api.ScaffoldRequest) *api.ScaffoldRepository {
	if q.Repository == nil {
		q.Repository = &api.ScaffoldRepository{}
	}
	return q.Repository
}

// fromEnvironment fills in the secrets that nothing else gives. Those for a
// repository are for one that is named, and of the sort that its URL wants.
func fromEnvironment(in *request.Input, q *api.ScaffoldRequest) error {
	fill := func(field *string, variable string) {
		if *field == "" {
			*field = in.Getenv(variable)
		}
	}
	if r := q.Repository; r != nil && r.URL != "" && r.CredentialID == "" && r.Token == "" && r.SSHKey == "" {
		if strings.HasPrefix(r.URL, "https://") {
			fill(&r.Token, tokenVariable)
		} else {
			fill(&r.SSHKey, sshKeyVariable)
		}
	}
	fill(&q.Registry.Password, passwordVariable)
	fill(&q.SigningKey, signingKeyVariable)
	return nil
}
