package httpapi_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/golden"
	"github.com/kubeopera/platform/shared/httpapi"
)

const key = "a-key-for-tests-only"

var (
	errTaken  = errors.New("taken")
	errSecret = errors.New("dial 10.0.0.1: the-canary")
)

// bundle is an API with operations like those of a service.
type bundle struct {
	api   *httpapi.API
	log   *bytes.Buffer
	ready error // what /ready finds, when it looks
	looks int
	calls []startRequest // bodies that reached the handler
}

// startRequest is like a service's: required and optional fields, a list, a map.
type startRequest struct {
	Name        string            `json:"name" doc:"Name of the cluster: a DNS label" example:"acme-prod"`
	Region      string            `json:"region"`
	WorkerCount *int              `json:"worker_count,omitempty" doc:"Worker nodes; default 2"`
	Tags        map[string]string `json:"tags,omitempty"`
	Machines    []machine         `json:"machines,omitempty"`
}

type machine struct {
	Address string `json:"address,omitempty"`
	Role    string `json:"role" enum:"control_plane,worker"`
}

type run struct {
	ID          string `json:"id"`
	RequestedBy string `json:"requested_by,omitempty"`
}

type startInput struct {
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255"`
	Body           startRequest
}

// Resolve is a rule of the service's own.
func (i *startInput) Resolve(huma.Context) []error {
	if i.Body.Region == "eu-west-1" {
		return nil
	}
	return httpapi.RuleProblems([]api.FieldProblem{{Location: "body.region", Message: "must be a region of AWS"}})
}

type startOutput struct {
	Location string `header:"Location"`
	Body     run
}

type getInput struct {
	ID   uuid.UUID `path:"id" format:"uuid"`
	Wait int       `query:"wait" maximum:"60"`
}

type formats struct {
	Body struct {
		ID    string  `json:"id,omitempty" format:"uuid"`
		Mail  string  `json:"mail,omitempty" format:"email"`
		Time  string  `json:"time,omitempty" format:"duration"`
		URI   string  `json:"uri,omitempty" format:"uri"`
		RE    string  `json:"re,omitempty" format:"regex"`
		Kind  string  `json:"kind,omitempty" enum:"a,b"`
		Name  string  `json:"name,omitempty" pattern:"^[a-z]+$" maxLength:"3"`
		Small int8    `json:"small,omitempty"`
		Ratio float64 `json:"ratio,omitempty"`
	}
}

func setup(tb testing.TB) *bundle {
	tb.Helper()
	b := &bundle{log: new(bytes.Buffer)}
	log := slog.New(slog.NewJSONHandler(io.MultiWriter(b.log, tb.Output()), &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	b.api, err = httpapi.New(httpapi.Config{
		Title: "test-service", Version: "v1", Description: "For tests.", Keys: openKeys(tb, log), Log: log, Registry: prometheus.NewRegistry(),
		Ready: func(context.Context) (map[string]string, error) {
			b.looks++
			return map[string]string{"schema_version": "7"}, b.ready
		},
		Problems: func(err error) *api.Problem {
			if errors.Is(err, errTaken) {
				return &api.Problem{Status: http.StatusConflict, Code: "environment_busy", Detail: "the environment is busy", Instance: "/api/v1/provisions/1"}
			}
			return nil
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	b.register()
	return b
}

// openKeys gives keys of which one is key.
func openKeys(tb testing.TB, log *slog.Logger) *httpapi.Keys {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "keys")
	digest := sha256.Sum256([]byte(key))
	if err := os.WriteFile(path, []byte("tests:"+hex.EncodeToString(digest[:])+"\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	keys, err := httpapi.OpenKeys(path, log)
	if err != nil {
		tb.Fatal(err)
	}
	return keys
}

func (b *bundle) register() {
	h := b.api.Huma()
	huma.Register(h, huma.Operation{
		OperationID: "start-provision", Method: http.MethodPost, Path: "/provisions", Summary: "Start a run",
		DefaultStatus: http.StatusAccepted, Errors: []int{http.StatusConflict},
	}, func(ctx context.Context, in *startInput) (*startOutput, error) {
		b.calls = append(b.calls, in.Body)
		return &startOutput{Location: "/api/v1/provisions/1", Body: run{ID: "1", RequestedBy: httpapi.Caller(ctx)}}, nil
	})
	huma.Register(h, huma.Operation{
		OperationID: "get-provision", Method: http.MethodGet, Path: "/provisions/{id}", Summary: "Status of a run", Errors: []int{http.StatusNotFound},
	}, func(context.Context, *getInput) (*struct{ Body run }, error) {
		return &struct{ Body run }{}, nil
	})
	huma.Register(h, huma.Operation{OperationID: "check", Method: http.MethodPost, Path: "/formats", Hidden: true},
		func(context.Context, *formats) (*struct{}, error) { return nil, nil })
	huma.Register(h, huma.Operation{OperationID: "fail", Method: http.MethodGet, Path: "/fail/{how}", Hidden: true},
		func(_ context.Context, in *struct {
			How string `path:"how"`
		},
		) (*struct{}, error) {
			switch in.How {
			case "problem":
				return nil, fmt.Errorf("wrapped: %w", &api.Problem{Status: 410, Code: "gone_away", Detail: "it went"})
			case "taken":
				return nil, huma.ErrorWithHeaders(fmt.Errorf("start: %w", errTaken), http.Header{"Location": {"/api/v1/provisions/1"}})
			case "unavailable":
				return nil, &api.Problem{Status: 503, Code: "kubernetes_unavailable", Detail: "try later"}
			case "huma":
				return nil, huma.Error404NotFound("no such run")
			case "panic":
				panic("oh no")
			}
			return nil, errSecret
		})
}

type call struct {
	method, path, body string
	header             http.Header
}

// response is an answer without a body to close.
type response struct {
	StatusCode int
	Header     http.Header
}

func (b *bundle) do(tb testing.TB, c call) (response, string) {
	tb.Helper()
	var body io.Reader
	if c.body != "" {
		body = strings.NewReader(c.body)
	}
	r := httptest.NewRequestWithContext(tb.Context(), c.method, c.path, body)
	r.Header.Set("X-Api-Key", key)
	if c.method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(r.Header, c.header)
	w := httptest.NewRecorder()
	b.api.ServeHTTP(w, r)
	return response{w.Code, w.Header()}, w.Body.String()
}

func problemOf(tb testing.TB, res response, body string) api.Problem {
	tb.Helper()
	if t := res.Header.Get("Content-Type"); t != api.ProblemContentType {
		tb.Errorf("content type %q of %s", t, body)
	}
	dec := json.NewDecoder(strings.NewReader(body))
	dec.DisallowUnknownFields()
	var p api.Problem
	if err := dec.Decode(&p); err != nil {
		tb.Fatalf("%v in %s", err, body)
	}
	if p.Status != res.StatusCode || p.Type != "about:blank" || p.Title == "" || p.Detail == "" || p.RequestID == "" || p.RequestID != res.Header.Get("X-Request-Id") {
		tb.Errorf("incomplete problem, status %d: %s", res.StatusCode, body)
	}
	return p
}

const good = `{"name":"acme","region":"eu-west-1"`

func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	big := good + `,"tags":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`
	field := func(location, message string) []api.FieldProblem {
		return []api.FieldProblem{{Location: location, Message: message}}
	}
	post := func(body string) call { return call{method: http.MethodPost, path: "/api/v1/provisions", body: body} }
	with := func(c call, name, value string) call {
		c.header = http.Header{name: {value}}
		return c
	}
	tests := []struct {
		name   string
		call   call
		status int
		code   string
		errors []api.FieldProblem
	}{
		{"no key", call{method: http.MethodGet, path: "/api/v1/provisions", header: http.Header{"X-Api-Key": nil}}, 401, "unauthorized", nil},
		{"empty key", with(post(good+"}"), "X-Api-Key", ""), 401, "unauthorized", nil},
		{"unknown key", with(post(good+"}"), "X-Api-Key", key+"x"), 401, "unauthorized", nil},
		{"two keys", call{method: http.MethodGet, path: "/api/v1/provisions", header: http.Header{"X-Api-Key": {key, key}}}, 401, "unauthorized", nil},
		{"unknown path without a key", call{method: http.MethodGet, path: "/api/v1/nothing", header: http.Header{"X-Api-Key": nil}}, 401, "unauthorized", nil},
		{"unknown path", call{method: http.MethodGet, path: "/api/v1/nothing"}, 404, "not_found", nil},
		{"unknown path outside", call{method: http.MethodGet, path: "/nothing"}, 404, "not_found", nil},
		{"unknown file of the documentation", call{method: http.MethodGet, path: "/docs/..%2fapi.go"}, 404, "not_found", nil},
		{"method", call{method: http.MethodDelete, path: "/api/v1/provisions"}, 405, "method_not_allowed", nil},
		{"method that is none", call{method: "BREW", path: "/api/v1/provisions"}, 405, "method_not_allowed", nil},
		{"content type", with(post(good+"}"), "Content-Type", "text/plain"), 415, "unsupported_media_type", nil},
		{"form", with(post(good+"}"), "Content-Type", "application/x-www-form-urlencoded"), 415, "unsupported_media_type", nil},
		{"charset", with(post(good+"}"), "Content-Type", "application/json; charset=utf-16"), 415, "unsupported_media_type", nil},
		{"compressed", with(post(good+"}"), "Content-Encoding", "gzip"), 415, "unsupported_media_type", nil},
		{"too large", post(big), 413, "body_too_large", nil},
		{"no body", post(""), 400, "body_required", nil},
		{"spaces", post(" \n"), 400, "body_required", nil},
		{"broken JSON", post(`{"name": `), 400, "invalid_json", nil},
		{"two values", post(good + "} {}"), 400, "invalid_json", nil},
		{"not UTF-8", post(good + ",\"tags\":{\"a\":\"\xff\"}}"), 400, "invalid_json", nil},
		{"the same field twice", post(good + `,"region":"eu-west-2"}`), 400, "duplicate_field", field("body.region", "occurs twice")},
		{"number beyond any type", post(good + `,"worker_count":1e400}`), 400, "invalid_request", field("body", "the number is out of range")},
		{"null", post("null"), 422, "invalid_request", field("body", "expected object, not null")},
		{"list", post("[]"), 422, "invalid_request", field("body", "expected object")},
		{"string for a number", post(good + `,"worker_count":"2"}`), 422, "invalid_request", field("body.worker_count", "expected integer")},
		{"fraction", post(good + `,"worker_count":2.5}`), 422, "invalid_request", field("body.worker_count", "expected integer")},
		{"whole number with fraction", post(good + `,"worker_count":2.0}`), 422, "invalid_request", field("body.worker_count", "expected a smaller whole number, without fraction or exponent")},
		{"number beyond its type", post(good + `,"worker_count":99999999999999999999}`), 422, "invalid_request", field("body.worker_count", "expected a smaller whole number, without fraction or exponent")},
		{"null for a required field", post(`{"name":"acme","region":null}`), 422, "invalid_request", field("body.region", "expected string, not null")},
		{"missing field", post(`{"name":"acme"}`), 422, "invalid_request", field("body.region", "is required")},
		{"unknown field", post(good + `,"worker_cuont":2}`), 422, "invalid_request", field("body.worker_cuont", "unknown field; did you mean worker_count?")},
		{"unknown field in camel case", post(good + `,"workerCount":2}`), 422, "invalid_request", field("body.workerCount", "unknown field; did you mean worker_count?")},
		{"unknown field in another case", post(good + `,"Worker_Count":2}`), 422, "invalid_request", field("body.Worker_Count", "unknown field; did you mean worker_count?")},
		{"unknown field like no other", post(good + `,"zzz":2}`), 422, "invalid_request", field("body.zzz", "unknown field")},
		{"unknown field in a list", post(good + `,"machines":[{"role":"worker"},{"role":"worker","addrezs":"x"}]}`), 422, "invalid_request", field("body.machines[1].addrezs", "unknown field; did you mean address?")},
		{"unknown field with a dot", post(good + `,"worker.count":2}`), 422, "invalid_request", field("body.worker.count", "unknown field; did you mean worker_count?")},
		{"wrong type in a map", post(good + `,"tags":{"kubernetes.io/x":1}}`), 422, "invalid_request", field("body.tags.kubernetes.io/x", "expected string")},
		{"the service's own rule", post(`{"name":"acme","region":"mars"}`), 422, "invalid_request", field("body.region", "must be a region of AWS")},
		{"the service's own rule beside a wrong form", post(`{"region":"mars"}`), 422, "invalid_request", []api.FieldProblem{
			{Location: "body.name", Message: "is required"}, {Location: "body.region", Message: "must be a region of AWS"},
		}},
		{"all problems at once", post(`{"region":1,"nam":"acme"}`), 422, "invalid_request", []api.FieldProblem{
			{Location: "body.nam", Message: "unknown field; did you mean name?"}, {Location: "body.name", Message: "is required"}, {Location: "body.region", Message: "expected string"},
		}},
		{"header", with(post(good+"}"), "Idempotency-Key", strings.Repeat("k", 300)), 422, "invalid_request", field("header.Idempotency-Key", "expected length <= 255")},
		{"path", call{method: http.MethodGet, path: "/api/v1/provisions/the-canary"}, 422, "invalid_request", field("path.id", "invalid value")},
		{"query", call{method: http.MethodGet, path: "/api/v1/provisions/0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b?wait=70"}, 422, "invalid_request", field("query.wait", "expected number <= 60")},
		{"a query that is cut by a semicolon", call{method: http.MethodGet, path: "/api/v1/provisions/0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b?wait=7;x=1"}, 422, "invalid_request", field("query", "cannot be read: separate parameters with &, and encode what is special in them")},
		{"a query with a broken escape", call{method: http.MethodGet, path: "/api/v1/provisions/0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b?wait=%zz"}, 422, "invalid_request", field("query", "cannot be read: separate parameters with &, and encode what is special in them")},
		{"a query parameter given twice", call{method: http.MethodGet, path: "/api/v1/provisions/0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b?wait=7&wait=8"}, 422, "invalid_request", field("query.wait", "may be given once only")},
		{"unknown query parameter", call{method: http.MethodGet, path: "/api/v1/provisions/0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b?wiat=7"}, 422, "invalid_request", field("query.wiat", "unknown query parameter; did you mean wait?")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			res, body := b.do(t, tt.call)
			p := problemOf(t, res, body)
			if res.StatusCode != tt.status || p.Code != tt.code {
				t.Errorf("got %d %s, want %d %s: %s", res.StatusCode, p.Code, tt.status, tt.code, body)
			}
			if diff := cmp.Diff(tt.errors, p.Errors, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("field problems (-want +got):\n%s", diff)
			}
			if len(b.calls) > 0 {
				t.Error("the handler ran")
			}
			if tt.status == http.StatusUnauthorized && res.Header.Get("WWW-Authenticate") == "" {
				t.Error("401 without WWW-Authenticate")
			}
			if tt.status == http.StatusMethodNotAllowed && res.Header.Get("Allow") != "POST" {
				t.Errorf("405 allows %q", res.Header.Get("Allow"))
			}
		})
	}
}

func TestRejectedValuesAreNotRepeated(t *testing.T) {
	t.Parallel()
	const canary = "the-canary"
	bodies := []string{
		`{"id":"urn:xxid:` + canary + `-of-thirty-six-bytes-at-length"}`, `{"id":"` + canary + `"}`, `{"mail":"` + canary + ` x@"}`,
		`{"time":"` + canary + `"}`, `{"uri":"://` + canary + ` %zz"}`, `{"re":"(` + canary + `"}`, `{"kind":"` + canary + `"}`, `{"name":"` + canary + `"}`,
		`{"naame":"` + canary + `","kind":"a"}`, `{"small":"` + canary + `"}`, `{"small":98765}`, `["` + canary + `"]`, `"` + canary + `"`,
		`{"name":"` + canary, `{"name":"` + canary + `"}}`, `{"name":"` + canary + `","name":"` + canary + `"}`, `{"id":{"x":"` + canary + `"}}`,
	}
	for _, body := range bodies {
		b := setup(t)
		res, got := b.do(t, call{method: http.MethodPost, path: "/api/v1/formats?q=" + canary, body: body})
		_, alone := b.do(t, call{method: http.MethodPost, path: "/api/v1/formats", body: body})
		problemOf(t, res, got)
		if res.StatusCode < 400 || res.StatusCode >= 500 {
			t.Errorf("%s: status %d", body, res.StatusCode)
		}
		for _, where := range []string{got, alone, b.log.String()} {
			if strings.Contains(where, canary) || strings.Contains(where, "98765") {
				t.Errorf("%s: repeated in %s", body, where)
			}
		}
	}
}

func TestManyProblemsAreCutShort(t *testing.T) {
	t.Parallel()
	var body strings.Builder
	body.WriteString(good)
	for i := range 3000 {
		fmt.Fprintf(&body, `,"unknown_%d_%s":1`, i, strings.Repeat("x", i%100*5))
	}
	res, got := setup(t).do(t, call{method: http.MethodPost, path: "/api/v1/provisions", body: body.String() + "}"})
	p := problemOf(t, res, got)
	if len(p.Errors) != 50 || !strings.Contains(p.Detail, "(and 2999 more)") || len(got) > 50*400 {
		t.Errorf("%d problems in %d bytes: %s", len(p.Errors), len(got), p.Detail)
	}
}

func TestHandlerErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		how    string
		status int
		code   string
		detail string
		header [2]string
		logged string // in an error record
	}{
		{"problem", 410, "gone_away", "it went", [2]string{}, ""},
		{"taken", 409, "environment_busy", "the environment is busy", [2]string{"Location", "/api/v1/provisions/1"}, ""},
		{"unavailable", 503, "kubernetes_unavailable", "try later", [2]string{"Retry-After", "5"}, "kubernetes_unavailable"},
		{"huma", 404, "not_found", "no such run", [2]string{}, ""},
		{"unknown", 500, "internal", "an error that was not expected; the service's log has the details under the request id", [2]string{}, "dial 10.0.0.1"},
		{"panic", 500, "internal", "an error that was not expected; the service's log has the details under the request id", [2]string{}, "oh no"},
	}
	for _, tt := range tests {
		t.Run(tt.how, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			res, body := b.do(t, call{method: http.MethodGet, path: "/api/v1/fail/" + tt.how})
			p := problemOf(t, res, body)
			if p.Status != tt.status || p.Code != tt.code || p.Detail != tt.detail {
				t.Errorf("got %s", body)
			}
			if got := res.Header.Get(tt.header[0]); got != tt.header[1] {
				t.Errorf("header %s is %q", tt.header[0], got)
			}
			logged := ""
			for line := range strings.Lines(b.log.String()) {
				if strings.Contains(line, `"level":"ERROR"`) && !strings.Contains(line, `"msg":"request"`) {
					logged += line
				}
			}
			if tt.logged == "" && logged != "" || !strings.Contains(logged, tt.logged) || tt.logged != "" && !strings.Contains(logged, p.RequestID) {
				t.Errorf("error log: %q, want %q with the request id", logged, tt.logged)
			}
			if strings.Contains(body, "canary") {
				t.Errorf("the cause is shown: %s", body)
			}
		})
	}
}

func TestAcceptedRequestIsLoggedAndMeasured(t *testing.T) {
	t.Parallel()
	b := setup(t)
	header := http.Header{"X-Request-Id": {"from-the-client.1"}, "Content-Type": {"Application/JSON; charset=UTF-8"}}
	res, body := b.do(t, call{method: http.MethodPost, path: "/api/v1/provisions", body: good + `,"worker_count":null,"tags":{"secret":"the-canary"}}`, header: header})
	if res.StatusCode != http.StatusAccepted || res.Header.Get("Location") == "" || res.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("got %d %v %s", res.StatusCode, res.Header, body)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(body), &got); err != nil || got["requested_by"] != "tests" {
		t.Errorf("%v in %s", err, body)
	}
	if got["$schema"] != nil || res.Header.Get("Link") != "" {
		t.Errorf("schema links in %s, %v", body, res.Header)
	}
	if len(b.calls) != 1 || b.calls[0].WorkerCount != nil || b.calls[0].Region != "eu-west-1" {
		t.Errorf("the handler got %+v", b.calls)
	}
	var record map[string]any
	if err := json.Unmarshal(b.log.Bytes(), &record); err != nil {
		t.Fatalf("%v: want one record, got %s", err, b.log)
	}
	delete(record, "time")
	delete(record, "duration_ms")
	want := map[string]any{
		"level": "INFO", "msg": "request", "method": "POST", "route": "/api/v1/provisions", "status": 202.0,
		"caller": "tests", "request_id": "from-the-client.1",
	}
	if diff := cmp.Diff(want, record); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	b.do(t, call{method: http.MethodGet, path: "/api/v1/provisions/0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b?wait=2"})
	b.do(t, call{method: http.MethodGet, path: "/api/v1/0f8b7a52?token=the-canary"})
	b.do(t, call{method: "BREW", path: "/other-canary"})
	_, metrics := b.do(t, call{method: http.MethodGet, path: "/metrics"})
	for _, want := range []string{
		`http_server_request_duration_seconds_count{method="POST",route="/api/v1/provisions",status="202"} 1`,
		`http_server_request_duration_seconds_count{method="GET",route="/api/v1/provisions/{id}",status="200"} 1`,
		`http_server_request_duration_seconds_count{method="GET",route="unmatched",status="404"} 1`,
		`http_server_request_duration_seconds_count{method="other",route="unmatched",status="405"} 1`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s:\n%s", want, metrics)
		}
	}
	if all := b.log.String() + metrics; strings.Contains(all, "canary") {
		t.Errorf("query, body or unknown path in log or metrics: %s", all)
	}
	if !strings.Contains(b.log.String(), `"path":"/api/v1/provisions/0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b"`) {
		t.Errorf("the log does not say which run: %s", b.log)
	}
}

func TestRequestIDOfTheClientIsUsedOnlyIfHarmless(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, id := range []string{"", "a b", "x\ny", strings.Repeat("x", 65), "ü"} {
		res, _ := b.do(t, call{method: http.MethodGet, path: "/health", header: http.Header{"X-Request-Id": {id}}})
		if got := res.Header.Get("X-Request-Id"); len(got) != 36 {
			t.Errorf("%q became %q", id, got)
		}
	}
}

func TestOpenRoutes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for path, want := range map[string]string{
		"/health": `{"status":"ok"}`, "/ready": `{"schema_version":"7","status":"ok"}`, "/metrics": "http_server_request", "/openapi.json": `"openapi": "3.1.0"`,
		"/docs": "docs/docs.js", "/docs/docs.js": "openapi.json", "/docs/docs.css": "font",
	} {
		b.do(t, call{method: http.MethodGet, path: "/health"}) // so that there is something to measure
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			res, body := b.do(t, call{method: method, path: path, header: http.Header{"X-Api-Key": nil}})
			if res.StatusCode != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s %s: %d %s", method, path, res.StatusCode, body)
			}
			if strings.Contains(path, "docs") && (strings.Contains(body, "//") && strings.Contains(body, "http") || res.Header.Get("Content-Security-Policy") == "") {
				t.Errorf("%s loads from elsewhere or has no policy", path)
			}
		}
	}
	b = setup(t)
	b.ready = errors.New("database: connection refused")
	res, body := b.do(t, call{method: http.MethodGet, path: "/ready"})
	if p := problemOf(t, res, body); p.Status != http.StatusServiceUnavailable || p.Detail != "not ready: database: connection refused" {
		t.Errorf("not ready: %s", body)
	}
	if res, _ := b.do(t, call{method: http.MethodGet, path: "/health"}); res.StatusCode != http.StatusOK {
		t.Errorf("a service that is not ready is not alive: %d", res.StatusCode)
	}
}

// TestReadyIsAskedForOften: whoever may not use the service must not be able to
// keep it from its work.
func TestReadyIsAskedForOften(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		for range 100 {
			b.do(t, call{method: http.MethodGet, path: "/ready"})
		}
		if b.looks != 1 {
			t.Errorf("100 requests at a time made %d looks, want 1", b.looks)
		}
		b.ready = errors.New("database: connection refused")
		<-time.After(time.Second) // of the test's own clock
		if res, _ := b.do(t, call{method: http.MethodGet, path: "/ready"}); res.StatusCode != http.StatusServiceUnavailable || b.looks != 2 {
			t.Errorf("a second later: %d after %d looks", res.StatusCode, b.looks)
		}
	})
}

func TestOpenAPIDocument(t *testing.T) {
	t.Parallel()
	doc, err := setup(t).api.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "openapi.json", doc)
	for range 5 {
		again, err := setup(t).api.OpenAPI()
		if err != nil || !bytes.Equal(doc, again) {
			t.Fatalf("the document changes from one time to the next: %v", err)
		}
	}
}

func TestNewRefusesIncompleteConfig(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	for name, c := range map[string]httpapi.Config{
		"no title":    {Version: "v1", Keys: &httpapi.Keys{}, Log: log, Registry: prometheus.NewRegistry()},
		"no keys":     {Title: "t", Version: "v1", Log: log, Registry: prometheus.NewRegistry()},
		"no log":      {Title: "t", Version: "v1", Keys: &httpapi.Keys{}, Registry: prometheus.NewRegistry()},
		"no registry": {Title: "t", Version: "v1", Keys: &httpapi.Keys{}, Log: log},
	} {
		if _, err := httpapi.New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
