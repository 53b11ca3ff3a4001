// Package httpapi is the skeleton of an HTTP service: API keys, problem
// details, request log, health, metrics, OpenAPI document, shutdown. A service
// adds typed handlers and one function that maps its errors.
//
//	keys, err := httpapi.OpenKeys(path, log)
//	api, err := httpapi.New(httpapi.Config{Title: "cluster-provisioner", Version: "v1", Keys: keys, Log: log, Ready: ready, Registry: registry, Problems: problem})
//	huma.Register(api.Huma(), huma.Operation{
//		OperationID: "get-provision", Method: http.MethodGet, Path: "/provisions/{id}",
//		Summary: "Status of a run", Tags: []string{"provisions"}, Errors: []int{http.StatusNotFound},
//	}, handler)
//	err = httpapi.Serve(ctx, listener, api, log)
//
// # Routes
//
// Paths of operations are relative to /api/v1, which Huma's router is mounted
// on and which the OpenAPI document names as its server. All below /api/v1
// needs X-Api-Key; Caller tells a handler the name of the key. /health, /ready,
// /metrics, /openapi.json and /docs are open. Query parameters that an
// operation does not declare are refused.
//
// # Errors
//
// A handler returns any error; it picks no status and writes no problem itself.
// The first that applies:
//
//   - the error is or wraps an *api.Problem: that is the answer;
//   - the request's context has ended: 503 shutting_down when the service is
//     stopping, else the client has gone and nobody reads the answer;
//   - Config.Problems returns a problem for it: that is the answer;
//   - else 500 internal without detail.
//
// A problem needs Status, Code and Detail, and Errors for field problems, whose
// locations start with body, query, path or header: body.machines[0].role. New
// fills in Type, Title, Instance and RequestID where they are empty. 5xx
// problems are logged with the error behind them, so an error must not hold a
// secret. 503 gets Retry-After; other headers come with huma.ErrorWithHeaders
// around any error.
//
// What is refused before a handler runs, with its code: no or unknown key (401
// unauthorized), unknown path (404 not_found), method (405 method_not_allowed),
// a body where none is taken (400
// body_unexpected), body too large (413 body_too_large), another content type than JSON (415
// unsupported_media_type), empty body (400 body_required), text that is not
// JSON (400 invalid_json), a field twice in one object (400 duplicate_field),
// and unknown, missing or mistyped fields and parameters, all at once (422
// invalid_request). Rejected values are never repeated in an answer. An input
// whose Resolve method returns RuleProblems has the service's own rules reported
// together with these.
//
// # Asking again, waiting, pages
//
// Watch is embedded in the input of a GET whose answer has an ETag: 304 while it
// is unchanged, and long polls. Repeatable is embedded in the input of an
// operation that starts something: its key and RequestDigest tell a repetition
// from another request. Cursor binds a page of a list to the list's filter. What
// they mean for a service's data is the service's: they are only the HTTP of it.
//
// # Streams
//
// Stream answers with a reader's content as it comes and ends when the client
// goes away. There is no write timeout, so a handler may wait (long polls) as
// long as the request's context lives; Serve cancels it when draining.
//
// # Global state
//
// Huma keeps the function that makes errors, the strictness of field names and
// message formats in package variables. New sets them, once per process and for
// every Huma API of it. They are stateless: what belongs to one API travels in
// the request's context.
package httpapi
