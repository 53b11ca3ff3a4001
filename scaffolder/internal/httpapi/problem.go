package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/kubeopera/platform/scaffolder/internal/scaffold"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runapi"
)

// Codes of the problems that this service answers with, beside those of every
// service of runs.
const (
	codeProvisionNotReady      = "provision_not_ready"
	codeProvisionNotFound      = "provision_not_found"
	codeProvisionerForbidden   = "provisioner_forbidden"
	codeProvisionerUnavailable = "provisioner_unavailable"
	codeSecretsRequired        = "secrets_required"
	codeNoDiff                 = "no_diff"
	codeDiffMissing            = "diff_missing"
)

// sentinels maps the errors that carry no data. The first that matches counts.
var sentinels = []runapi.Sentinel{
	{Err: scaffold.ErrProvisionNotFound, Status: http.StatusConflict, Code: codeProvisionNotFound, Detail: "cluster-provisioner does not know the run any more that built the cluster; start a run with the cluster's kubeconfig"},
	{Err: scaffold.ErrProvisionerForbidden, Status: http.StatusBadGateway, Code: codeProvisionerForbidden, Detail: "cluster-provisioner refuses this service's key, so that no kubeconfig can be fetched; an operator has to renew the key"},
	{Err: scaffold.ErrProvisionerUnavailable, Status: http.StatusBadGateway, Code: codeProvisionerUnavailable, Detail: "cluster-provisioner does not answer as it should, so that no kubeconfig can be fetched; try again"},
	{Err: scaffold.ErrDiffMissing, Status: http.StatusNotFound, Code: codeDiffMissing, Detail: "the run succeeded, but its diff is no longer in the cluster; start a dry run again"},
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
	if e, ok := errors.AsType[*scaffold.ClusterError](err); ok {
		p := resource.Conflict(codeProvisionNotReady, "", "the provisioning run %s is %s: %s", e.Provision, e.Status, e.Reason)
		p.Errors = []api.FieldProblem{{Location: "body.target.provision_id", Message: fmt.Sprintf("names a run that is %s: %s", e.Status, e.Reason)}}
		return p
	}
	if e, ok := errors.AsType[*scaffold.SecretsRequiredError](err); ok {
		p := resource.Conflict(codeSecretsRequired, "", "the run's request held secrets in clear, which nobody has kept; send them again in the body: %s", strings.Join(e.Fields, ", "))
		for _, field := range e.Fields {
			p.Errors = append(p.Errors, api.FieldProblem{Location: "body." + field, Message: "is required"})
		}
		return p
	}
	if e, ok := errors.AsType[*scaffold.NoDiffError](err); ok {
		return resource.Conflict(codeNoDiff, "", "%s", noDiffDetail(e))
	}
	return nil
}

func noDiffDetail(e *scaffold.NoDiffError) string {
	if e.Operation != api.OperationDryRun {
		return "only a dry run has a diff; what this one has pushed is in its commits"
	}
	if e.Status == api.StatusFailed || e.Status == api.StatusCancelled {
		return "the dry run did not succeed, so that there is no diff"
	}
	return fmt.Sprintf("the dry run is %s; it has a diff once it has succeeded", e.Status)
}
