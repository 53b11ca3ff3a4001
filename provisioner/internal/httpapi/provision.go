package httpapi

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/kubeopera/platform/provisioner/internal/provision"
	"github.com/kubeopera/platform/shared/api"
	edge "github.com/kubeopera/platform/shared/httpapi"
	"github.com/kubeopera/platform/shared/runapi"
)

// operation is a list's filter of that name.
type operation string

// Schema implements huma.SchemaProvider.
func (operation) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Enum: []any{
		string(api.OperationApply), string(api.OperationPlan), string(api.OperationDestroy), string(api.OperationUnlock),
	}}
}

type handlers struct {
	runapi.Handlers[api.Provision, api.ProvisionList, operation]
	service *provision.Service
}

// accepted is the answer of what starts a run.
type accepted = runapi.Accepted[api.Provision]

func (h handlers) start(ctx context.Context, in *runapi.StartInput[api.ProvisionRequest]) (*accepted, error) {
	by, err := runapi.Caller(ctx, in.Repeatable, in.Body)
	if err != nil {
		return nil, err
	}
	return h.Started(h.service.Start(ctx, in.Body, by))
}

func (h handlers) retry(ctx context.Context, in *runapi.AgainInput) (*accepted, error) {
	by, err := runapi.Caller(ctx, in.Repeatable, nil)
	if err != nil {
		return nil, err
	}
	return h.Started(h.service.Retry(ctx, in.ID, by))
}

func (h handlers) destroy(ctx context.Context, in *runapi.AgainInput) (*accepted, error) {
	by, err := runapi.Caller(ctx, in.Repeatable, nil)
	if err != nil {
		return nil, err
	}
	return h.Started(h.service.Destroy(ctx, in.ID, by))
}

type unlockInput struct {
	runapi.OfRun
	edge.Repeatable
	Body api.UnlockRequest
}

func (h handlers) unlock(ctx context.Context, in *unlockInput) (*accepted, error) {
	by, err := runapi.Caller(ctx, in.Repeatable, in.Body)
	if err != nil {
		return nil, err
	}
	return h.Started(h.service.Unlock(ctx, in.ID, in.Body.LockID, by))
}

type kubeconfigInput struct {
	runapi.OfRun
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
