package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"github.com/kubeopera/platform/shared/api"
)

// Provisioner is a client of cluster-provisioner. It is safe for concurrent use.
type Provisioner struct {
	runs[api.Provision]
}

// NewProvisioner checks the configuration; the service need not be up yet.
func NewProvisioner(c Config) (*Provisioner, error) {
	s, err := newService(c)
	if err != nil {
		return nil, err
	}
	return &Provisioner{runs[api.Provision]{
		service: s, one: "provision", many: "provisions", status: func(run api.Provision) api.Status { return run.Status },
	}}, nil
}

// WithIdempotencyKey is the same client, whose next start, retry, destroy or
// unlock carries that key: whoever sends the same request with the same key again,
// even from another process, gets the same run. A key serves one such call; with
// another request the service refuses it. Without this, each call makes a key of
// its own, which covers its own repetitions after a lost answer.
func (c *Provisioner) WithIdempotencyKey(key string) *Provisioner {
	return &Provisioner{c.withKey(key)}
}

// StartProvision starts a run and returns it as it was accepted.
func (c *Provisioner) StartProvision(ctx context.Context, r api.ProvisionRequest) (api.Provision, error) {
	return c.begin(ctx, "start", http.MethodPost, r)
}

// RetryProvision starts a new run with the inputs of one that has failed or was
// cancelled.
func (c *Provisioner) RetryProvision(ctx context.Context, id string) (api.Provision, error) {
	return c.begin(ctx, "retry", http.MethodPost, nil, id, "retry")
}

// DestroyProvision starts a new run that destroys the environment of a run.
func (c *Provisioner) DestroyProvision(ctx context.Context, id string) (api.Provision, error) {
	return c.begin(ctx, "destroy", http.MethodDelete, nil, id)
}

// UnlockProvision starts a new run that removes a lock from the Terraform state of
// a run's environment, if it is still the one of that id.
func (c *Provisioner) UnlockProvision(ctx context.Context, id, lockID string) (api.Provision, error) {
	return c.begin(ctx, "unlock", http.MethodPost, api.UnlockRequest{LockID: lockID}, id, "unlock")
}

// CancelProvision asks a run to stop and returns it as it is then: its end comes
// when its pod has ended. With force, which the service allows only after a
// graceful cancel has had its time, the pod is killed.
func (c *Provisioner) CancelProvision(ctx context.Context, id string, force bool) (api.Provision, error) {
	return c.cancel(ctx, id, force)
}

// Provision is a run as it is now.
func (c *Provisioner) Provision(ctx context.Context, id string) (api.Provision, error) {
	return c.get(ctx, id)
}

// ProvisionEvents is a run's timeline, oldest first.
func (c *Provisioner) ProvisionEvents(ctx context.Context, id string) ([]api.Event, error) {
	return c.events(ctx, id)
}

// Provisions is one page of runs, newest first.
func (c *Provisioner) Provisions(ctx context.Context, o ListOptions) (list api.ProvisionList, err error) {
	err = c.list(ctx, o, &list)
	return list, err
}

// AllProvisions goes through the pages of runs from o on, newest first. An error
// is the last element.
func (c *Provisioner) AllProvisions(ctx context.Context, o ListOptions) iter.Seq2[api.Provision, error] {
	return all(o, func(o ListOptions) ([]api.Provision, string, error) {
		page, err := c.Provisions(ctx, o)
		return page.Provisions, page.NextCursor, err
	})
}

// Kubeconfig is the kubeconfig of the cluster that a run has built, for its public
// endpoint if it has one. It holds a credential.
func (c *Provisioner) Kubeconfig(ctx context.Context, id string) ([]byte, error) {
	return c.output(ctx, id, "kubeconfig", "application/yaml", nil)
}

// InternalKubeconfig is the kubeconfig for the endpoint inside the cluster's
// network, of a cluster that has such a one.
func (c *Provisioner) InternalKubeconfig(ctx context.Context, id string) ([]byte, error) {
	return c.output(ctx, id, "kubeconfig", "application/yaml", url.Values{"endpoint": {"internal"}})
}
