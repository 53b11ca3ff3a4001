package runapi

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/httpapi"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runservice"
)

// Service is what the operations of all services call; runservice.Cases is one.
type Service[View any] interface {
	Get(ctx context.Context, id string, watch runservice.Watch) (view View, revision string, err error)
	List(ctx context.Context, page runservice.Page) (list []View, last string, err error)
	Logs(ctx context.Context, id string, opts runs.LogOptions) (io.ReadCloser, error)
	Events(ctx context.Context, id string) (api.EventList, error)
	Cancel(ctx context.Context, id string, force bool, caller runservice.Caller) (View, error)
}

// Handlers are the operations of a service whose runs look like View and whose
// lists look like List. Operation is the type of a list's filter of that name: a
// string with a schema (huma.SchemaProvider).
type Handlers[View, List any, Operation ~string] struct {
	Resource Resource
	Service  Service[View]
	ID       func(View) string
	Status   func(View) api.Status
	// Page makes a page of a list.
	Page func(list []View, next string) List
}

// Register adds the operations.
func (h Handlers[View, List, Operation]) Register(to huma.API) {
	r, one := h.Resource, h.Resource.RunPath()
	huma.Register(to, r.Operation("list-"+r.Plural, http.MethodGet, r.Path(), "List runs, newest first"), h.list)
	huma.Register(to, r.Operation("get-"+r.Singular, http.MethodGet, one, "Status, phase and progress of a run, as they are now or when they change",
		notModified, Problems(http.StatusNotFound)), h.get)
	huma.Register(to, r.Operation("get-"+r.Singular+"-logs", http.MethodGet, one+"/logs", "Log of a run, from its pod or from what was kept of it",
		Answers("text/plain"), Problems(http.StatusNotFound)), h.logs)
	huma.Register(to, r.Operation("get-"+r.Singular+"-events", http.MethodGet, one+"/events", "What has happened to a run, oldest first",
		Problems(http.StatusNotFound)), h.events)
	huma.Register(to, r.Operation("cancel-"+r.Singular, http.MethodPost, one+"/cancel", "Ask a run to stop and save its work; with force, kill one that has not in its time",
		Starts, Problems(http.StatusNotFound, http.StatusConflict)), h.cancel)
}

// OfRun is the path of an operation on one run. It is exported for Huma, which
// does not look into others that are embedded; so is Filter.
type OfRun struct {
	ID string `path:"id" doc:"Id of the run"`
}

type cancelInput struct {
	OfRun
	Body *api.CancelRequest
}

func (h Handlers[View, List, Operation]) cancel(ctx context.Context, in *cancelInput) (*Accepted[View], error) {
	view, err := h.Service.Cancel(ctx, in.ID, in.Body != nil && in.Body.Force, runservice.Caller{Name: httpapi.Caller(ctx)})
	if err != nil {
		return nil, err
	}
	return h.Accept(view), nil
}

// Filter selects the runs of a list; a cursor belongs to it.
type Filter[Operation ~string] struct {
	Status        string    `query:"status" enum:"queued,running,cancelling,succeeded,failed,cancelled" doc:"Only runs of this status"`
	Environment   string    `query:"environment" maxLength:"63" doc:"Only runs of this environment"`
	Operation     Operation `query:"operation" doc:"Only runs of this operation"`
	CreatedAfter  time.Time `query:"created_after" doc:"Only runs that were started at that time or later"`
	CreatedBefore time.Time `query:"created_before" doc:"Only runs that were started before that time"`
}

type listInput[Operation ~string] struct {
	Filter[Operation]
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"Most runs of a page"`
	Cursor string `query:"cursor" maxLength:"100" doc:"next_cursor of the page before, which had the same filter"`
}

type listOutput[List any] struct {
	Body List
}

func (h Handlers[View, List, Operation]) list(ctx context.Context, in *listInput[Operation]) (*listOutput[List], error) {
	before, err := httpapi.ParseCursor(in.Cursor, in.Filter)
	if err != nil {
		return nil, runservice.Invalid("query.cursor", "must be the next_cursor of a page with the same filter")
	}
	list, last, err := h.Service.List(ctx, runservice.Page{
		Status: api.Status(in.Status), Environment: in.Environment, Operation: api.Operation(in.Operation),
		CreatedAfter: in.CreatedAfter, CreatedBefore: in.CreatedBefore, Limit: in.Limit, Before: before,
	})
	if err != nil {
		return nil, err
	}
	next := ""
	if last != "" {
		if next, err = httpapi.Cursor(last, in.Filter); err != nil {
			return nil, err
		}
	}
	return &listOutput[List]{Body: h.Page(list, next)}, nil
}

type getInput struct {
	OfRun
	httpapi.Watch
}

type getOutput[View any] struct {
	Status     int
	ETag       string `header:"ETag" doc:"Changes with the answer"`
	RetryAfter *int   `header:"Retry-After" doc:"Seconds to wait before asking again; absent once the status is final"`
	Body       View
}

func (h Handlers[View, List, Operation]) get(ctx context.Context, in *getInput) (*getOutput[View], error) {
	watch := runservice.Watch{Most: in.Most()}
	if in.IfNoneMatch != "" {
		watch.Seen = func(revision string) bool { return in.Has(httpapi.ETag(revision)) }
	}
	view, revision, err := h.Service.Get(ctx, in.ID, watch)
	if err != nil {
		return nil, err
	}
	out := &getOutput[View]{Status: http.StatusOK, ETag: httpapi.ETag(revision), Body: view}
	if in.Has(out.ETag) {
		out.Status = http.StatusNotModified
	}
	if !runs.Final(h.Status(view)) {
		out.RetryAfter = new(PollSeconds)
	}
	return out, nil
}

type logsInput struct {
	OfRun
	Follow bool `query:"follow" doc:"Stream the log until the run ends"`
	Tail   int  `query:"tail" minimum:"1" maximum:"1000000" doc:"Only so many of the last lines"`
}

// Resolve keeps a HEAD, whose answer has no body, from waiting for the end of the run.
func (i *logsInput) Resolve(ctx huma.Context) []error {
	i.Follow = i.Follow && ctx.Method() != http.MethodHead
	return nil
}

func (h Handlers[View, List, Operation]) logs(ctx context.Context, in *logsInput) (*huma.StreamResponse, error) {
	log, err := h.Service.Logs(ctx, in.ID, runs.LogOptions{Follow: in.Follow, Tail: in.Tail})
	if err != nil {
		return nil, err
	}
	return httpapi.Stream(log, "text/plain; charset=utf-8"), nil
}

type eventsOutput struct {
	Body api.EventList
}

func (h Handlers[View, List, Operation]) events(ctx context.Context, in *OfRun) (*eventsOutput, error) {
	list, err := h.Service.Events(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &eventsOutput{Body: list}, nil
}
