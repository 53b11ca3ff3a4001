package scaffoldcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/runcmd"
	"github.com/kubeopera/platform/shared/api"
)

func (c *commands) create() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create [-f FILE] [flags]",
		Short: "Start a run that makes or renews an environment's tree",
		Long: `Start a run that makes the GitOps tree of an environment, or brings the one that there
is up to date. What has not changed makes no commit.

The request comes from a file, from flags, or from both: flags overrule the file.
Secrets are never arguments: flags name files that hold them, - being standard
input, and what neither a flag nor the file gives is taken from the environment.
Without --wait the command returns once the run is accepted.`,
		Example: `  kubeopera scaffold create --environment acme-prod --domain acme.example.com --region eu-west-1 \
    --email ops@acme.example.com --target-provision-id 019ae2c5-6d1f-7c3e-8a55-0d6f6e6f2b11 \
    --registry-server registry.example.com --registry-username robot --registry-password-file robot.password --wait

  # what would it change?
  RUN=$(kubeopera scaffold create -f acme-prod.yaml --dry-run --wait -o name)
  kubeopera scaffold diff $RUN`,
		Args: runcmd.NoArguments, ValidArgsFunction: cobra.NoFileCompletions,
	}
	r := addRequestFlags(cmd)
	c.Start(cmd, func(ctx context.Context, s service, _ []string) (api.Scaffold, error) {
		q, err := r.Read(c.session.Input())
		if err != nil {
			return api.Scaffold{}, err
		}
		return s.StartScaffold(ctx, q)
	})
	return cmd
}
