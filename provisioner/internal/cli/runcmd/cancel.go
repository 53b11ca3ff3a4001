package runcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/progress"
)

// Cancel is the command that asks a run to stop. graceful and forced are sentences
// about what either does to a run of this kind.
func (k *Kind[Run, S]) Cancel(graceful, forced string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel RUN",
		Short: "Ask a run to stop",
		Long: graceful + "\n\n" + forced + `

With --wait the exit code is 4 once the run is cancelled, and that of its end if it
came first.`,
		Example: Example(k.Command+" cancel", "--wait"),
		Args:    k.OneRun, ValidArgsFunction: k.Complete(func(run Run) bool { return !progress.Final(k.View(run).Status) }),
	}
	force := cmd.Flags().Bool("force", false, "kill a run that a graceful cancel did not end in time")
	k.Act(cmd, func(ctx context.Context, s S, args []string) (Run, error) { return s.Cancel(ctx, args[0], *force) })
	return cmd
}
