package runapi

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/httpapi"
	"github.com/kubeopera/platform/shared/runservice"
)

// Caller is who sent a request, with what makes its repetition known.
func Caller(ctx context.Context, repeat httpapi.Repeatable, body any) (runservice.Caller, error) {
	c := runservice.Caller{Name: httpapi.Caller(ctx), Key: repeat.Key()}
	if c.Key == "" {
		return c, nil
	}
	var err error
	c.Digest, err = httpapi.RequestDigest(ctx, body)
	return c, err
}

// StartInput is the input of an operation that starts a run by a body.
type StartInput[Body any] struct {
	httpapi.Repeatable
	Body Body
}

// checkKey finds the rules of Checked in a request's context.
type checkKey struct{}

type check[Body any] func(ctx context.Context, body Body, caller runservice.Caller) []api.FieldProblem

// Checked lets StartInput.Resolve reach a service's rules, which name all that is
// wrong with a request as far as it shows in itself.
func Checked[Body any](rules func(context.Context, Body, runservice.Caller) []api.FieldProblem) func(*huma.Operation) {
	return func(o *huma.Operation) {
		o.Middlewares = append(o.Middlewares, func(ctx huma.Context, next func(huma.Context)) {
			next(huma.WithValue(ctx, checkKey{}, check[Body](rules)))
		})
	}
}

// Resolve applies the domain's rules even when the body's form is wrong, so that
// an answer names unknown and mistyped fields together with values that are not
// allowed. The service applies them again when it starts the run.
func (i *StartInput[Body]) Resolve(ctx huma.Context) []error {
	rules, ok := ctx.Context().Value(checkKey{}).(check[Body])
	if !ok {
		return nil
	}
	by, err := Caller(ctx.Context(), i.Repeatable, i.Body)
	if err != nil {
		return nil // the handler meets it again
	}
	return httpapi.RuleProblems(rules(ctx.Context(), i.Body, by))
}

// AgainInput is the input of an operation that starts a run from an earlier one.
type AgainInput struct {
	OfRun
	httpapi.Repeatable
}

// Accepted is the answer of everything that goes on after it.
type Accepted[View any] struct {
	Location   string `header:"Location" doc:"Where to poll the run"`
	RetryAfter int    `header:"Retry-After" doc:"Seconds to wait before polling"`
	Replayed   *bool  `header:"Idempotent-Replayed" doc:"The run was started by an earlier request with the same Idempotency-Key"`
	Body       View
}

// Accept answers with a run that goes on.
func (h Handlers[View, List, Operation]) Accept(view View) *Accepted[View] {
	return &Accepted[View]{Location: h.Resource.Location(h.ID(view)), RetryAfter: PollSeconds, Body: view}
}

// Started answers with a run that was started, or with the error.
func (h Handlers[View, List, Operation]) Started(s runservice.Started[View], err error) (*Accepted[View], error) {
	if err != nil {
		return nil, err
	}
	out := h.Accept(s.Run)
	if s.Replayed {
		out.Replayed = new(true)
	}
	return out, nil
}
