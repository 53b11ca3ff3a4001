package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/kubeopera/platform/shared/api"
)

// Scaffolder is a client of gitops-scaffolder. It is safe for concurrent use.
type Scaffolder struct {
	runs[api.Scaffold]
}

// NewScaffolder checks the configuration; the service need not be up yet.
func NewScaffolder(c Config) (*Scaffolder, error) {
	s, err := newService(c)
	if err != nil {
		return nil, err
	}
	return &Scaffolder{runs[api.Scaffold]{
		service: s, one: "scaffold", many: "scaffolds", status: func(run api.Scaffold) api.Status { return run.Status },
	}}, nil
}

// WithIdempotencyKey is the same client, whose next start or retry carries that
// key; see Provisioner.WithIdempotencyKey.
func (c *Scaffolder) WithIdempotencyKey(key string) *Scaffolder {
	return &Scaffolder{c.withKey(key)}
}

// StartScaffold starts a run and returns it as it was accepted.
func (c *Scaffolder) StartScaffold(ctx context.Context, r api.ScaffoldRequest) (api.Scaffold, error) {
	return c.begin(ctx, "start", http.MethodPost, r)
}

// RetryScaffold starts a new run with the inputs of one that has failed or was
// cancelled. What that one's request held in clear has to be there again: a
// problem of the code secrets_required says what.
func (c *Scaffolder) RetryScaffold(ctx context.Context, id string, secrets api.ScaffoldSecrets) (api.Scaffold, error) {
	return c.begin(ctx, "retry", http.MethodPost, secrets, id, "retry")
}

// CancelScaffold asks a run to stop and returns it as it is then; see
// Provisioner.CancelProvision.
func (c *Scaffolder) CancelScaffold(ctx context.Context, id string, force bool) (api.Scaffold, error) {
	return c.cancel(ctx, id, force)
}

// Scaffold is a run as it is now.
func (c *Scaffolder) Scaffold(ctx context.Context, id string) (api.Scaffold, error) {
	return c.get(ctx, id)
}

// ScaffoldEvents is a run's timeline, oldest first.
func (c *Scaffolder) ScaffoldEvents(ctx context.Context, id string) ([]api.Event, error) {
	return c.events(ctx, id)
}

// Scaffolds is one page of runs, newest first.
func (c *Scaffolder) Scaffolds(ctx context.Context, o ListOptions) (list api.ScaffoldList, err error) {
	err = c.list(ctx, o, &list)
	return list, err
}

// AllScaffolds goes through the pages of runs from o on, newest first. An error is
// the last element.
func (c *Scaffolder) AllScaffolds(ctx context.Context, o ListOptions) iter.Seq2[api.Scaffold, error] {
	return all(o, func(o ListOptions) ([]api.Scaffold, string, error) {
		page, err := c.Scaffolds(ctx, o)
		return page.Scaffolds, page.NextCursor, err
	})
}

// Diff is what a dry run that has succeeded would have changed, as a unified diff.
func (c *Scaffolder) Diff(ctx context.Context, id string) ([]byte, error) {
	return c.output(ctx, id, "diff", "text/x-diff", nil)
}
