package provisioncmd

import (
	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/output"
	"github.com/kubeopera/platform/shared/api"
)

func (c *commands) events() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "events RUN",
		Short:   "Show the timeline of a run",
		Example: `  kubeopera provision events 019ae2c5-6d1f-7c3e-8a55-0d6f6e6f2b11`,
		Args:    oneRun, ValidArgsFunction: c.completeRuns(allRuns),
	}
	format := output.Flag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := c.session.Provisioner()
		if err != nil {
			return err
		}
		events, err := p.ProvisionEvents(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		r := output.Result{Value: api.EventList{Events: events}, Names: []string{args[0]}, Rows: [][]string{{"at", "status", "phase", "by", "message"}}}
		for _, e := range events {
			message := e.Message
			if e.ErrorCode != "" {
				message += " (" + e.ErrorCode + ")"
			}
			r.Rows = append(r.Rows, []string{stamp(e.At), string(e.Status), string(e.Phase), e.By, message})
		}
		return output.Print(c.session.Terminal.Out, *format, r)
	}
	return cmd
}
