package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
)

const apiKey = "the-api-key-of-the-caller"

// fake answers in memory, so that tests can run in a bubble of fake time.
type fake struct {
	handle   http.HandlerFunc
	requests []*http.Request
	bodies   []string
}

var errRefused = errors.New("connection refused")

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	f.requests = append(f.requests, r)
	body := ""
	if r.Body != nil {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = string(data)
	}
	f.bodies = append(f.bodies, body)
	w := httptest.NewRecorder()
	f.handle(w, r)
	if w.Code == 1 { // the tests' word for no answer
		return nil, errRefused
	}
	return w.Result(), nil
}

func newClient(tb testing.TB, handle http.HandlerFunc) (*client.Provisioner, *fake) {
	tb.Helper()
	f := &fake{handle: handle}
	c, err := client.NewProvisioner(client.Config{BaseURL: "http://provisioner/base", APIKey: apiKey, HTTPClient: &http.Client{Transport: f}})
	if err != nil {
		tb.Fatal(err)
	}
	return c, f
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	if _, ok := body.(*api.Problem); ok {
		w.Header().Set("Content-Type", api.ProblemContentType)
	}
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		panic(err)
	}
}

func refuse(w http.ResponseWriter) { w.(*httptest.ResponseRecorder).Code = 1 }

func TestRequestsAndAnswers(t *testing.T) {
	t.Parallel()
	run := api.Provision{ID: "run-1", Name: "acme", RunStatus: api.RunStatus{Status: api.StatusQueued, CreatedAt: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)}}
	tests := []struct {
		name string
		call func(context.Context, *client.Provisioner) (any, error)
		line string // of the request
		body string // of the request
		want any
		text string // of the answer, in place of want as JSON
	}{
		{
			"start", func(ctx context.Context, c *client.Provisioner) (any, error) {
				return c.StartProvision(ctx, api.ProvisionRequest{Name: "acme", Topology: api.TopologyEKS, Region: "eu-west-1", CredentialID: "c", KubernetesVersion: "1.35"})
			},
			"POST /base/api/v1/provisions application/json", `{"name":"acme","topology":"eks","region":"eu-west-1","credential_id":"c","kubernetes_version":"1.35"}`, run, "",
		},
		{"get", func(ctx context.Context, c *client.Provisioner) (any, error) { return c.Provision(ctx, "run-1") }, "GET /base/api/v1/provisions/run-1 application/json", "", run, ""},
		{"retry", func(ctx context.Context, c *client.Provisioner) (any, error) { return c.RetryProvision(ctx, "run-1") }, "POST /base/api/v1/provisions/run-1/retry application/json", "", run, ""},
		{"destroy", func(ctx context.Context, c *client.Provisioner) (any, error) { return c.DestroyProvision(ctx, "run-1") }, "DELETE /base/api/v1/provisions/run-1 application/json", "", run, ""},
		{"unlock", func(ctx context.Context, c *client.Provisioner) (any, error) {
			return c.UnlockProvision(ctx, "run-1", "lock")
		}, "POST /base/api/v1/provisions/run-1/unlock application/json", `{"lock_id":"lock"}`, run, ""},
		{"cancel", func(ctx context.Context, c *client.Provisioner) (any, error) {
			return c.CancelProvision(ctx, "run-1", false)
		}, "POST /base/api/v1/provisions/run-1/cancel application/json", `{}`, run, ""},
		{"forced cancel", func(ctx context.Context, c *client.Provisioner) (any, error) {
			return c.CancelProvision(ctx, "run-1", true)
		}, "POST /base/api/v1/provisions/run-1/cancel application/json", `{"force":true}`, run, ""},
		{"events", func(ctx context.Context, c *client.Provisioner) (any, error) {
			events, err := c.ProvisionEvents(ctx, "run-1")
			return api.EventList{Events: events}, err
		}, "GET /base/api/v1/provisions/run-1/events application/json", "", api.EventList{Events: []api.Event{{At: run.CreatedAt, Status: api.StatusQueued, By: "ops"}}}, ""},
		{"id that needs escaping", func(ctx context.Context, c *client.Provisioner) (any, error) { return c.Provision(ctx, "a/b?c=d") }, "GET /base/api/v1/provisions/a%2Fb%3Fc=d application/json", "", run, ""},
		{"list", func(ctx context.Context, c *client.Provisioner) (any, error) {
			return c.Provisions(ctx, client.ListOptions{})
		}, "GET /base/api/v1/provisions application/json", "", api.ProvisionList{Provisions: []api.Provision{run}, NextCursor: "next"}, ""},
		{"list with all options", func(ctx context.Context, c *client.Provisioner) (any, error) {
			return c.Provisions(ctx, client.ListOptions{
				Status: api.StatusFailed, Environment: "acme", Operation: api.OperationPlan, Limit: 7, Cursor: "x y",
				CreatedAfter: run.CreatedAt, CreatedBefore: run.CreatedAt.Add(time.Second / 2),
			})
		}, "GET /base/api/v1/provisions?created_after=2026-11-30T09%3A00%3A00Z&created_before=2026-11-30T09%3A00%3A00.5Z&cursor=x+y&environment=acme&limit=7&operation=plan&status=failed application/json", "", api.ProvisionList{}, ""},
		{"kubeconfig", func(ctx context.Context, c *client.Provisioner) (any, error) {
			b, err := c.Kubeconfig(ctx, "run-1")
			return string(b), err
		}, "GET /base/api/v1/provisions/run-1/kubeconfig application/yaml", "", "apiVersion: v1\n", "apiVersion: v1\n"},
		{"internal kubeconfig", func(ctx context.Context, c *client.Provisioner) (any, error) {
			b, err := c.InternalKubeconfig(ctx, "run-1")
			return string(b), err
		}, "GET /base/api/v1/provisions/run-1/kubeconfig?endpoint=internal application/yaml", "", "apiVersion: v1\n", "apiVersion: v1\n"},
		{"logs", func(ctx context.Context, c *client.Provisioner) (any, error) {
			return readLogs(ctx, c, client.LogOptions{})
		}, "GET /base/api/v1/provisions/run-1/logs text/plain", "", "one\ntwo\n", "one\ntwo\n"},
		{"logs with all options", func(ctx context.Context, c *client.Provisioner) (any, error) {
			return readLogs(ctx, c, client.LogOptions{Follow: true, Tail: 5})
		}, "GET /base/api/v1/provisions/run-1/logs?follow=true&tail=5 text/plain", "", "one\ntwo\n", "one\ntwo\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, f := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
				if tt.text != "" {
					_, _ = io.WriteString(w, tt.text)
					return
				}
				reply(w, http.StatusOK, tt.want)
			})
			got, err := tt.call(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			r := f.requests[0]
			if line := r.Method + " " + r.URL.RequestURI() + " " + r.Header.Get("Accept"); line != tt.line || len(f.requests) != 1 {
				t.Errorf("%d requests, the first %q, want %q", len(f.requests), line, tt.line)
			}
			if r.Header.Get("X-Api-Key") != apiKey || (r.Header.Get("Content-Type") == "application/json") != (tt.body != "") {
				t.Errorf("headers %v", r.Header)
			}
			if f.bodies[0] != tt.body {
				t.Errorf("body %s, want %s", f.bodies[0], tt.body)
			}
		})
	}
}

func readLogs(ctx context.Context, c *client.Provisioner, o client.LogOptions) (string, error) {
	log, err := c.Logs(ctx, "run-1", o)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(log)
	return string(data), errors.Join(err, log.Close())
}

func TestFailures(t *testing.T) {
	t.Parallel()
	problem := func(status int, code string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			reply(w, status, &api.Problem{Status: status, Code: code, Detail: "a sentence", Errors: []api.FieldProblem{{Location: "body.name", Message: "is required"}}})
		}
	}
	html := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Location", "http://elsewhere/")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<h1>proxy</h1>")
		}
	}
	down := func(w http.ResponseWriter, _ *http.Request) { refuse(w) }
	get := func(ctx context.Context, c *client.Provisioner) error { _, err := c.Provision(ctx, "x"); return err }
	start := func(ctx context.Context, c *client.Provisioner) error {
		_, err := c.StartProvision(ctx, api.ProvisionRequest{})
		return err
	}
	logs := func(ctx context.Context, c *client.Provisioner) error {
		_, err := c.Logs(ctx, "x", client.LogOptions{})
		return err
	}
	tests := []struct {
		name     string
		call     func(context.Context, *client.Provisioner) error
		handle   http.HandlerFunc
		status   int // of the problem, 0 if it is none
		code     string
		requests int
		least    time.Duration
	}{
		{"problem", get, problem(404, "provision_not_found"), 404, "provision_not_found", 1, 0},
		{"problem of a stream", logs, problem(404, "no_log"), 404, "no_log", 1, 0},
		{"validation", start, problem(422, "invalid_request"), 422, "invalid_request", 1, 0},
		{"internal error", get, problem(500, "internal"), 500, "internal", 1, 0},
		{"unavailable", get, problem(503, "kubernetes_unavailable"), 503, "kubernetes_unavailable", 4, 0},
		{"unavailable for some time", get, problem(503, "kubernetes_unavailable", "Retry-After", "5"), 503, "kubernetes_unavailable", 4, 15 * time.Second},
		{"unavailable for long", get, problem(503, "kubernetes_unavailable", "Retry-After", "600"), 503, "kubernetes_unavailable", 1, 0},
		{"unavailable start", start, problem(503, "kubernetes_unavailable"), 503, "kubernetes_unavailable", 4, 0},
		{"unavailable start that may be repeated", start, problem(503, "shutting_down", "Retry-After", "5"), 503, "shutting_down", 4, 15 * time.Second},
		{"too many starts", start, problem(429, "slow_down", "Retry-After", "1"), 429, "slow_down", 4, 3 * time.Second},
		{"gateway", get, html(502), 502, "no_problem_document", 4, 0},
		{"gateway for a start", start, html(502), 502, "no_problem_document", 4, 0},
		{"redirect", get, html(302), 302, "no_problem_document", 1, 0},
		{"problem without a code", get, problem(404, ""), 404, "no_problem_document", 1, 0},
		{"down", get, down, 0, "", 4, 0},
		{"down for a start", start, down, 0, "", 4, 0},
		{"another use of the key", start, problem(422, "idempotency_key_reused"), 422, "idempotency_key_reused", 1, 0},
		{"down for a stream", logs, down, 0, "", 4, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, f := newClient(t, tt.handle)
				begin := time.Now()
				err := tt.call(t.Context(), c)
				if err == nil {
					t.Fatal("no error")
				}
				p, ok := errors.AsType[*api.Problem](err)
				if ok != (tt.status != 0) || ok && (p.Status != tt.status || p.Code != tt.code || p.Detail == "") {
					t.Errorf("got %v, want %d %s", err, tt.status, tt.code)
				}
				if tt.status == 0 && !errors.Is(err, errRefused) {
					t.Errorf("got %v, want %v", err, errRefused)
				}
				if strings.Contains(err.Error(), apiKey) || strings.Contains(err.Error(), "<h1>") {
					t.Errorf("the error repeats a key or a page: %v", err)
				}
				if len(f.requests) != tt.requests {
					t.Errorf("%d requests, want %d", len(f.requests), tt.requests)
				}
				if took := time.Since(begin); took < tt.least || took > tt.least+10*time.Second {
					t.Errorf("took %s, want %s and a little", took, tt.least)
				}
			})
		})
	}
}

func TestReadsRecover(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c, _ := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
			switch n++; n {
			case 1:
				refuse(w)
			case 2:
				reply(w, http.StatusServiceUnavailable, &api.Problem{Status: 503, Code: "x", Detail: "x"})
			default:
				reply(w, http.StatusOK, api.Provision{ID: "run-1"})
			}
		})
		if run, err := c.Provision(t.Context(), "run-1"); err != nil || run.ID != "run-1" {
			t.Errorf("got %+v, %v", run, err)
		}
	})
}

func TestCallsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "20")
			reply(w, http.StatusServiceUnavailable, &api.Problem{Status: 503, Code: "x", Detail: "x"})
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if _, err := c.Provision(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("got %v after %s", err, time.Since(begin))
		}
	})
}

func TestAnswersThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"too long": `{"id":"` + strings.Repeat("x", 9<<20) + `"}`, "not JSON": "<html>", "another type": `{"id":1}`} {
		c, _ := newClient(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		synctest.Test(t, func(t *testing.T) {
			if _, err := c.Provision(t.Context(), "x"); err == nil {
				t.Errorf("%s: no error", name)
			}
		})
	}
	c, f := newClient(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, api.Provision{}) })
	for _, id := range []string{"", ".", ".."} {
		if _, err := c.Provision(t.Context(), id); err == nil {
			t.Errorf("id %q: no error", id)
		}
	}
	if len(f.requests) > 0 {
		t.Errorf("asked for %s", f.requests[0].URL)
	}
}

// TestLogsFollow runs over a real connection: what is written is read at once,
// and a connection that breaks is not the end of the log.
func TestLogsFollow(t *testing.T) {
	t.Parallel()
	lines := make(chan string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		control := http.NewResponseController(w)
		for line := range lines {
			if line == "" {
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, line)
			_ = control.Flush()
		}
	}))
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c, err := client.NewProvisioner(client.Config{BaseURL: server.URL, APIKey: apiKey, HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	go func() { lines <- "one\n" }()
	log, err := c.Logs(t.Context(), "run-1", client.LogOptions{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	r := bufio.NewReader(log)
	for _, want := range []string{"one\n", "two\n", "three\n"} {
		if got, err := r.ReadString('\n'); got != want || err != nil {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
		switch want {
		case "one\n":
			lines <- "two\n"
		case "two\n":
			lines <- "three\n"
		}
	}
	lines <- ""
	if _, err := r.ReadString('\n'); err == nil || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the broken stream ended with %v", err)
	}
}

func TestNewProvisionerRefuses(t *testing.T) {
	t.Parallel()
	const canary = "canary"
	for _, c := range []client.Config{
		{BaseURL: "", APIKey: apiKey},
		{BaseURL: "provisioner:8080", APIKey: apiKey},
		{BaseURL: "http://user:" + canary + "@x", APIKey: apiKey},
		{BaseURL: "http://x?y=z", APIKey: apiKey},
		{BaseURL: "http://x"},
		{BaseURL: "http://x", APIKey: canary + "\n"},
		{BaseURL: "http://x", APIKey: canary + "é"},
		{BaseURL: "http://x", APIKey: apiKey, HTTPClient: &http.Client{Timeout: time.Second}},
	} {
		if _, err := client.NewProvisioner(c); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%+v: got %v", c, err)
		}
	}
	c, err := client.NewProvisioner(client.Config{BaseURL: "http://x", APIKey: apiKey})
	if err != nil || strings.Contains(fmt.Sprintf("%+v %#v", c, c), apiKey) {
		t.Errorf("%v; printed %+v", err, c)
	}
}
