package provision

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runs"
)

// What callers branch on.
var (
	// ErrEnvironmentImmutable is a change that an environment cannot take; see ImmutableError.
	ErrEnvironmentImmutable = errors.New("the environment cannot change like that")
	// ErrKubeconfigNotReady is a run that has no kubeconfig yet, or never will; see NotReadyError.
	ErrKubeconfigNotReady = errors.New("the run has no kubeconfig")
	// ErrKubeconfigMissing is a run that succeeded and whose kubeconfig is gone
	// from the cluster.
	ErrKubeconfigMissing = errors.New("the run's kubeconfig is gone")
	// ErrKubeconfigGone is a run whose cluster was destroyed since; see GoneError.
	ErrKubeconfigGone = errors.New("the run's cluster was destroyed")
	// ErrNothingToDestroy is an environment that has not been built, or not again.
	ErrNothingToDestroy = errors.New("there is nothing to destroy")
	// ErrNoState is an environment that is not built by Terraform.
	ErrNoState = errors.New("there is no Terraform state, and so no lock")
	// ErrOccupied is an environment that something is at work in; see OccupiedError.
	ErrOccupied = errors.New("the environment is occupied")
	// ErrNoInternalEndpoint is a cluster with one endpoint, for all.
	ErrNoInternalEndpoint = errors.New("the cluster has no internal endpoint of its own")
)

// OccupiedError names the pods that may still be at work in an environment.
type OccupiedError struct {
	Environment string
	Pods        []string
}

func (e *OccupiedError) Error() string {
	return fmt.Sprintf("%v: %s: pods %s", ErrOccupied, e.Environment, strings.Join(e.Pods, ", "))
}

func (e *OccupiedError) Is(target error) bool { return target == ErrOccupied }

// GoneError says which run destroyed a run's cluster.
type GoneError struct {
	Run, Destroy runs.ID
}

func (e *GoneError) Error() string {
	return fmt.Sprintf("%v: run %s, by run %s", ErrKubeconfigGone, e.Run, e.Destroy)
}

func (e *GoneError) Is(target error) bool { return target == ErrKubeconfigGone }

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
