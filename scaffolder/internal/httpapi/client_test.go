package httpapi

import (
	"net/http/httptest"
	"testing"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
)

// TestTheClientSpeaksThisAPI: what other services use is what is served.
func TestTheClientSpeaksThisAPI(t *testing.T) {
	t.Parallel()
	w := setup(t)
	server := httptest.NewServer(w.Handler)
	t.Cleanup(server.Close)
	t.Cleanup(server.Client().CloseIdleConnections)
	c, err := client.NewScaffolder(client.Config{BaseURL: server.URL, APIKey: "a-key-of-the-test", HTTPClient: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	start := api.ScaffoldRequest{
		Environment: "acme-prod", Domain: "acme.example.com", Region: "eu-west-1", Email: "ops@acme.example.com",
		Target: api.ScaffoldTarget{ProvisionID: provisionID}, Registry: api.ScaffoldRegistry{Server: "registry.example.com", Username: "robot", Password: "p"},
	}
	run, err := c.WithIdempotencyKey("one").StartScaffold(ctx, start)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.WithIdempotencyKey("one").StartScaffold(ctx, start); err != nil || again.ID != run.ID {
		t.Errorf("the same key: %+v, %v", again, err)
	}
	if got, err := c.Scaffold(ctx, run.ID); err != nil || got.ID != run.ID || got.Environment != "acme-prod" {
		t.Errorf("get: %+v, %v", got, err)
	}
	if list, err := c.Scaffolds(ctx, client.ListOptions{Environment: "acme-prod", Operation: api.OperationScaffold, Limit: 1}); err != nil || len(list.Scaffolds) != 1 {
		t.Errorf("list: %+v, %v", list, err)
	}
	for found, err := range c.AllScaffolds(ctx, client.ListOptions{}) {
		if err != nil || found.ID != run.ID {
			t.Errorf("all: %+v, %v", found, err)
		}
	}
	if events, err := c.ScaffoldEvents(ctx, run.ID); err != nil || len(events) == 0 {
		t.Errorf("events: %+v, %v", events, err)
	}
	if _, err := c.Diff(ctx, run.ID); client.Code(err) != codeNoDiff {
		t.Errorf("diff: %v", err)
	}
	if _, err := c.RetryScaffold(ctx, run.ID, api.ScaffoldSecrets{RegistryPassword: "p"}); !client.IsConflict(err) {
		t.Errorf("retry: %v", err)
	}
	if got, err := c.CancelScaffold(ctx, run.ID, false); err != nil || got.ID != run.ID {
		t.Errorf("cancel: %+v, %v", got, err)
	}
}
