package provisioncmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
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
		Example: `  kubeopera provision unlock 019ae2c5-6d1f-7c3e-8a55-0d6f6e6f2b11 --lock-id 6a3e0c3e-9f7e-4f2e-b2a4-0e6f3a1d2c11 --wait`,
		Args:    oneRun, ValidArgsFunction: c.completeRuns(func(run api.Provision) bool { return run.Lock != nil }),
	}
	lockID := cmd.Flags().String("lock-id", "", "id of the lock, from the run that it stopped")
	key, f := addKey(cmd), addFollowing(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		if *lockID == "" && !c.session.Terminal.Interactive() {
			return exit.Usagef("unlocking needs --lock-id where nobody can be asked")
		}
		p, err := c.session.Provisioner()
		if err != nil {
			return err
		}
		if *lockID == "" {
			run, err := p.Provision(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if run.Lock == nil {
				return errors.New("no lock is known to have stopped this run; use --lock-id")
			}
			answer, err := c.session.Terminal.Ask(cmd.Context(), fmt.Sprintf("%s is locked by %s since %s (lock %s).\nRemove the lock? Type yes to go on: ",
				terminal.Clean(run.TerraformEnvironment), terminal.Clean(run.Lock.Who), stamp(run.Lock.Created), terminal.Clean(run.Lock.ID)))
			if err != nil {
				return err
			}
			if answer != "yes" {
				return exit.Usagef("nothing was unlocked")
			}
			*lockID = run.Lock.ID
		}
		run, err := keyed(p, *key).UnlockProvision(cmd.Context(), args[0], *lockID)
		if err != nil {
			return err
		}
		return c.follow(cmd.Context(), p, run, f)
	}
	return cmd
}
