package provisioncmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/runcmd"
	"github.com/kubeopera/platform/shared/api"
)

func (c *commands) retry() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retry RUN",
		Short: "Start a run with the inputs of one that failed or was cancelled",
		Long: `Start a new run with the inputs of one that failed or was cancelled. Terraform goes
on from the state that it left.`,
		Example: runcmd.Example("provision retry", "--wait"),
		Args:    c.OneRun, ValidArgsFunction: c.Complete(func(run api.Provision) bool { return runcmd.MayRetry(run.Status) }),
	}
	c.Start(cmd, func(ctx context.Context, s service, args []string) (api.Provision, error) {
		return s.RetryProvision(ctx, args[0])
	})
	return cmd
}
