package httpapi

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/kubeopera/platform/scaffolder/internal/scaffold"
	"github.com/kubeopera/platform/shared/api"
	edge "github.com/kubeopera/platform/shared/httpapi"
	"github.com/kubeopera/platform/shared/runapi"
)

// operation is a list's filter of that name.
type operation string

// Schema implements huma.SchemaProvider.
func (operation) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Enum: []any{string(api.OperationScaffold), string(api.OperationDryRun)}}
}

type handlers struct {
	runapi.Handlers[api.Scaffold, api.ScaffoldList, operation]
	service *scaffold.Service
}

// accepted is the answer of what starts a run.
type accepted = runapi.Accepted[api.Scaffold]

func (h handlers) start(ctx context.Context, in *runapi.StartInput[api.ScaffoldRequest]) (*accepted, error) {
	by, err := runapi.Caller(ctx, in.Repeatable, in.Body)
	if err != nil {
		return nil, err
	}
	return h.Started(h.service.Start(ctx, in.Body, by))
}

type retryInput struct {
	runapi.OfRun
	edge.Repeatable
	Body *api.ScaffoldSecrets
}

func (h handlers) retry(ctx context.Context, in *retryInput) (*accepted, error) {
	by, err := runapi.Caller(ctx, in.Repeatable, in.Body)
	if err != nil {
		return nil, err
	}
	var secrets api.ScaffoldSecrets
	if in.Body != nil {
		secrets = *in.Body
	}
	return h.Started(h.service.Retry(ctx, in.ID, secrets, by))
}

type diffOutput struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

func (h handlers) diff(ctx context.Context, in *runapi.OfRun) (*diffOutput, error) {
	diff, err := h.service.Diff(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &diffOutput{ContentType: "text/x-diff; charset=utf-8", Body: diff}, nil
}
