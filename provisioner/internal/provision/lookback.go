package provision

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
)

// maxEndedRuns bounds what a run is told of earlier ones. A lock is the newest
// one's, or nearly.
const maxEndedRuns = 50

// lookBack gives a run's inputs what its runner may conclude from the runs before
// it, back to the newest that succeeded: that one took the lock and gave it back,
// and pushed what there was to rescue.
func (s *Service) lookBack(ctx context.Context, in Inputs) (Inputs, error) {
	in.EndedRuns, in.RescuedRun = nil, ""
	for run, err := range s.history(ctx, in.Environment) {
		if err != nil {
			return in, err
		}
		if run.Status == api.StatusSucceeded && run.Operation != api.OperationUnlock {
			break
		}
		if in.RescuedRun == "" && run.ErrorCode == string(runcontract.CodeStateNotSaved) {
			in.RescuedRun = string(run.ID)
		}
		if len(in.EndedRuns) == maxEndedRuns {
			continue
		}
		ended, err := s.seenToEnd(ctx, run)
		if err != nil {
			return in, err
		}
		if ended {
			in.EndedRuns = append(in.EndedRuns, string(run.ID))
		}
	}
	return in, nil
}

// seenToEnd says that a run had a pod which is known to have ended: what it has
// locked, nobody holds any more. A pod that is only gone may still be at work on
// a node that nobody hears of.
func (s *Service) seenToEnd(ctx context.Context, run runs.Run) (bool, error) {
	if !runs.Final(run.Status) || run.StartedAt.IsZero() {
		return false, nil
	}
	switch runcontract.ErrorCode(run.ErrorCode) {
	case runs.CodeLost, runs.CodeEvicted:
	case "": // cancelled: its pod is gone with its Job
	default:
		return true, nil
	}
	// Its runner has reported its end, which is the last that it does.
	_, err := s.runs.Output(ctx, run.ID, runcontract.KeyResult)
	if errors.Is(err, runs.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at the result of run %s: %w", run.ID, err)
	}
	return true, nil
}
