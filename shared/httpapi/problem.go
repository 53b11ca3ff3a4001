package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/danielgtaylor/huma/v2/validation"
	"github.com/go-chi/chi/v5"

	"github.com/kubeopera/platform/shared/api"
)

// Codes of the problems that this package answers with.
const (
	CodeUnauthorized         = "unauthorized"
	CodeNotFound             = "not_found"
	CodeMethodNotAllowed     = "method_not_allowed"
	CodeBodyTooLarge         = "body_too_large"
	CodeBodyTimeout          = "body_timeout"
	CodeBodyIncomplete       = "body_incomplete"
	CodeBodyRequired         = "body_required"
	CodeBodyUnexpected       = "body_unexpected"
	CodeUnsupportedMediaType = "unsupported_media_type"
	CodeInvalidJSON          = "invalid_json"
	CodeDuplicateField       = "duplicate_field"
	CodeInvalidRequest       = "invalid_request"
	CodeInternal             = "internal"
	CodeNotReady             = "not_ready"
	CodeShuttingDown         = "shutting_down"
	CodeClientGone           = "client_gone"
)

// statusClientGone is what logs and metrics show for requests that their client
// gave up; nobody receives it.
const statusClientGone = 499

// answer is a problem as Huma wants its errors.
type answer struct {
	*api.Problem
	cause error // what a 5xx comes from, for the log
}

// GetStatus implements huma.StatusError.
func (a *answer) GetStatus() int { return a.Status }

// ContentType implements huma.ContentTypeFilter.
func (a *answer) ContentType(string) string { return api.ProblemContentType }

// Unwrap keeps the cause reachable, as for any wrapped error.
func (a *answer) Unwrap() error { return a.cause }

// installHumaGlobals sets the package variables of Huma that decide on errors.
// They are shared by all APIs of the process and so hold no state.
var installHumaGlobals = sync.OnceFunc(func() {
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return humaProblem(nil, status, msg, errs)
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		if status == http.StatusInternalServerError && len(errs) == 1 {
			return handlerProblem(ctx, errs[0])
		}
		return humaProblem(ctx, status, msg, errs)
	}
	// JSON field names match in their exact case only.
	huma.ValidateStrictCasing = true
	// Some messages quote the error of a parser, which quotes the value.
	format := huma.ErrorFormatter
	huma.ErrorFormatter = func(message string, args ...any) string {
		if len(args) == 1 {
			if _, ok := args[0].(error); ok {
				return strings.TrimSuffix(message, ": %v")
			}
		}
		return format(message, args...)
	}
	validation.MsgExpectedRFC4122UUID = "expected a UUID: %v"
})

// handlerProblem is the answer to an error that a handler returned.
func handlerProblem(hctx huma.Context, err error) *answer {
	ctx := hctx.Context()
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return &answer{Problem: new(*p), cause: err}
	}
	if ctx.Err() != nil {
		return &answer{Problem: ended(ctx), cause: err}
	}
	if r := requestFrom(ctx); r != nil && r.api.config.Problems != nil {
		if p := r.api.config.Problems(err); p != nil {
			return &answer{Problem: new(*p), cause: err}
		}
	}
	return &answer{Problem: internal(), cause: err}
}

// ended is the answer to a request whose context has ended.
func ended(ctx context.Context) *api.Problem {
	if errors.Is(context.Cause(ctx), errDraining) {
		return &api.Problem{Status: http.StatusServiceUnavailable, Code: CodeShuttingDown, Detail: "the service is shutting down; try again"}
	}
	return &api.Problem{Status: statusClientGone, Code: CodeClientGone, Title: "Client Closed Request", Detail: "the client went away"}
}

func internal() *api.Problem {
	return &api.Problem{Status: http.StatusInternalServerError, Code: CodeInternal, Detail: "an error that was not expected; the service's log has the details under the request id"}
}

// finishProblem is a Huma transformer: every problem that Huma writes passes it
// before its headers are sent.
func finishProblem(ctx huma.Context, _ string, v any) (any, error) {
	if a, ok := v.(*answer); ok {
		r, w := humachi.Unwrap(ctx)
		a.finish(w, r)
	}
	return v, nil
}

// finish fills in what the request knows, and logs what is our fault.
func (a *answer) finish(w http.ResponseWriter, r *http.Request) {
	p, req := a.Problem, requestFrom(r.Context())
	if p.Type == "" {
		p.Type = "about:blank"
	}
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	if p.Instance == "" {
		p.Instance = cut(r.URL.Path, 200)
	}
	p.RequestID = req.id
	req.problem = p.Code
	if p.Status == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", "5")
	}
	if p.Status >= http.StatusInternalServerError && a.cause != nil {
		req.api.config.Log.ErrorContext(r.Context(), "request failed", "error", a.cause, "problem", p.Code, "request_id", req.id)
	}
}

// writeProblem answers where Huma has no part in it.
func (a *API) writeProblem(w http.ResponseWriter, r *http.Request, p *api.Problem) {
	out := &answer{Problem: p}
	out.finish(w, r)
	body, err := json.Marshal(p)
	if err != nil { // strings and numbers do not fail
		body = nil
	}
	w.Header().Set("Content-Type", api.ProblemContentType)
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // the client may be gone
}

func (a *API) notFound(w http.ResponseWriter, r *http.Request) {
	requestFrom(r.Context()).noRoute = true
	a.writeProblem(w, r, &api.Problem{Status: http.StatusNotFound, Code: CodeNotFound, Detail: "there is nothing at this path; /docs lists the operations"})
}

func (a *API) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	requestFrom(r.Context()).noRoute = true
	allowed := a.allowed(r)
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	a.writeProblem(w, r, &api.Problem{
		Status: http.StatusMethodNotAllowed, Code: CodeMethodNotAllowed,
		Detail: "this path does not take this method, only " + strings.Join(allowed, ", "),
	})
}

// allowed lists the methods that the request's path takes.
func (a *API) allowed(r *http.Request) []string {
	path := r.URL.RawPath
	if path == "" {
		path = r.URL.Path
	}
	var out []string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if a.router.Match(chi.NewRouteContext(), m, path) {
			out = append(out, m)
			if m == http.MethodGet {
				out = append(out, http.MethodHead)
			}
		}
	}
	return out
}
