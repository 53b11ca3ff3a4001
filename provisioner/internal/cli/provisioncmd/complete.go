package provisioncmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
)

func allRuns(api.Provision) bool { return true }

// completeRuns completes ids of those of the newest runs that the command is good
// for. Without a service there is nothing to complete.
func (c *commands) completeRuns(good func(api.Provision) bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const done = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		if len(args) > 0 {
			return nil, done
		}
		p, err := c.session.Provisioner()
		if err != nil {
			return nil, done
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		page, err := p.Provisions(ctx, client.ListOptions{Limit: pageSize})
		if err != nil {
			return nil, done
		}
		var found []cobra.Completion
		for _, run := range page.Provisions {
			if good(run) && strings.HasPrefix(run.ID, begin) {
				found = append(found, cobra.CompletionWithDesc(terminal.Clean(run.ID), terminal.Clean(strings.Join([]string{run.TerraformEnvironment, string(run.Operation), string(run.Status)}, " "))))
			}
		}
		return found, done
	}
}
