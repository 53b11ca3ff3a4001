package runcmd

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/output"
	"github.com/kubeopera/platform/provisioner/internal/cli/progress"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
)

// pageSize is the most that a service gives at once.
const pageSize = 100

var statuses = []string{string(api.StatusQueued), string(api.StatusRunning), string(api.StatusCancelling), string(api.StatusSucceeded), string(api.StatusFailed), string(api.StatusCancelled)}

// listing is which runs a list has, as the flags say.
type listing struct {
	status, operation, environment, after, before string
	limit                                         int
}

// List is the command that lists runs.
func (k *Kind[Run, S]) List() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List runs, newest first",
		Example: fmt.Sprintf(`  kubeopera %[1]s list --environment acme-prod
  kubeopera %[1]s list --status failed --created-after 24h
  kubeopera %[1]s list --created-after 2026-11-01T00:00:00Z --limit 0 -o json`, k.Command),
		Args: NoArguments, ValidArgsFunction: cobra.NoFileCompletions,
	}
	var l listing
	flags := cmd.Flags()
	flags.StringVar(&l.status, "status", "", "only runs of this status")
	flags.StringVar(&l.operation, "operation", "", "only runs of this operation")
	flags.StringVar(&l.environment, "environment", "", "only runs of this environment")
	flags.StringVar(&l.after, "created-after", "", "only runs since then: a time (RFC 3339) or an age such as 24h")
	flags.StringVar(&l.before, "created-before", "", "only runs until then: a time (RFC 3339) or an age such as 24h")
	flags.IntVar(&l.limit, "limit", 50, "most runs to list; 0 for all")
	var operations []string
	for _, o := range k.Operations {
		operations = append(operations, string(o))
	}
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(statuses, cobra.ShellCompDirectiveNoFileComp))      // the flag exists
	_ = cmd.RegisterFlagCompletionFunc("operation", cobra.FixedCompletions(operations, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	format := output.Flag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return k.list(cmd, l, *format) }
	return cmd
}

func (k *Kind[Run, S]) list(cmd *cobra.Command, l listing, format output.Format) error {
	now := time.Now()
	o, err := l.options(now)
	if err != nil {
		return err
	}
	s, err := k.Connect("")
	if err != nil {
		return err
	}
	runs, more := []Run{}, false
	for run, err := range s.All(cmd.Context(), o) {
		if err != nil {
			return err
		}
		if more = l.limit > 0 && len(runs) == l.limit; more {
			break
		}
		runs = append(runs, run)
	}
	if err := output.Print(k.Terminal.Out, format, k.manyRuns(runs, now)); err != nil {
		return err
	}
	if more {
		_, err = fmt.Fprintf(k.Terminal.Err, "there are more than %d; see --limit\n", l.limit)
	}
	return err
}

func (l listing) options(now time.Time) (client.ListOptions, error) {
	o := client.ListOptions{Status: api.Status(l.status), Operation: api.Operation(l.operation), Environment: l.environment, Limit: pageSize}
	var err error
	if o.CreatedAfter, err = moment(l.after, now); err != nil {
		return o, exit.Usagef("--created-after: %w", err)
	}
	if o.CreatedBefore, err = moment(l.before, now); err != nil {
		return o, exit.Usagef("--created-before: %w", err)
	}
	if l.limit < 0 {
		return o, exit.Usagef("--limit must not be negative")
	}
	if l.limit > 0 {
		o.Limit = min(l.limit, pageSize)
	}
	return o, nil
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

func (k *Kind[Run, S]) manyRuns(runs []Run, now time.Time) output.Result {
	r := output.Result{Value: k.Page(runs), Rows: [][]string{slices.Concat([]string{"run", "environment", "operation"}, k.Columns, []string{"status", "phase", "age"})}}
	for _, run := range runs {
		v := k.View(run)
		phase := string(v.Phase)
		if progress.Final(v.Status) {
			phase = ""
		}
		r.Names = append(r.Names, v.ID)
		r.Rows = append(r.Rows, slices.Concat([]string{v.ID, v.Environment, string(v.Operation)}, v.Columns, []string{string(v.Status), phase, progress.Duration(now.Sub(v.CreatedAt))}))
	}
	return r
}
