package provisioncmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/runcmd"
	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
	"github.com/kubeopera/platform/shared/api"
)

func (c *commands) unlock() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "unlock RUN",
		Short: "Start a run that removes the lock which stopped a run",
		Long: `Start a new run that removes the lock on the Terraform state which stopped a run, if
it is still the same lock. The service refuses while a pod of the environment lives.

A lock that somebody still holds protects the state: make sure that nobody works on
the environment. --lock-id says which lock; on a terminal the one that stopped the
run is shown, and removed if you say yes.`,
		Example: runcmd.Example("provision unlock", "--lock-id 6a3e0c3e-9f7e-4f2e-b2a4-0e6f3a1d2c11 --wait"),
		Args:    c.OneRun, ValidArgsFunction: c.Complete(func(run api.Provision) bool { return run.Lock != nil }),
	}
	lockID := cmd.Flags().String("lock-id", "", "id of the lock, from the run that it stopped")
	c.Start(cmd, func(ctx context.Context, s service, args []string) (api.Provision, error) {
		if *lockID == "" {
			id, err := c.askForLock(ctx, s, args[0])
			if err != nil {
				return api.Provision{}, err
			}
			*lockID = id
		}
		return s.UnlockProvision(ctx, args[0], *lockID)
	})
	return cmd
}

// askForLock shows the lock that stopped a run and gives its id if it may go.
func (c *commands) askForLock(ctx context.Context, s service, id string) (string, error) {
	if !c.session.Terminal.Interactive() {
		return "", exit.Usagef("unlocking needs --lock-id where nobody can be asked")
	}
	run, err := s.Get(ctx, id)
	if err != nil {
		return "", err
	}
	if run.Lock == nil {
		return "", errors.New("no lock is known to have stopped this run; use --lock-id")
	}
	answer, err := c.session.Terminal.Ask(ctx, fmt.Sprintf("%s is locked by %s since %s (lock %s).\nRemove the lock? Type yes to go on: ",
		terminal.Clean(run.TerraformEnvironment), terminal.Clean(run.Lock.Who), runcmd.Stamp(run.Lock.Created), terminal.Clean(run.Lock.ID)))
	if err != nil {
		return "", err
	}
	if answer != "yes" {
		return "", exit.Usagef("nothing was unlocked")
	}
	return run.Lock.ID, nil
}
