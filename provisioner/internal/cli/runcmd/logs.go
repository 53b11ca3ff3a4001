package runcmd

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/shared/client"
)

// Logs is the command that prints a run's log.
func (k *Kind[Run, S]) Logs() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logs RUN",
		Short: "Print the log of a run",
		Long: `Print the log of a run, which outlives its pod.

With --follow it goes on until the run has ended, also when the connection breaks
or the service restarts; no line is repeated.`,
		Example: Example(k.Command+" logs", "--tail 20 --follow"),
		Args:    k.OneRun, ValidArgsFunction: k.Complete(func(Run) bool { return true }),
	}
	follow := cmd.Flags().BoolP("follow", "f", false, "go on until the run has ended")
	tail := cmd.Flags().Int("tail", 0, "only so many of the last lines; 0 for all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *tail < 0 {
			return exit.Usagef("--tail must not be negative")
		}
		s, err := k.Connect("")
		if err != nil {
			return err
		}
		out := k.Screen()
		if *follow {
			return s.FollowLogs(cmd.Context(), args[0], *tail, out)
		}
		log, err := s.Logs(cmd.Context(), args[0], client.LogOptions{Tail: *tail})
		if err != nil {
			return err
		}
		defer func() { _ = log.Close() }() // only read from
		_, err = io.Copy(out, log)
		return err
	}
	return cmd
}
