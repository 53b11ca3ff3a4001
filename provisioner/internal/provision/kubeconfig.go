package provision

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
)

// Endpoint is an address of a cluster's API server.
type Endpoint string

// The endpoints. Most clusters have one: then it is the default, wherever it can
// be reached from.
const (
	EndpointDefault  Endpoint = ""
	EndpointInternal Endpoint = "internal" // inside the cluster's network
)

// Kubeconfig gives the kubeconfig that a run published, for one of its cluster's
// endpoints. Only an apply has one that succeeded, or that failed when the cluster
// was there but not all of its nodes; and only until it was destroyed.
func (s *Service) Kubeconfig(ctx context.Context, id string, endpoint Endpoint) ([]byte, error) {
	run, err := s.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	notReady := &NotReadyError{Status: run.Status, Operation: run.Operation}
	incomplete := run.Status == api.StatusFailed &&
		(run.ErrorCode == string(runcontract.CodeControlPlaneIncomplete) || run.ErrorCode == string(runcontract.CodeMachinesFailed))
	if run.Operation != api.OperationApply || run.Status != api.StatusSucceeded && !incomplete {
		return nil, notReady
	}
	if err := s.checkStanding(ctx, run); err != nil {
		return nil, err
	}
	kubeconfig, err := s.runs.Output(ctx, run.ID, runcontract.KeyKubeconfig)
	switch {
	case errors.Is(err, runs.ErrNotFound) && incomplete:
		return nil, notReady
	case errors.Is(err, runs.ErrNotFound):
		return nil, fmt.Errorf("run %s: %w", id, ErrKubeconfigMissing)
	case err != nil:
		return nil, fmt.Errorf("read the kubeconfig of run %s: %w", id, err)
	case endpoint == EndpointDefault:
		return kubeconfig, nil
	}
	internal, err := s.runs.Output(ctx, run.ID, runcontract.KeyKubeconfigInternal)
	switch {
	case errors.Is(err, runs.ErrNotFound):
		in, err := ReadInputs(run.Inputs)
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", id, err)
		}
		if in.APIAccess == api.APIAccessPrivate { // its only endpoint is the internal one
			return kubeconfig, nil
		}
		return nil, fmt.Errorf("run %s: %w", id, ErrNoInternalEndpoint)
	case err != nil:
		return nil, fmt.Errorf("read the internal kubeconfig of run %s: %w", id, err)
	}
	return internal, nil
}

// checkStanding refuses a run whose cluster was destroyed since.
func (s *Service) checkStanding(ctx context.Context, run runs.Run) error {
	destroyed, err := s.runs.List(ctx, runs.Filter{
		Environment: run.Environment, Operation: api.OperationDestroy, Status: api.StatusSucceeded, Limit: 1,
	})
	if err != nil {
		return fmt.Errorf("look for a destroy of %s: %w", run.Environment, err)
	}
	if len(destroyed) > 0 && destroyed[0].ID > run.ID {
		return &GoneError{Run: run.ID, Destroy: destroyed[0].ID}
	}
	return nil
}
