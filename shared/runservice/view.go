package runservice

import (
	"fmt"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runs"
)

// Status is the part of every view that changes.
func Status(run runs.Run) api.RunStatus {
	return api.RunStatus{
		Status:        run.Status,
		Phase:         run.Phase,
		Message:       run.Message,
		ErrorCode:     run.ErrorCode,
		Progress:      progress(run.Progress),
		QueuePosition: run.QueuePosition,
		CreatedAt:     run.CreatedAt.UTC(),
		UpdatedAt:     run.UpdatedAt.UTC(),
		StartedAt:     when(run.StartedAt),
		FinishedAt:    when(run.FinishedAt),
	}
}

// Revision names what a view shows of a run: the same revision, the same view. The
// place in the queue changes without the run.
func Revision(run runs.Run) string {
	if run.QueuePosition > 0 {
		return fmt.Sprintf("v%d.%d", run.Version, run.QueuePosition)
	}
	return fmt.Sprintf("v%d", run.Version)
}

// progress is absent until there is any.
func progress(p api.Progress) *api.Progress {
	if p == (api.Progress{}) {
		return nil
	}
	return &p
}

func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
