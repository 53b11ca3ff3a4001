package httpapi

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/kubeopera/platform/provisioner/internal/provision"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/cloudcred"
	edge "github.com/kubeopera/platform/shared/httpapi"
	"github.com/kubeopera/platform/shared/runs"
)

// Codes of the problems that this service answers with, beside those of every service.
const (
	codeEnvironmentBusy        = "environment_busy"
	codeEnvironmentImmutable   = "environment_immutable"
	codeConflict               = "conflict"
	codeProvisionNotFound      = "provision_not_found"
	codeNoLog                  = "no_log"
	codeKubeconfigNotReady     = "kubeconfig_not_ready"
	codeKubeconfigMissing      = "kubeconfig_missing"
	codeNoInternalEndpoint     = "no_internal_endpoint"
	codeAuthServiceForbidden   = "auth_service_forbidden"
	codeAuthServiceUnavailable = "auth_service_unavailable"
	codeKubernetesUnavailable  = "kubernetes_unavailable"
	codeDatabaseUnavailable    = "database_unavailable"
)

// sentinels maps the errors that carry no data. The first that matches counts.
var sentinels = []struct {
	err    error
	status int
	code   string
	detail string
}{
	{runs.ErrConflict, http.StatusConflict, codeConflict, "the run's state does not allow that"},
	{provision.ErrKubeconfigMissing, http.StatusNotFound, codeKubeconfigMissing, "the run succeeded, but its kubeconfig is no longer in the cluster; start a run with the same inputs to publish it again"},
	{provision.ErrNoInternalEndpoint, http.StatusNotFound, codeNoInternalEndpoint, "the cluster has one endpoint for all; leave out endpoint"},
	{runs.ErrNotFound, http.StatusNotFound, codeProvisionNotFound, "there is no run of that id"},
	{runs.ErrNoLogs, http.StatusNotFound, codeNoLog, "the run has no log, or none yet; follow=true waits for it"},
	{cloudcred.ErrForbidden, http.StatusBadGateway, codeAuthServiceForbidden, "auth-service refuses this service's key, so no credential can be resolved; an operator has to renew the key"},
	{cloudcred.ErrUnavailable, http.StatusBadGateway, codeAuthServiceUnavailable, "auth-service does not answer as it should, so the credential cannot be resolved; try again"},
	{runs.ErrKubernetes, http.StatusServiceUnavailable, codeKubernetesUnavailable, "the Kubernetes API does not answer as it should; try again"},
	{runs.ErrDatabase, http.StatusServiceUnavailable, codeDatabaseUnavailable, "the database does not answer as it should; try again"},
}

// problem is the answer to an error of the domain, nil for one it does not know.
func problem(err error) *api.Problem {
	if invalid, ok := errors.AsType[*provision.InvalidError](err); ok {
		return invalidProblem(invalid.Problems)
	}
	if busy, ok := errors.AsType[*runs.BusyError](err); ok {
		return &api.Problem{
			Status: http.StatusConflict, Code: codeEnvironmentBusy,
			Detail:   fmt.Sprintf("the environment %s has a live run, %s; wait until it has ended", busy.Environment, busy.Holder),
			Instance: edge.BasePath + "/provisions/" + string(busy.Holder),
		}
	}
	if immutable, ok := errors.AsType[*provision.ImmutableError](err); ok {
		return &api.Problem{
			Status: http.StatusConflict, Code: codeEnvironmentImmutable,
			Detail: fmt.Sprintf("%s of the environment %s is %s since run %s and cannot change; choose another terraform_environment",
				immutable.Field, immutable.Environment, immutable.Settled, immutable.Run),
			Instance: edge.BasePath + "/provisions/" + string(immutable.Run),
		}
	}
	if notReady, ok := errors.AsType[*provision.NotReadyError](err); ok {
		return &api.Problem{Status: http.StatusConflict, Code: codeKubeconfigNotReady, Detail: notReadyDetail(notReady)}
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return &api.Problem{Status: s.status, Code: s.code, Detail: s.detail}
		}
	}
	return nil
}

func invalidProblem(fields []api.FieldProblem) *api.Problem {
	p := &api.Problem{Status: http.StatusUnprocessableEntity, Code: edge.CodeInvalidRequest, Detail: "the request is not valid", Errors: fields}
	if len(fields) > 0 {
		p.Detail += ": " + fields[0].Location + ": " + fields[0].Message
	}
	if n := len(fields) - 1; n > 0 {
		p.Detail += fmt.Sprintf(" (and %d more)", n)
	}
	return p
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
