package provisioncmd

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/output"
	"github.com/kubeopera/platform/provisioner/internal/cli/progress"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
)

// pageSize is the most that the service gives at once.
const pageSize = 100

var (
	statuses   = []string{string(api.StatusQueued), string(api.StatusRunning), string(api.StatusCancelling), string(api.StatusSucceeded), string(api.StatusFailed), string(api.StatusCancelled)}
	operations = []string{string(api.OperationApply), string(api.OperationPlan), string(api.OperationDestroy), string(api.OperationUnlock)}
)

func (c *commands) list() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List runs, newest first",
		Example: `  kubeopera provision list --environment acme-prod
  kubeopera provision list --status failed --created-after 24h
  kubeopera provision list --created-after 2026-11-01T00:00:00Z --limit 0 -o json`,
		Args: none, ValidArgsFunction: cobra.NoFileCompletions,
	}
	var status, operation, environment, after, before string
	var limit int
	flags := cmd.Flags()
	flags.StringVar(&status, "status", "", "only runs of this status")
	flags.StringVar(&operation, "operation", "", "only runs of this operation")
	flags.StringVar(&environment, "environment", "", "only runs of this Terraform environment")
	flags.StringVar(&after, "created-after", "", "only runs since then: a time (RFC 3339) or an age such as 24h")
	flags.StringVar(&before, "created-before", "", "only runs until then: a time (RFC 3339) or an age such as 24h")
	flags.IntVar(&limit, "limit", 50, "most runs to list; 0 for all")
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(statuses, cobra.ShellCompDirectiveNoFileComp))      // the flag exists
	_ = cmd.RegisterFlagCompletionFunc("operation", cobra.FixedCompletions(operations, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	format := output.Flag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		now := time.Now()
		o := client.ListOptions{Status: api.Status(status), Operation: api.Operation(operation), Environment: environment, Limit: pageSize}
		var err error
		if o.CreatedAfter, err = moment(after, now); err != nil {
			return exit.Usagef("--created-after: %w", err)
		}
		if o.CreatedBefore, err = moment(before, now); err != nil {
			return exit.Usagef("--created-before: %w", err)
		}
		if limit < 0 {
			return exit.Usagef("--limit must not be negative")
		}
		if limit > 0 {
			o.Limit = min(limit, pageSize)
		}
		p, err := c.session.Provisioner()
		if err != nil {
			return err
		}
		runs, more := []api.Provision{}, false
		for run, err := range p.AllProvisions(cmd.Context(), o) {
			if err != nil {
				return err
			}
			if more = limit > 0 && len(runs) == limit; more {
				break
			}
			runs = append(runs, run)
		}
		if err := output.Print(c.session.Terminal.Out, *format, manyRuns(runs, now)); err != nil {
			return err
		}
		if more {
			_, err = fmt.Fprintf(c.session.Terminal.Err, "there are more than %d; see --limit\n", limit)
		}
		return err
	}
	return cmd
}

// moment is a time or an age; the zero time for no text.
func moment(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if age, err := time.ParseDuration(s); err == nil && age >= 0 {
		return now.Add(-age), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is neither a time such as 2026-11-30T09:00:00Z nor an age such as 24h", s)
	}
	return t, nil
}

func manyRuns(runs []api.Provision, now time.Time) output.Result {
	r := output.Result{Value: api.ProvisionList{Provisions: runs}, Rows: [][]string{{"run", "environment", "operation", "topology", "region", "status", "phase", "age"}}}
	for _, run := range runs {
		phase := string(run.Phase)
		if progress.Final(run.Status) {
			phase = ""
		}
		r.Names = append(r.Names, run.ID)
		r.Rows = append(r.Rows, []string{
			run.ID, run.TerraformEnvironment, string(run.Operation), string(run.Topology), run.Region, string(run.Status), phase, progress.Duration(now.Sub(run.CreatedAt)),
		})
	}
	return r
}
