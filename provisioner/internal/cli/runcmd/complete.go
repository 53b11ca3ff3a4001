package runcmd

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
	"github.com/kubeopera/platform/shared/client"
)

// completionTimeout is how long somebody who presses Tab waits.
const completionTimeout = 3 * time.Second

// Complete completes ids of those of the newest runs that the command is good for.
// Without a service there is nothing to complete.
func (k *Kind[Run, S]) Complete(good func(Run) bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const done = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		if len(args) > 0 {
			return nil, done
		}
		s, err := k.Connect("")
		if err != nil {
			return nil, done
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		var found []cobra.Completion
		seen := 0
		for run, err := range s.All(ctx, client.ListOptions{Limit: pageSize}) {
			if err != nil {
				return nil, done
			}
			if v := k.View(run); good(run) && strings.HasPrefix(v.ID, begin) {
				found = append(found, cobra.CompletionWithDesc(terminal.Clean(v.ID), terminal.Clean(strings.Join([]string{v.Environment, string(v.Operation), string(v.Status)}, " "))))
			}
			if seen++; seen == pageSize {
				break
			}
		}
		return found, done
	}
}
