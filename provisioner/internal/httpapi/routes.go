// Package httpapi is the HTTP API of cluster-provisioner.
//
// routes.go is all of it on one screen. Handlers are thin: they call the domain
// and return its errors, which problem.go maps to answers in one place. What
// every service has (keys, health, metrics, problem details, OpenAPI) is
// shared/httpapi's.
package httpapi

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/kubeopera/platform/provisioner/internal/provision"
	edge "github.com/kubeopera/platform/shared/httpapi"
)

// New is the API over a service. The configuration's keys, log, registry and
// readiness are the caller's; the rest is set here.
func New(service *provision.Service, cfg edge.Config) (*edge.API, error) {
	cfg.Title, cfg.Version, cfg.Problems = "cluster-provisioner", "v1", problem
	cfg.Description = "Provisions Kubernetes clusters: one run of Terraform in a Kubernetes Job per request. " +
		"Starting a run answers at once; poll the run, or follow its log, until its status is final."
	api, err := edge.New(cfg)
	if err != nil {
		return nil, err
	}
	routes(api.Huma(), handlers{service})
	return api, nil
}

func routes(api huma.API, h handlers) {
	huma.Register(api, op("start-provision", http.MethodPost, "/provisions", "Start a run; never waits for Terraform", checked(h.service), status(http.StatusAccepted),
		problems(http.StatusConflict, http.StatusBadGateway, http.StatusServiceUnavailable)), h.start)
	huma.Register(api, op("list-provisions", http.MethodGet, "/provisions", "List runs, newest first"), h.list)
	huma.Register(api, op("get-provision", http.MethodGet, "/provisions/{id}", "Status, phase and progress of a run, as they are now",
		problems(http.StatusNotFound)), h.get)
	huma.Register(api, op("get-provision-logs", http.MethodGet, "/provisions/{id}/logs", "Log of a run, from its pod or from what was kept of it",
		answers("text/plain"), problems(http.StatusNotFound)), h.logs)
	huma.Register(api, op("get-provision-kubeconfig", http.MethodGet, "/provisions/{id}/kubeconfig", "Kubeconfig of the cluster that a run built, once it has succeeded, or failed with control_plane_incomplete",
		answers("application/yaml"), problems(http.StatusNotFound, http.StatusConflict)), h.kubeconfig)
}

func op(id, method, path, summary string, options ...func(*huma.Operation)) huma.Operation {
	o := huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{"provisions"}}
	for _, option := range options {
		option(&o)
	}
	return o
}

func status(code int) func(*huma.Operation) {
	return func(o *huma.Operation) { o.DefaultStatus = code }
}

func problems(codes ...int) func(*huma.Operation) {
	return func(o *huma.Operation) { o.Errors = codes }
}

// answers documents a body that is not JSON.
func answers(mediaType string) func(*huma.Operation) {
	return func(o *huma.Operation) {
		o.Responses = map[string]*huma.Response{"200": {
			Description: http.StatusText(http.StatusOK),
			Content:     map[string]*huma.MediaType{mediaType: {Schema: &huma.Schema{Type: huma.TypeString}}},
		}}
	}
}
