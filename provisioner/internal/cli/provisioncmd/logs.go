package provisioncmd

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
	"github.com/kubeopera/platform/shared/client"
)

func (c *commands) logs() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logs RUN",
		Short: "Print the log of a run",
		Long: `Print the log of a run, which outlives its pod.

With --follow it goes on until the run has ended, also when the connection breaks
or the service restarts; no line is repeated.`,
		Example: `  kubeopera provision logs 019ae2c5-6d1f-7c3e-8a55-0d6f6e6f2b11 --tail 20 --follow`,
		Args:    oneRun, ValidArgsFunction: c.completeRuns(allRuns),
	}
	follow := cmd.Flags().BoolP("follow", "f", false, "go on until the run has ended")
	tail := cmd.Flags().Int("tail", 0, "only so many of the last lines; 0 for all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *tail < 0 {
			return exit.Usagef("--tail must not be negative")
		}
		p, err := c.session.Provisioner()
		if err != nil {
			return err
		}
		out := c.screen()
		if *follow {
			return p.FollowLogs(cmd.Context(), args[0], *tail, out)
		}
		log, err := p.Logs(cmd.Context(), args[0], client.LogOptions{Tail: *tail})
		if err != nil {
			return err
		}
		defer func() { _ = log.Close() }() // only read from
		_, err = io.Copy(out, log)
		return err
	}
	return cmd
}

// screen is where text of others goes: as it is, unless it could steer a terminal.
func (c *commands) screen() io.Writer {
	out := c.session.Terminal.Out
	if terminal.IsTerminal(out) {
		return terminal.CleanWriter(out)
	}
	return out
}
