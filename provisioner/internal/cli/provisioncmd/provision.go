// Package provisioncmd is `kubeopera provision`: everything about runs of
// cluster-provisioner. A file holds a command.
package provisioncmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/session"
)

// commands is what the commands share.
type commands struct {
	session *session.Session
}

// New makes the command with its subcommands.
func New(s *session.Session) *cobra.Command {
	c := &commands{session: s}
	root := &cobra.Command{
		Use:     "provision",
		Aliases: []string{"provisions"},
		Short:   "Provision Kubernetes clusters: start, watch and end runs",
		Long: `Provision Kubernetes clusters.

A run does one thing to one environment: it applies, plans, destroys or unlocks.
Runs never change what they do: retry, destroy and unlock start new ones.`,
	}
	root.AddCommand(
		c.create(), c.plan(), c.get(), c.list(), c.logs(), c.events(), c.kubeconfig(),
		c.cancel(), c.retry(), c.destroy(), c.unlock(),
	)
	return root
}

// oneRun accepts the id of a run.
func oneRun(_ *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return exit.Usagef("needs the id of one run, such as `kubeopera provision list` shows")
	}
	return nil
}

func none(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.Usagef("takes no arguments")
	}
	return nil
}

// completionTimeout is how long somebody who presses Tab waits.
const completionTimeout = 3 * time.Second

func timeLimit(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, d, errTimeout)
}

// errTimeout is the cause of a context that --timeout has ended.
var errTimeout = fmt.Errorf("--timeout is over")
