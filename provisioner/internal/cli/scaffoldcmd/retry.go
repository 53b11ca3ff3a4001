package scaffoldcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/request"
	"github.com/kubeopera/platform/provisioner/internal/cli/runcmd"
	"github.com/kubeopera/platform/shared/api"
)

// secret is one that a retry has to bring again.
type secret struct {
	field    string // of the request's body
	flag     string
	variable string // of the environment; there may be none
	usage    string
	value    func(*api.ScaffoldSecrets) *string
}

var secrets = []secret{
	{"token", "repository-token-file", tokenVariable, "the access token or password for the repository", func(q *api.ScaffoldSecrets) *string { return &q.Token }},
	{"ssh_key", "repository-ssh-key-file", sshKeyVariable, "the SSH private key for the repository", func(q *api.ScaffoldSecrets) *string { return &q.SSHKey }},
	{"kubeconfig", "target-kubeconfig", "", "kubeconfig of the same cluster", func(q *api.ScaffoldSecrets) *string { return &q.Kubeconfig }},
	{"registry_password", "registry-password-file", passwordVariable, "the password for the registry", func(q *api.ScaffoldSecrets) *string { return &q.RegistryPassword }},
	{"signing_key", "signing-key-file", signingKeyVariable, "the SSH private key that signs the commits", func(q *api.ScaffoldSecrets) *string { return &q.SigningKey }},
}

func (c *commands) retry() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retry RUN",
		Short: "Start a run with the inputs of one that failed or was cancelled",
		Long: `Start a new run with the inputs of one that failed or was cancelled. It goes on from
what that one has pushed.

The secrets that its request held in clear have been kept by nobody, so that they
have to be given again, all of them and no others: by files or in the environment,
as for create. The service says which are missing.`,
		Example: runcmd.Example("scaffold retry", "--registry-password-file robot.password --wait"),
		Args:    c.OneRun, ValidArgsFunction: c.Complete(func(run api.Scaffold) bool { return runcmd.MayRetry(run.Status) }),
	}
	r := request.For[api.ScaffoldSecrets](cmd)
	for _, s := range secrets {
		if s.variable == "" {
			request.Content(r, s.flag, s.usage, s.value)
		} else {
			request.Secret(r, s.flag, s.variable, s.usage, s.value)
		}
	}
	r.Always(func(in *request.Input, q *api.ScaffoldSecrets) error {
		for _, s := range secrets {
			if value := s.value(q); *value == "" && s.variable != "" {
				*value = in.Getenv(s.variable)
			}
		}
		return nil
	})
	c.Start(cmd, func(ctx context.Context, s service, args []string) (api.Scaffold, error) {
		q, err := r.Read(c.session.Input())
		if err != nil {
			return api.Scaffold{}, err
		}
		run, err := s.RetryScaffold(ctx, args[0], q)
		return run, withFlags(err)
	})
	return cmd
}

// withFlags adds to what the service says of secrets where they can be given, or
// where one comes from that it does not want.
func withFlags(err error) error {
	p, ok := errors.AsType[*api.Problem](err)
	if !ok {
		return err
	}
	var b strings.Builder
	for _, problem := range p.Errors {
		for _, s := range secrets {
			if problem.Location != "body."+s.field {
				continue
			}
			fmt.Fprintf(&b, "\n  %s is --%s", s.field, s.flag)
			if s.variable != "" {
				fmt.Fprintf(&b, " or $%s", s.variable)
			}
		}
	}
	return fmt.Errorf("%w%s", err, b.String())
}
