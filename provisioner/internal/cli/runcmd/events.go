package runcmd

import (
	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/output"
	"github.com/kubeopera/platform/shared/api"
)

// Events is the command that shows a run's timeline.
func (k *Kind[Run, S]) Events() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "events RUN",
		Short:   "Show the timeline of a run",
		Example: Example(k.Command+" events", ""),
		Args:    k.OneRun, ValidArgsFunction: k.Complete(func(Run) bool { return true }),
	}
	format := output.Flag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := k.Connect("")
		if err != nil {
			return err
		}
		events, err := s.Events(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		r := output.Result{Value: api.EventList{Events: events}, Names: []string{args[0]}, Rows: [][]string{{"at", "status", "phase", "by", "message"}}}
		for _, e := range events {
			message := e.Message
			if e.ErrorCode != "" {
				message += " (" + e.ErrorCode + ")"
			}
			r.Rows = append(r.Rows, []string{Stamp(e.At), string(e.Status), string(e.Phase), e.By, message})
		}
		return output.Print(k.Terminal.Out, *format, r)
	}
	return cmd
}
