package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/kubeopera/platform/provisioner/internal/provision"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runapi"
)

// Codes of the problems that this service answers with, beside those of every
// service of runs.
const (
	codeEnvironmentImmutable = "environment_immutable"
	codeKubeconfigNotReady   = "kubeconfig_not_ready"
	codeKubeconfigMissing    = "kubeconfig_missing"
	codeNoInternalEndpoint   = "no_internal_endpoint"
	codeNothingToDestroy     = "nothing_to_destroy"
	codeEnvironmentOccupied  = "environment_occupied"
	codeKubeconfigGone       = "kubeconfig_gone"
	codeNoState              = "no_terraform_state"
)

// sentinels maps the errors that carry no data. The first that matches counts.
var sentinels = []runapi.Sentinel{
	{Err: provision.ErrNothingToDestroy, Status: http.StatusConflict, Code: codeNothingToDestroy, Detail: "no run has built anything in the environment, or all of it was destroyed since"},
	{Err: provision.ErrNoState, Status: http.StatusConflict, Code: codeNoState, Detail: "the environment is made of existing machines: it has no Terraform state, and so no lock"},
	{Err: provision.ErrKubeconfigMissing, Status: http.StatusNotFound, Code: codeKubeconfigMissing, Detail: "the run succeeded, but its kubeconfig is no longer in the cluster; start a run with the same inputs to publish it again"},
	{Err: provision.ErrNoInternalEndpoint, Status: http.StatusNotFound, Code: codeNoInternalEndpoint, Detail: "the cluster has one endpoint for all; leave out endpoint"},
}

// problem is the answer to an error of the domain, nil for one it does not know.
func problem(err error) *api.Problem {
	if p := detailed(err); p != nil {
		return p
	}
	if p := runapi.Match(sentinels, err); p != nil {
		return p
	}
	return resource.Problem(err)
}

// detailed maps the errors that carry data.
func detailed(err error) *api.Problem {
	if e, ok := errors.AsType[*provision.ImmutableError](err); ok {
		return resource.Conflict(codeEnvironmentImmutable, e.Run, "%s of the environment %s is %s since run %s and cannot change; choose another terraform_environment, or destroy it first",
			e.Field, e.Environment, e.Settled, e.Run)
	}
	if e, ok := errors.AsType[*provision.NotReadyError](err); ok {
		return resource.Conflict(codeKubeconfigNotReady, "", "%s", notReadyDetail(e))
	}
	if e, ok := errors.AsType[*provision.OccupiedError](err); ok {
		return resource.Conflict(codeEnvironmentOccupied, "", "pods of the environment %s may still be at work: %s; cancel their runs, or wait until they have ended",
			e.Environment, strings.Join(e.Pods, ", "))
	}
	if e, ok := errors.AsType[*provision.GoneError](err); ok {
		p := resource.Conflict(codeKubeconfigGone, e.Destroy, "the cluster was destroyed by run %s", e.Destroy)
		p.Status = http.StatusGone
		return p
	}
	return nil
}

func notReadyDetail(e *provision.NotReadyError) string {
	switch {
	case e.Operation != api.OperationApply:
		return fmt.Sprintf("a run of operation %s has no kubeconfig", e.Operation)
	case e.Status == api.StatusFailed, e.Status == api.StatusCancelled:
		return fmt.Sprintf("the run has %s, so there is no kubeconfig", map[api.Status]string{api.StatusFailed: "failed", api.StatusCancelled: "been cancelled"}[e.Status])
	}
	return fmt.Sprintf("the run is %s; it has a kubeconfig once it has succeeded", e.Status)
}
