// Package httpapi is the HTTP API of cluster-provisioner.
//
// routes.go is all of it on one screen, but for what every service of runs has,
// which shared/runapi registers: list, get, logs, events, cancel. Handlers are
// thin: they call the domain and return its errors, which problem.go maps to
// answers in one place. What every service has (keys, health, metrics, problem
// details, OpenAPI) is shared/httpapi's.
package httpapi

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/kubeopera/platform/provisioner/internal/provision"
	"github.com/kubeopera/platform/shared/api"
	edge "github.com/kubeopera/platform/shared/httpapi"
	"github.com/kubeopera/platform/shared/runapi"
)

// resource is what the runs of this service are called.
var resource = runapi.Resource{Singular: "provision", Plural: "provisions"}

// New is the API over a service. The configuration's keys, log, registry and
// readiness are the caller's; the rest is set here.
func New(service *provision.Service, cfg edge.Config) (*edge.API, error) {
	cfg.Title, cfg.Version, cfg.Problems = "cluster-provisioner", "v1", problem
	cfg.Description = "Provisions Kubernetes clusters: one run of Terraform in a Kubernetes Job per request. " +
		"Starting a run answers at once; poll the run, or follow its log, until its status is final."
	to, err := edge.New(cfg)
	if err != nil {
		return nil, err
	}
	h := handlers{
		Handlers: runapi.Handlers[api.Provision, api.ProvisionList, operation]{
			Resource: resource,
			Service:  service,
			ID:       func(p api.Provision) string { return p.ID },
			Status:   func(p api.Provision) api.Status { return p.Status },
			Page: func(list []api.Provision, next string) api.ProvisionList {
				return api.ProvisionList{Provisions: list, NextCursor: next}
			},
		},
		service: service,
	}
	h.Register(to.Huma())
	routes(to.Huma(), h)
	return to, nil
}

func routes(to huma.API, h handlers) {
	op, run, problems := resource.Operation, resource.RunPath(), runapi.Problems
	huma.Register(to, op("start-provision", http.MethodPost, resource.Path(), "Start a run; never waits for Terraform",
		runapi.Checked(h.service.Check), runapi.Starts, problems(http.StatusConflict, http.StatusBadGateway)), h.start)
	huma.Register(to, op("get-provision-kubeconfig", http.MethodGet, run+"/kubeconfig", "Kubeconfig of the cluster that a run built, once it has succeeded, or failed with control_plane_incomplete",
		runapi.Answers("application/yaml"), problems(http.StatusNotFound, http.StatusConflict, http.StatusGone)), h.kubeconfig)
	huma.Register(to, op("retry-provision", http.MethodPost, run+"/retry", "Start a run that does once more what this one did not achieve",
		runapi.Starts, problems(http.StatusNotFound, http.StatusConflict, http.StatusBadGateway)), h.retry)
	huma.Register(to, op("destroy-provision", http.MethodDelete, run, "Start a run that destroys all that the environment of this one is made of",
		runapi.Starts, problems(http.StatusNotFound, http.StatusConflict, http.StatusBadGateway)), h.destroy)
	huma.Register(to, op("unlock-provision", http.MethodPost, run+"/unlock", "Start a run that removes a lock which nobody holds any more from the Terraform state",
		runapi.Starts, problems(http.StatusNotFound, http.StatusConflict, http.StatusBadGateway)), h.unlock)
}
