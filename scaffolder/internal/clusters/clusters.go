// Package clusters asks cluster-provisioner for the clusters that it has built.
package clusters

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/kubeopera/platform/scaffolder/internal/scaffold"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
)

// timeout bounds what a request to this service waits for the other one.
const timeout = 15 * time.Second

// Provisioner implements scaffold.Clusters.
type Provisioner struct {
	baseURL string
	keyFile string
	http    *http.Client
}

// New checks the configuration; cluster-provisioner need not be up yet. The key is
// read for every call, so that it can be rotated.
func New(baseURL, keyFile string) (*Provisioner, error) {
	p := &Provisioner{baseURL: baseURL, keyFile: keyFile, http: &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}}
	_, err := p.client()
	return p, err
}

func (p *Provisioner) client() (*client.Provisioner, error) {
	key, err := os.ReadFile(p.keyFile)
	if err != nil {
		return nil, fmt.Errorf("API key for cluster-provisioner: %w", err)
	}
	c, err := client.NewProvisioner(client.Config{BaseURL: p.baseURL, APIKey: strings.TrimSpace(string(key)), HTTPClient: p.http})
	if err != nil {
		return nil, fmt.Errorf("cluster-provisioner: %w", err)
	}
	return c, nil
}

// Cluster implements scaffold.Clusters.
func (p *Provisioner) Cluster(ctx context.Context, id string) (scaffold.Cluster, error) {
	c, err := p.client()
	if err != nil {
		return scaffold.Cluster{}, fmt.Errorf("%w: %w", scaffold.ErrProvisionerUnavailable, err)
	}
	look, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	run, err := c.Provision(look, id)
	if err != nil {
		return scaffold.Cluster{}, translate(ctx, err, scaffold.ErrProvisionNotFound)
	}
	refuse := func(reason string) (scaffold.Cluster, error) {
		return scaffold.Cluster{}, &scaffold.ClusterError{Provision: id, Status: run.Status, Reason: reason}
	}
	switch run.Status {
	case api.StatusSucceeded:
	case api.StatusFailed, api.StatusCancelled:
		return refuse("it has built no cluster; retry it first")
	default:
		return refuse("wait until it has succeeded")
	}
	kubeconfig, err := c.Kubeconfig(look, id)
	if client.IsConflict(err) || client.IsNotFound(err) || client.Status(err) == http.StatusGone {
		p, _ := errors.AsType[*api.Problem](err)
		return refuse(p.Detail)
	}
	if err != nil {
		return scaffold.Cluster{}, translate(ctx, err, scaffold.ErrProvisionerUnavailable)
	}
	return scaffold.Cluster{Kubeconfig: kubeconfig, CredentialID: run.CredentialID}, nil
}

// translate is an error of the client in the domain's words.
func translate(ctx context.Context, err, notFound error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case client.IsNotFound(err):
		return fmt.Errorf("%w: %w", notFound, err)
	case client.IsUnauthorized(err):
		return fmt.Errorf("%w: %w", scaffold.ErrProvisionerForbidden, err)
	}
	return fmt.Errorf("%w: %w", scaffold.ErrProvisionerUnavailable, err)
}
