package client_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
)

// begun is a service that begins a run for every new idempotency key, and loses
// its first answers.
type begun struct {
	lose int
	keys []string
}

func (b *begun) handle(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		reply(w, 400, &api.Problem{Status: 400, Code: "no_key", Detail: "x"})
		return
	}
	if !slices.Contains(b.keys, key) {
		b.keys = append(b.keys, key)
	}
	if b.lose > 0 {
		b.lose--
		refuse(w)
		return
	}
	reply(w, http.StatusAccepted, api.Provision{ID: key})
}

func TestALostAnswerBeginsNoSecondRun(t *testing.T) {
	t.Parallel()
	calls := map[string]func(context.Context, *client.Provisioner) (api.Provision, error){
		"start": func(ctx context.Context, c *client.Provisioner) (api.Provision, error) {
			return c.StartProvision(ctx, api.ProvisionRequest{Name: "acme"})
		},
		"retry": func(ctx context.Context, c *client.Provisioner) (api.Provision, error) {
			return c.RetryProvision(ctx, "x")
		},
		"destroy": func(ctx context.Context, c *client.Provisioner) (api.Provision, error) {
			return c.DestroyProvision(ctx, "x")
		},
		"unlock": func(ctx context.Context, c *client.Provisioner) (api.Provision, error) {
			return c.UnlockProvision(ctx, "x", "lock")
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &begun{lose: 3}
				c, f := newClient(t, b.handle)
				run, err := call(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				if len(b.keys) != 1 || run.ID != b.keys[0] || len(f.requests) != 4 {
					t.Errorf("keys %q in %d requests, run %s", b.keys, len(f.requests), run.ID)
				}
				if slices.ContainsFunc(f.bodies, func(body string) bool { return body != f.bodies[0] }) {
					t.Errorf("the body differs: %q", f.bodies)
				}
				if _, err := call(t.Context(), c); err != nil || len(b.keys) != 2 {
					t.Errorf("a second call: %v, keys %q", err, b.keys)
				}
				mine := c.WithIdempotencyKey("mine")
				for range 2 {
					if run, err := call(t.Context(), mine); err != nil || run.ID != "mine" {
						t.Errorf("with a key: %s, %v", run.ID, err)
					}
				}
			})
		})
	}
}

func TestCancelOverALostAnswer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		lose   bool
		status api.Status
		ok     bool
	}{
		{"the lost one had cancelled it", true, api.StatusCancelled, true},
		{"it had ended by itself", true, api.StatusSucceeded, false},
		{"it was cancelled long ago", false, api.StatusCancelled, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				lose := tt.lose
				c, _ := newClient(t, func(w http.ResponseWriter, r *http.Request) {
					switch {
					case r.Method == http.MethodGet:
						reply(w, 200, api.Provision{ID: "x", RunStatus: api.RunStatus{Status: tt.status}})
					case lose:
						lose = false
						refuse(w)
					default:
						reply(w, 409, &api.Problem{Status: 409, Code: "run_ended", Detail: "x"})
					}
				})
				run, err := c.CancelProvision(t.Context(), "x", false)
				if (err == nil) != tt.ok || tt.ok && run.Status != tt.status {
					t.Errorf("got %s, %v", run.Status, err)
				}
				if !tt.ok && (client.Code(err) != "run_ended" || !client.IsConflict(err)) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

func TestAllProvisions(t *testing.T) {
	t.Parallel()
	pages := map[string]api.ProvisionList{
		"":  {Provisions: []api.Provision{{ID: "5"}, {ID: "4"}}, NextCursor: "a"},
		"a": {Provisions: []api.Provision{{ID: "3"}}, NextCursor: "b"},
		"b": {Provisions: []api.Provision{{ID: "2"}}},
	}
	c, f := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.URL.Query().Get("cursor")]
		if !ok || r.URL.Query().Get("status") != "failed" {
			reply(w, 422, &api.Problem{Status: 422, Code: "invalid_request", Detail: "x"})
			return
		}
		reply(w, 200, page)
	})
	var ids []string
	for run, err := range c.AllProvisions(t.Context(), client.ListOptions{Status: api.StatusFailed}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, run.ID)
	}
	if !slices.Equal(ids, []string{"5", "4", "3", "2"}) {
		t.Errorf("got %q", ids)
	}
	pages["b"] = api.ProvisionList{Provisions: []api.Provision{{ID: "2"}}, NextCursor: "b"}
	var last error
	for _, err := range c.AllProvisions(t.Context(), client.ListOptions{Status: api.StatusFailed}) {
		last = err
	}
	if last == nil {
		t.Error("no error from a list that has no end")
	}
	before := len(f.requests)
	for _, err := range c.AllProvisions(t.Context(), client.ListOptions{Status: api.StatusFailed}) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	if asked := len(f.requests) - before; asked != 1 {
		t.Errorf("%d pages for one run", asked)
	}
	for _, err := range c.AllProvisions(t.Context(), client.ListOptions{Status: api.StatusFailed, Cursor: "z"}) {
		if client.Status(err) != 422 {
			t.Errorf("got %v", err)
		}
	}
}

func TestKindsOfErrors(t *testing.T) {
	t.Parallel()
	type kinds struct{ NotFound, Conflict, Unauthorized bool }
	tests := map[string]struct {
		err  error
		want kinds
	}{
		"none":         {nil, kinds{}},
		"no answer":    {errRefused, kinds{}},
		"not found":    {&api.Problem{Status: 404, Code: "provision_not_found"}, kinds{NotFound: true}},
		"proxy":        {&api.Problem{Status: 404, Code: "no_problem_document"}, kinds{}},
		"conflict":     {&api.Problem{Status: 409, Code: "environment_busy"}, kinds{Conflict: true}},
		"unauthorized": {&api.Problem{Status: 401, Code: "unauthorized"}, kinds{Unauthorized: true}},
		"forbidden":    {&api.Problem{Status: 403, Code: "forbidden"}, kinds{Unauthorized: true}},
	}
	for name, tt := range tests {
		if got := (kinds{client.IsNotFound(tt.err), client.IsConflict(tt.err), client.IsUnauthorized(tt.err)}); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}
