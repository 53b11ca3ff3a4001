package provisioncmd

import (
	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/progress"
	"github.com/kubeopera/platform/shared/api"
)

func (c *commands) cancel() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel RUN",
		Short: "Ask a run to stop",
		Long: `Ask a run to stop. Terraform is interrupted once and saves its state; that takes as
long as the resource that it is working on. What has been built stays: retry or
destroy the run afterwards.

--force kills what has not ended in its grace period. The service refuses it before
a graceful cancel has had its time, since resources may be lost track of.

With --wait the exit code is 4 once the run is cancelled, and that of its end if it
came first.`,
		Example: `  kubeopera provision cancel 019ae2c5-6d1f-7c3e-8a55-0d6f6e6f2b11 --wait`,
		Args:    oneRun, ValidArgsFunction: c.completeRuns(func(run api.Provision) bool { return !progress.Final(run.Status) }),
	}
	force := cmd.Flags().Bool("force", false, "kill a run that a graceful cancel did not end in time")
	f := addFollowing(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		p, err := c.session.Provisioner()
		if err != nil {
			return err
		}
		run, err := p.CancelProvision(cmd.Context(), args[0], *force)
		if err != nil {
			return err
		}
		return c.follow(cmd.Context(), p, run, f)
	}
	return cmd
}
