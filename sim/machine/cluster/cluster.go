package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/kubeopera/platform/sim/controlplane"
	"github.com/kubeopera/platform/sim/machine/guest"
)

// Config says which cluster to start.
type Config struct {
	ID          string
	Assets      string // the control plane's binaries
	Dir         string
	Names       []string // in the API server's certificate
	ServiceCIDR string
	First       guest.Member // the member that makes it
	Machine     string       // whose that member is
	Log         *slog.Logger
}

// Cluster is a running cluster. Its methods may be called concurrently.
type Cluster struct {
	id    string
	plane *controlplane.ControlPlane
	admin kubernetes.Interface
	log   *slog.Logger

	mu      sync.Mutex
	members []*member
	lastID  uint64
}

// member is a member of etcd.
type member struct {
	guest.Member
	machine string    // whose process it is, once it has started
	since   time.Time // of running; zero: it does not run
}

// Start starts a cluster with one member, which is not running yet.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	plane, err := controlplane.Start(ctx, controlplane.Config{
		Assets: config.Assets, Dir: config.Dir, CertificateNames: config.Names,
		ControllerManager: true, Controllers: controllers(), AcceptOwnCertificates: true,
		Flags: map[string]string{
			"authorization-mode":          "Node,RBAC",
			"enable-admission-plugins":    "NodeRestriction",
			"enable-bootstrap-token-auth": "true",
			"service-cluster-ip-range":    config.ServiceCIDR,
		},
		Log: config.Log,
	})
	if err != nil {
		return nil, err
	}
	rest := plane.RESTConfig()
	rest.QPS, rest.Burst = 200, 400
	admin, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return nil, errors.Join(err, plane.Stop(ctx))
	}
	c := &Cluster{id: config.ID, plane: plane, admin: admin, log: config.Log}
	first := config.First
	first.ID = c.nextID()
	c.members = []*member{{Member: first, machine: config.Machine}}
	return c, nil
}

// controllers are those that bootstrapping needs, and what keeps namespaces and
// accounts. Pods are made by none: nothing would run them.
func controllers() []string {
	return []string{
		"bootstrap-signer-controller", "token-cleaner-controller",
		"certificatesigningrequest-signing-controller", "certificatesigningrequest-approving-controller",
		"namespace-controller", "serviceaccount-controller", "root-ca-certificate-publisher-controller",
		"garbage-collector-controller", "clusterrole-aggregation-controller",
	}
}

// ID tells clusters apart.
func (c *Cluster) ID() string { return c.id }

// ControlPlane is what stands behind every API server of the cluster.
func (c *Cluster) ControlPlane() *controlplane.ControlPlane { return c.plane }

// Kubernetes is a client with all rights that goes past the machines.
func (c *Cluster) Kubernetes() kubernetes.Interface { return c.admin }

// Address is where the API server behind the machines listens.
func (c *Cluster) Address() (string, error) {
	u, err := url.Parse(c.plane.URL())
	if err != nil {
		return "", err
	}
	return u.Host, nil
}

// Stop ends the cluster.
func (c *Cluster) Stop(ctx context.Context) error { return c.plane.Stop(ctx) }

// Keys are what the machine that makes the cluster puts on its disk.
func (c *Cluster) Keys() (guest.Cluster, error) {
	key, err := c.plane.Authority().KeyPEM()
	if err != nil {
		return guest.Cluster{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return guest.Cluster{
		CACertificate: string(c.plane.CABundle()), CAKey: string(key),
		Data: guest.Data{ClusterID: c.id, MemberID: c.members[0].ID},
	}, nil
}

// nextID is the id of a member. mu is held, or nobody else knows the cluster.
func (c *Cluster) nextID() string {
	c.lastID++
	// They look like etcd's, which are hashes.
	return fmt.Sprintf("%016x", (c.lastID*0x9e3779b97f4a7c15)^0x8e9e05c52164694d)
}
