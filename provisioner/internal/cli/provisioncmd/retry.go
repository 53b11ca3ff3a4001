package provisioncmd

import (
	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/shared/api"
)

func (c *commands) retry() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retry RUN",
		Short: "Start a run with the inputs of one that failed or was cancelled",
		Long: `Start a new run with the inputs of one that failed or was cancelled. Terraform goes
on from the state that it left.`,
		Example: `  kubeopera provision retry 019ae2c5-6d1f-7c3e-8a55-0d6f6e6f2b11 --wait`,
		Args:    oneRun, ValidArgsFunction: c.completeRuns(func(run api.Provision) bool {
			return run.Status == api.StatusFailed || run.Status == api.StatusCancelled
		}),
	}
	key, f := addKey(cmd), addFollowing(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		p, err := c.session.Provisioner()
		if err != nil {
			return err
		}
		run, err := keyed(p, *key).RetryProvision(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return c.follow(cmd.Context(), p, run, f)
	}
	return cmd
}
