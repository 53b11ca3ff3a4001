package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/google/uuid"
)

// request is what the layers of one request share. It is changed only by the
// request's own goroutine.
type request struct {
	api     *API
	id      string
	method  string
	path    string
	caller  string // name of the API key, empty before authentication
	problem string // code of the problem that was answered
	noRoute bool   // no route matched: the path is not ours to log or to label with
}

type requestKey struct{}

func requestFrom(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

// RequestID is the id of the request that ctx belongs to, empty outside of one.
func RequestID(ctx context.Context) string {
	if r := requestFrom(ctx); r != nil {
		return r.id
	}
	return ""
}

// Caller names the API key of the request that ctx belongs to.
func Caller(ctx context.Context) string {
	if r := requestFrom(ctx); r != nil {
		return r.caller
	}
	return ""
}

const requestIDHeader = "X-Request-Id"

// begin gives the request its id, the client's own if that is harmless.
func (a *API) begin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestIDHeader)
		if !validName(id) {
			id = uuid.Must(uuid.NewV7()).String()
		}
		w.Header().Set(requestIDHeader, id)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		ctx := context.WithValue(r.Context(), requestKey{}, &request{api: a, id: id, method: r.Method, path: r.URL.Path})
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// observe logs and measures every request. Neither query nor body is logged:
// both may hold what was not meant for a log.
func (a *API) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		aborted := true // unless next returns
		defer func() {
			status := ww.Status()
			if status == 0 {
				status = http.StatusOK
			}
			a.finish(r, status, time.Since(start), aborted)
		}()
		next.ServeHTTP(ww, r)
		aborted = false
	})
}

func (a *API) finish(r *http.Request, status int, took time.Duration, aborted bool) {
	req := requestFrom(r.Context())
	route := chi.RouteContext(r.Context()).RoutePattern()
	path := r.URL.Path
	if req.noRoute {
		route, path = "unmatched", ""
	}
	a.metrics.observe(r.Method, route, status, took)

	level := levelOf(route, status)
	if !a.config.Log.Enabled(r.Context(), level) {
		return
	}
	attrs := []any{"method", r.Method, "route", route, "status", status, "duration_ms", took.Milliseconds(), "request_id", req.id}
	if path != "" && path != route {
		attrs = append(attrs, "path", cut(path, 200))
	}
	if req.caller != "" {
		attrs = append(attrs, "caller", req.caller)
	}
	if req.problem != "" {
		attrs = append(attrs, "problem", req.problem)
	}
	if aborted {
		attrs = append(attrs, "aborted", true)
	}
	a.config.Log.Log(r.Context(), level, "request", attrs...)
}

// recover answers a panic with a problem; if the answer has begun, it cuts the
// connection, since the client would take what it has for the whole.
func (a *API) recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
			a.config.Log.ErrorContext(r.Context(), "panic in handler", "panic", fmt.Sprint(p), "stack", string(debug.Stack()), "request_id", RequestID(r.Context()))
			if ww, ok := w.(middleware.WrapResponseWriter); ok && ww.Status() != 0 {
				panic(http.ErrAbortHandler)
			}
			a.writeProblem(w, r, internal())
		}()
		next.ServeHTTP(w, r)
	})
}
