package provision

import (
	"errors"
	"fmt"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runs"
)

// What callers branch on.
var (
	// ErrInvalid is a request that breaks the rules; see InvalidError.
	ErrInvalid = errors.New("the request is not valid")
	// ErrEnvironmentImmutable is a change that an environment cannot take; see ImmutableError.
	ErrEnvironmentImmutable = errors.New("the environment cannot change like that")
	// ErrKubeconfigNotReady is a run that has no kubeconfig yet, or never will; see NotReadyError.
	ErrKubeconfigNotReady = errors.New("the run has no kubeconfig")
	// ErrKubeconfigMissing is a run that succeeded and whose kubeconfig is gone
	// from the cluster.
	ErrKubeconfigMissing = errors.New("the run's kubeconfig is gone")
	// ErrNoInternalEndpoint is a cluster with one endpoint, for all.
	ErrNoInternalEndpoint = errors.New("the cluster has no internal endpoint of its own")
)

// InvalidError is everything that is wrong with a request.
type InvalidError struct {
	Problems []api.FieldProblem
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("%v: %d problems", ErrInvalid, len(e.Problems))
}

func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// ImmutableError says what of an environment another run has settled.
type ImmutableError struct {
	Environment string
	Field       string // of the request
	Settled     string // its value in that run
	Run         runs.ID
}

func (e *ImmutableError) Error() string {
	return fmt.Sprintf("%v: %s of %s is %s since run %s", ErrEnvironmentImmutable, e.Field, e.Environment, e.Settled, e.Run)
}

func (e *ImmutableError) Is(target error) bool { return target == ErrEnvironmentImmutable }

// NotReadyError says in which status the run is that has no kubeconfig.
type NotReadyError struct {
	Status    api.Status
	Operation api.Operation
}

func (e *NotReadyError) Error() string {
	return fmt.Sprintf("%v: operation %s, status %s", ErrKubeconfigNotReady, e.Operation, e.Status)
}

func (e *NotReadyError) Is(target error) bool { return target == ErrKubeconfigNotReady }
