package envcmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/runcmd"
	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
)

func (c *commands) reset() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reset -f FILE --machines FILE",
		Short: "Take Kubernetes off a cluster's machines",
		Long: `Take Kubernetes off a cluster's machines, workers first. The cluster and all that is
stored in it is gone then; container runtime, driver and packages stay.

On a terminal the name of the environment has to be typed; elsewhere --yes is needed.`,
		Example: `  kubeopera env reset -f environment.yaml --machines machines.yaml`,
		Args:    runcmd.NoArguments, ValidArgsFunction: cobra.NoFileCompletions,
	}
	o := c.addOptions(cmd)
	yes := cmd.Flags().BoolP("yes", "y", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.check(); err != nil {
			return err
		}
		if !*yes && !c.session.Terminal.Interactive() {
			return exit.Usagef("resetting needs --yes where nobody can be asked")
		}
		t, err := c.target(cmd.Context(), o)
		if err != nil {
			return err
		}
		defer t.close()
		if t.env.Spec.Cluster == nil {
			return exit.Usagef("only a cluster can be reset, and spec.cluster is not set")
		}
		if !*yes {
			answer, err := c.session.Terminal.Ask(cmd.Context(), fmt.Sprintf("This takes the cluster %s off %d machines, with all that is stored in it. Type its name to go on: ", terminal.Clean(t.env.Name), len(t.nodes)))
			if err != nil {
				return err
			}
			if answer != t.env.Name {
				return exit.Usagef("that is not its name; nothing was reset")
			}
		}
		ctx, cancel := runcmd.TimeLimit(cmd.Context(), o.timeout)
		defer cancel()
		return c.show(ctx, o, t, newWatch("reset", t), func(w *watch) (result, error) {
			r, err := c.library.Cluster(t, c.log(o, func(string) {}), w.node).ResetCluster(ctx, t.nodes)
			return resultOf(r), err
		})
	}
	return cmd
}
