package provisioncmd

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/output"
	"github.com/kubeopera/platform/provisioner/internal/cli/progress"
	"github.com/kubeopera/platform/shared/api"
)

func (c *commands) get() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get RUN",
		Short: "Show a run, or wait for its end",
		Example: `  kubeopera provision get 019ae2c5-6d1f-7c3e-8a55-0d6f6e6f2b11
  kubeopera provision get 019ae2c5-6d1f-7c3e-8a55-0d6f6e6f2b11 --wait --timeout 45m
  kubeopera provision get 019ae2c5-6d1f-7c3e-8a55-0d6f6e6f2b11 -o json`,
		Args: oneRun, ValidArgsFunction: c.completeRuns(allRuns),
	}
	f := addFollowing(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		p, err := c.session.Provisioner()
		if err != nil {
			return err
		}
		run, err := p.Provision(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return c.follow(cmd.Context(), p, run, f)
	}
	return cmd
}

// oneRun is a run in all detail.
func (c *commands) oneRun(run api.Provision) output.Result {
	r := output.Result{Value: run, Names: []string{run.ID}, Fields: true}
	add := func(name, value string) {
		if value != "" {
			r.Rows = append(r.Rows, []string{name, value})
		}
	}
	add("Run", run.ID)
	add("Operation", string(run.Operation))
	add("Name", run.Name)
	add("Environment", run.TerraformEnvironment)
	add("Topology", string(run.Topology))
	add("Region", run.Region)
	add("Kubernetes", run.KubernetesVersion)
	add("Retry of", run.RetryOf)
	add("Requested by", run.RequestedBy)
	status := string(run.Status)
	if run.Phase != "" && !progress.Final(run.Status) {
		status += ", " + string(run.Phase)
	}
	add("Status", status)
	if run.QueuePosition > 0 {
		add("Queue", fmt.Sprintf("place %d", run.QueuePosition))
	}
	add("Message", run.Message)
	add("Error code", run.ErrorCode)
	if p := run.Progress; p != nil && p.Total > 0 {
		add("Resources", fmt.Sprintf("%d of %d", p.Done, p.Total))
	}
	if ch := run.Changes; ch != nil {
		add("Changes", fmt.Sprintf("%d to add, %d to change, %d to destroy", ch.Add, ch.Change, ch.Remove))
	}
	for _, n := range run.Nodes {
		value := n.Name + "  " + string(n.State)
		if n.Message != "" {
			value += "  " + n.Message
		}
		add("Node", value)
	}
	if l := run.Lock; l != nil {
		add("Lock", l.ID)
		add("Locked by", l.Who)
		add("Locked at", stamp(l.Created))
	}
	add("Created", stamp(run.CreatedAt))
	if run.StartedAt != nil {
		add("Started", stamp(*run.StartedAt))
	}
	if run.FinishedAt != nil {
		add("Finished", stamp(*run.FinishedAt)+" after "+progress.Elapsed(run, time.Now()))
	}
	return r
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
