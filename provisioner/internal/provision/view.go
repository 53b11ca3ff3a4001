package provision

import (
	"fmt"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runs"
)

// View is a run as the API shows it.
func View(run runs.Run) (api.Provision, error) {
	in, err := ReadInputs(run.Inputs)
	if err != nil {
		return api.Provision{}, fmt.Errorf("run %s: %w", run.ID, err)
	}
	return api.Provision{
		ID:                   string(run.ID),
		Name:                 run.Name,
		TerraformEnvironment: run.Environment,
		Topology:             in.Topology,
		Region:               in.Region,
		CredentialID:         in.CredentialID,
		KubernetesVersion:    in.KubernetesVersion,
		Operation:            run.Operation,
		RetryOf:              string(run.RetryOf),
		RequestedBy:          run.RequestedBy,
		RunStatus: api.RunStatus{
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
		},
	}, nil
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
