package provisioncmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/runcmd"
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
		Example: runcmd.Example("provision destroy", "--wait"),
		Args:    c.OneRun, ValidArgsFunction: c.Complete(func(run api.Provision) bool { return run.Operation == api.OperationApply }),
	}
	yes := cmd.Flags().BoolP("yes", "y", false, "do not ask")
	c.Start(cmd, func(ctx context.Context, s service, args []string) (api.Provision, error) {
		if !*yes {
			if err := c.askForName(ctx, s, args[0]); err != nil {
				return api.Provision{}, err
			}
		}
		return s.DestroyProvision(ctx, args[0])
	})
	return cmd
}

// askForName is an error unless somebody types the name of a run's environment.
func (c *commands) askForName(ctx context.Context, s service, id string) error {
	if !c.session.Terminal.Interactive() {
		return exit.Usagef("destroying needs --yes where nobody can be asked")
	}
	run, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	environment := run.TerraformEnvironment
	answer, err := c.session.Terminal.Ask(ctx, fmt.Sprintf("This destroys %s (%s, %s) with all that is in it. Type its name to go on: ",
		terminal.Clean(environment), terminal.Clean(string(run.Topology)), terminal.Clean(run.Region)))
	if err != nil {
		return err
	}
	if answer != environment {
		return exit.Usagef("that is not its name; nothing was destroyed")
	}
	return nil
}
