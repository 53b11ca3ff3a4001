package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/kubeopera/platform/shared/api"
)

// Provisioner is a client of cluster-provisioner. It is safe for concurrent use.
type Provisioner struct {
	service *service
}

// NewProvisioner checks the configuration; the service need not be up yet.
func NewProvisioner(c Config) (*Provisioner, error) {
	s, err := newService(c)
	if err != nil {
		return nil, err
	}
	return &Provisioner{service: s}, nil
}

// StartProvision starts a run and returns it as it was accepted.
func (c *Provisioner) StartProvision(ctx context.Context, r api.ProvisionRequest) (api.Provision, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return api.Provision{}, fmt.Errorf("start provision: %w", err)
	}
	var run api.Provision
	if _, err := c.service.json(ctx, request{method: http.MethodPost, path: []string{"provisions"}, body: body}, &run); err != nil {
		return api.Provision{}, fmt.Errorf("start provision: %w", err)
	}
	return run, nil
}

// Provision is a run as it is now.
func (c *Provisioner) Provision(ctx context.Context, id string) (api.Provision, error) {
	run, _, err := c.provision(ctx, id)
	return run, err
}

func (c *Provisioner) provision(ctx context.Context, id string) (api.Provision, http.Header, error) {
	var run api.Provision
	header, err := c.service.json(ctx, request{method: http.MethodGet, path: []string{"provisions", id}}, &run)
	if err != nil {
		return api.Provision{}, nil, fmt.Errorf("get provision %s: %w", id, err)
	}
	return run, header, nil
}

// ListOptions selects runs; the zero value is the first page of all of them.
type ListOptions struct {
	Status      api.Status
	Environment string
	Limit       int    // runs of a page; 0 for the service's default
	Cursor      string // NextCursor of the page before
}

// Provisions is one page of runs, newest first.
func (c *Provisioner) Provisions(ctx context.Context, o ListOptions) (api.ProvisionList, error) {
	query := url.Values{}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	set("status", string(o.Status))
	set("environment", o.Environment)
	set("cursor", o.Cursor)
	if o.Limit != 0 {
		query.Set("limit", strconv.Itoa(o.Limit))
	}
	var list api.ProvisionList
	if _, err := c.service.json(ctx, request{method: http.MethodGet, path: []string{"provisions"}, query: query}, &list); err != nil {
		return api.ProvisionList{}, fmt.Errorf("list provisions: %w", err)
	}
	return list, nil
}

// LogOptions selects what Logs gives; the zero value is the whole log so far.
type LogOptions struct {
	Follow bool // stay until the run has ended
	Tail   int  // only so many of the last lines; 0 for all
}

// Logs is a run's log. The caller closes it. A reader that ends in an error
// other than io.EOF has not seen all of it.
func (c *Provisioner) Logs(ctx context.Context, id string, o LogOptions) (io.ReadCloser, error) {
	query := url.Values{}
	if o.Follow {
		query.Set("follow", "true")
	}
	if o.Tail != 0 {
		query.Set("tail", strconv.Itoa(o.Tail))
	}
	var log io.ReadCloser
	r := request{method: http.MethodGet, path: []string{"provisions", id, "logs"}, query: query, accept: "text/plain", stream: true}
	err := c.service.do(ctx, r, func(res *http.Response) error {
		log = res.Body
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("logs of provision %s: %w", id, err)
	}
	return log, nil
}

// Kubeconfig is the kubeconfig of the cluster that a run has built, for its public
// endpoint if it has one. It holds a credential.
func (c *Provisioner) Kubeconfig(ctx context.Context, id string) ([]byte, error) {
	return c.kubeconfig(ctx, id, nil)
}

// InternalKubeconfig is the kubeconfig for the endpoint inside the cluster's
// network, of a cluster that has such a one.
func (c *Provisioner) InternalKubeconfig(ctx context.Context, id string) ([]byte, error) {
	return c.kubeconfig(ctx, id, url.Values{"endpoint": {"internal"}})
}

func (c *Provisioner) kubeconfig(ctx context.Context, id string, query url.Values) ([]byte, error) {
	data, _, err := c.service.bytes(ctx, request{method: http.MethodGet, path: []string{"provisions", id, "kubeconfig"}, query: query, accept: "application/yaml"})
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of provision %s: %w", id, err)
	}
	return data, nil
}
