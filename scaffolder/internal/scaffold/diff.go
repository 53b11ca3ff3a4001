package scaffold

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
)

// Diff gives what a dry run that has succeeded would have changed.
func (s *Service) Diff(ctx context.Context, id string) ([]byte, error) {
	run, err := s.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	if run.Operation != api.OperationDryRun || run.Status != api.StatusSucceeded {
		return nil, &NoDiffError{Operation: run.Operation, Status: run.Status}
	}
	packed, err := s.cfg.Runs.Output(ctx, run.ID, runcontract.KeyDiff)
	if errors.Is(err, runs.ErrNotFound) {
		return nil, fmt.Errorf("run %s: %w", id, ErrDiffMissing)
	}
	if err != nil {
		return nil, fmt.Errorf("read the diff of run %s: %w", id, err)
	}
	unzip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("read the diff of run %s: %w", id, err)
	}
	diff, err := io.ReadAll(io.LimitReader(unzip, runcontract.MaxDiff+1))
	if err != nil {
		return nil, fmt.Errorf("read the diff of run %s: %w", id, err)
	}
	if len(diff) > runcontract.MaxDiff {
		return nil, fmt.Errorf("read the diff of run %s: it has more than %d bytes", id, runcontract.MaxDiff)
	}
	return diff, nil
}
