// Package httpapi is the HTTP API of gitops-scaffolder.
//
// routes.go is all of it on one screen, but for what every service of runs has,
// which shared/runapi registers: list, get, logs, events, cancel. Handlers are
// thin: they call the domain and return its errors, which problem.go maps to
// answers in one place.
package httpapi

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/kubeopera/platform/scaffolder/internal/scaffold"
	"github.com/kubeopera/platform/shared/api"
	edge "github.com/kubeopera/platform/shared/httpapi"
	"github.com/kubeopera/platform/shared/runapi"
)

// resource is what the runs of this service are called.
var resource = runapi.Resource{Singular: "scaffold", Plural: "scaffolds"}

// New is the API over a service. The configuration's keys, log, registry and
// readiness are the caller's; the rest is set here.
func New(service *scaffold.Service, cfg edge.Config) (*edge.API, error) {
	cfg.Title, cfg.Version, cfg.Problems = "gitops-scaffolder", "v1", problem
	cfg.Description = "Makes the Flux tree of an environment, seals its secrets for the target cluster and pushes it: one Kubernetes Job per request. " +
		"Starting a run answers at once; poll the run, or follow its log, until its status is final."
	to, err := edge.New(cfg)
	if err != nil {
		return nil, err
	}
	h := handlers{
		Handlers: runapi.Handlers[api.Scaffold, api.ScaffoldList, operation]{
			Resource: resource,
			Service:  service,
			ID:       func(s api.Scaffold) string { return s.ID },
			Status:   func(s api.Scaffold) api.Status { return s.Status },
			Page: func(list []api.Scaffold, next string) api.ScaffoldList {
				return api.ScaffoldList{Scaffolds: list, NextCursor: next}
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
	huma.Register(to, op("start-scaffold", http.MethodPost, resource.Path(), "Start a run; never waits for Git or the target",
		runapi.Checked(h.service.Check), runapi.Starts, problems(http.StatusConflict, http.StatusBadGateway)), h.start)
	huma.Register(to, op("retry-scaffold", http.MethodPost, run+"/retry", "Start a run that does once more what this one did not achieve; the body brings what its request held in clear",
		runapi.Starts, problems(http.StatusNotFound, http.StatusConflict, http.StatusBadGateway)), h.retry)
	huma.Register(to, op("get-scaffold-diff", http.MethodGet, run+"/diff", "What a dry run that has succeeded would have changed",
		runapi.Answers("text/x-diff"), problems(http.StatusNotFound, http.StatusConflict)), h.diff)
}
