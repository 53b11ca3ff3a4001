package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/kubeopera/platform/provisioner/internal/provision"
	"github.com/kubeopera/platform/shared/api"
	edge "github.com/kubeopera/platform/shared/httpapi"
	"github.com/kubeopera/platform/shared/runs"
)

// pollSeconds is how long a client does well to wait before it asks again.
const pollSeconds = 2

type handlers struct{ service *provision.Service }

type startInput struct {
	Body api.ProvisionRequest
}

type checkKey struct{}

// checked lets startInput.Resolve reach the service's rules.
func checked(service *provision.Service) func(*huma.Operation) {
	return func(o *huma.Operation) {
		o.Middlewares = append(o.Middlewares, func(ctx huma.Context, next func(huma.Context)) {
			next(huma.WithValue(ctx, checkKey{}, service.Check))
		})
	}
}

// Resolve applies the domain's rules even when the body's form is wrong, so that
// an answer names unknown and mistyped fields together with values that are not
// allowed. Service.Start applies them again.
func (i *startInput) Resolve(ctx huma.Context) []error {
	check, ok := ctx.Context().Value(checkKey{}).(func(api.ProvisionRequest) []api.FieldProblem)
	if !ok {
		return nil
	}
	return edge.RuleProblems(check(i.Body))
}

type startOutput struct {
	Location   string `header:"Location" doc:"Where to poll the run"`
	RetryAfter int    `header:"Retry-After" doc:"Seconds to wait before polling"`
	Body       api.Provision
}

func (h handlers) start(ctx context.Context, in *startInput) (*startOutput, error) {
	p, err := h.service.Start(ctx, in.Body, edge.Caller(ctx))
	if err != nil {
		return nil, err
	}
	return &startOutput{Location: edge.BasePath + "/provisions/" + p.ID, RetryAfter: pollSeconds, Body: p}, nil
}

type listInput struct {
	Status      string `query:"status" enum:"queued,running,cancelling,succeeded,failed,cancelled" doc:"Only runs of this status"`
	Environment string `query:"environment" maxLength:"63" doc:"Only runs of this Terraform environment"`
	Limit       int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"Most runs of a page"`
	Cursor      string `query:"cursor" maxLength:"64" doc:"next_cursor of the page before"`
}

type listOutput struct {
	Body api.ProvisionList
}

func (h handlers) list(ctx context.Context, in *listInput) (*listOutput, error) {
	list, err := h.service.List(ctx, provision.Page{
		Status: api.Status(in.Status), Environment: in.Environment, Limit: in.Limit, Cursor: in.Cursor,
	})
	if err != nil {
		return nil, err
	}
	return &listOutput{Body: list}, nil
}

type runInput struct {
	ID string `path:"id" doc:"Id of the run"`
}

type getOutput struct {
	RetryAfter *int `header:"Retry-After" doc:"Seconds to wait before asking again; absent once the status is final"`
	Body       api.Provision
}

func (h handlers) get(ctx context.Context, in *runInput) (*getOutput, error) {
	p, err := h.service.Get(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	out := &getOutput{Body: p}
	if !runs.Final(p.Status) {
		out.RetryAfter = new(pollSeconds)
	}
	return out, nil
}

type logsInput struct {
	ID     string `path:"id" doc:"Id of the run"`
	Follow bool   `query:"follow" doc:"Stream the log until the run ends"`
	Tail   int    `query:"tail" minimum:"1" maximum:"1000000" doc:"Only so many of the last lines"`
}

// Resolve keeps a HEAD, whose answer has no body, from waiting for the end of the run.
func (i *logsInput) Resolve(ctx huma.Context) []error {
	i.Follow = i.Follow && ctx.Method() != http.MethodHead
	return nil
}

func (h handlers) logs(ctx context.Context, in *logsInput) (*huma.StreamResponse, error) {
	log, err := h.service.Logs(ctx, in.ID, runs.LogOptions{Follow: in.Follow, Tail: in.Tail})
	if err != nil {
		return nil, err
	}
	return edge.Stream(log, "text/plain; charset=utf-8"), nil
}

type kubeconfigInput struct {
	ID       string `path:"id" doc:"Id of the run"`
	Endpoint string `query:"endpoint" enum:"internal" doc:"internal: for the address inside the cluster's network, where there are two; default: the public address, if there is one"`
}

type kubeconfigOutput struct {
	ContentType  string `header:"Content-Type"`
	CacheControl string `header:"Cache-Control"`
	Body         []byte
}

func (h handlers) kubeconfig(ctx context.Context, in *kubeconfigInput) (*kubeconfigOutput, error) {
	kubeconfig, err := h.service.Kubeconfig(ctx, in.ID, provision.Endpoint(in.Endpoint))
	if err != nil {
		return nil, err
	}
	// It holds a credential: no cache on the way may keep it.
	return &kubeconfigOutput{ContentType: "application/yaml", CacheControl: "no-store", Body: kubeconfig}, nil
}
