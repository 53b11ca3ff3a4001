package provision

import (
	"context"
	"fmt"
	"iter"

	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runservice"
)

// history gives the runs of an environment, newest first.
func (s *Service) history(ctx context.Context, environment string) iter.Seq2[runs.Run, error] {
	return func(yield func(runs.Run, error) bool) {
		filter := runs.Filter{Environment: environment, Limit: runservice.MaxPage}
		for {
			list, err := s.runs.List(ctx, filter)
			if err != nil {
				yield(runs.Run{}, fmt.Errorf("look for earlier runs: %w", err))
				return
			}
			for _, run := range list {
				if !yield(run, nil) {
					return
				}
			}
			if len(list) < filter.Limit {
				return
			}
			filter.Before = list[len(list)-1].ID
		}
	}
}
