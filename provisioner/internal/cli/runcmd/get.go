package runcmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/output"
	"github.com/kubeopera/platform/provisioner/internal/cli/progress"
)

// Get is the command that shows a run.
func (k *Kind[Run, S]) Get() *cobra.Command {
	command := k.Command + " get"
	cmd := &cobra.Command{
		Use:     "get RUN",
		Short:   "Show a run, or wait for its end",
		Example: Example(command, "") + "\n" + Example(command, "--wait --timeout 45m") + "\n" + Example(command, "-o json"),
		Args:    k.OneRun, ValidArgsFunction: k.Complete(func(Run) bool { return true }),
	}
	k.Act(cmd, func(ctx context.Context, s S, args []string) (Run, error) { return s.Get(ctx, args[0]) })
	return cmd
}

// oneRun is a run in all detail.
func (k *Kind[Run, S]) oneRun(run Run, now time.Time) output.Result {
	v := k.View(run)
	r := output.Result{Value: run, Names: []string{v.ID}, Fields: true}
	add := func(name, value string) {
		if value != "" {
			r.Rows = append(r.Rows, []string{name, value})
		}
	}
	addAll := func(rows [][]string) {
		for _, row := range rows {
			add(row[0], row[1])
		}
	}
	add("Run", v.ID)
	add("Operation", string(v.Operation))
	addAll(v.Inputs)
	add("Retry of", v.RetryOf)
	add("Requested by", v.RequestedBy)
	status := string(v.Status)
	if v.Phase != "" && !progress.Final(v.Status) {
		status += ", " + string(v.Phase)
	}
	add("Status", status)
	if v.QueuePosition > 0 {
		add("Queue", fmt.Sprintf("place %d", v.QueuePosition))
	}
	add("Message", v.Message)
	add("Error code", v.ErrorCode)
	if p := v.Progress; p != nil && p.Total > 0 {
		add("Progress", fmt.Sprintf("%d of %d %s", p.Done, p.Total, v.Unit))
	}
	for _, n := range v.Nodes {
		value := n.Name + "  " + string(n.State)
		if n.Message != "" {
			value += "  " + n.Message
		}
		add("Node", value)
	}
	for _, f := range v.Made {
		add(f.Name, f.Value)
	}
	addAll(v.Outputs)
	add("Created", Stamp(v.CreatedAt))
	if v.StartedAt != nil {
		add("Started", Stamp(*v.StartedAt))
	}
	if v.FinishedAt != nil {
		add("Finished", Stamp(*v.FinishedAt)+" after "+progress.Elapsed(v.RunStatus, now))
	}
	return r
}
