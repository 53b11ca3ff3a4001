package provisioncmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
	"github.com/kubeopera/platform/shared/api"
)

func (c *commands) destroy() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "destroy RUN",
		Aliases: []string{"delete"},
		Short:   "Start a run that destroys the environment of a run",
		Long: `Start a new run that destroys the environment of a run: the cluster, its network and
all that is in them. Nothing brings it back.

On a terminal the name of the environment has to be typed; elsewhere --yes is needed.`,
		Example: `  kubeopera provision destroy 019ae2c5-6d1f-7c3e-8a55-0d6f6e6f2b11 --wait`,
		Args:    oneRun, ValidArgsFunction: c.completeRuns(func(run api.Provision) bool { return run.Operation == api.OperationApply }),
	}
	yes := cmd.Flags().BoolP("yes", "y", false, "do not ask")
	key, f := addKey(cmd), addFollowing(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		if !*yes && !c.session.Terminal.Interactive() {
			return exit.Usagef("destroying needs --yes where nobody can be asked")
		}
		p, err := c.session.Provisioner()
		if err != nil {
			return err
		}
		if !*yes {
			run, err := p.Provision(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			environment := run.TerraformEnvironment
			answer, err := c.session.Terminal.Ask(cmd.Context(), fmt.Sprintf("This destroys %s (%s, %s) with all that is in it. Type its name to go on: ",
				terminal.Clean(environment), terminal.Clean(string(run.Topology)), terminal.Clean(run.Region)))
			if err != nil {
				return err
			}
			if answer != environment {
				return exit.Usagef("that is not its name; nothing was destroyed")
			}
		}
		run, err := keyed(p, *key).DestroyProvision(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return c.follow(cmd.Context(), p, run, f)
	}
	return cmd
}
