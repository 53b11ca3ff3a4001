package provisioner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/logger"
	"github.com/kubeopera/platform/shared/redact"
)

const (
	roleControlPlane = v1alpha1.NodeRoleControlPlane
	roleWorker       = v1alpha1.NodeRoleWorker
)

// NodeInfo represents a node to be provisioned
type NodeInfo struct {
	Name        string // the node's name in the cluster, too
	PublicIP    string
	PrivateIP   string    // among the nodes; with a Transport, and without PublicIP too, the machine is asked
	Role        string    // "control-plane" or "worker"
	SSHUsername string    // SSH username for this node (optional, falls back to ClusterProvisioner.UserName)
	InstanceID  string    // EC2 instance ID (used by SSMTransport for private-subnet nodes)
	Transport   Transport // Transport controls how SSH connections are established; nil falls back to DirectTransport

	Port     int      // of SSH, for a nil Transport; 22 if zero
	HostKeys []string // the node's host keys, as in authorized_keys; if given no other is accepted
}

// address is where the other nodes reach it.
func (n NodeInfo) address() string {
	if n.PrivateIP != "" {
		return n.PrivateIP
	}
	return n.PublicIP
}

// ClusterProvisioner handles provisioning of multinode Kubernetes clusters. One
// call at a time does so; others wait.
type ClusterProvisioner struct {
	// SSH credentials
	KeyPath  string
	UserName string

	// Cluster information. It is never changed.
	Environment *v1alpha1.Environment

	// JoinToken is generated after kubeadm init and used by joining nodes. It is
	// that of the last join, and short-lived.
	JoinToken string
	// CertificateKey is used for control-plane joins in HA mode. It is that of the
	// last such join.
	CertificateKey string
	// ControlPlaneEndpoint is the API server endpoint (LB DNS or first CP IP). If it
	// is empty ProvisionCluster takes the environment's
	// spec.cluster.controlPlaneEndpoint, else its load balancer, else the address of
	// the first control plane.
	ControlPlaneEndpoint string
	// CACertHash is the CA certificate hash for secure joins
	CACertHash string

	// Connection is how to log in, beyond KeyPath.
	Connection Connection
	// Parallel is how many nodes are worked on at a time, where order does not
	// matter; 8 if zero.
	Parallel int
	// OnProgress is told of each node's progress, by one goroutine at a time. It
	// must not wait for the call that it is told of.
	OnProgress func(NodeProgress)
	// BaseDir is where files of custom templates are; see
	// DependencyResolver.SetBaseDir.
	BaseDir string

	log  *logger.FunLogger
	dial dialer // dialHost if nil

	mu         sync.Mutex
	found      bool // ControlPlaneEndpoint is not the caller's
	kubeconfig redact.Secret
}

// dialer connects to a node; tests have their own.
type dialer func(ctx context.Context, c Connection, e endpoint) (host, error)

// NewClusterProvisioner creates a new cluster provisioner
func NewClusterProvisioner(log *logger.FunLogger, keyPath, userName string, env *v1alpha1.Environment) *ClusterProvisioner {
	return &ClusterProvisioner{KeyPath: keyPath, UserName: userName, Environment: env, log: log}
}

// Phases of a node, in NodeResult and NodeProgress.
const (
	PhasePending      = "pending"
	PhaseConnecting   = "connecting"
	PhasePreparing    = "preparing"
	PhaseInitializing = "initializing"
	PhaseJoining      = "joining"
	PhaseConfiguring  = "configuring"
	PhaseReady        = "ready"
	PhaseFailed       = "failed" // of NodeProgress only
	PhaseResetting    = "resetting"
	PhaseReset        = "reset"
)

// NodeProgress is one event.
type NodeProgress struct {
	Node, Role string
	Phase      string // one of the phases
	Step       string // name of a script, or of what is done
	Message    string // for humans; of a failure its reason
	At         time.Time
}

// State is the phase in the words in which the platform's services speak of nodes.
func (p NodeProgress) State() api.NodeState {
	switch p.Phase {
	case PhasePending:
		return api.NodeWaiting
	case PhaseInitializing, PhaseJoining, PhaseConfiguring:
		return api.NodeJoining
	case PhaseReady:
		return api.NodeJoined
	case PhaseReset:
		return api.NodeReset
	case PhaseFailed:
		return api.NodeFailed
	}
	return api.NodeWorking
}

// NodeResult is how far a node came.
type NodeResult struct {
	Name, Role string
	Phase      string // ready or reset, else the phase that it did not get through
	Step       string // what failed, or was last done
	Err        error  // why; nil if all went well
	Skipped    bool   // it was given up because of another node, Err says which
}

// ClusterResult has a result for every node, in the order of the call.
type ClusterResult struct {
	Nodes []NodeResult
}

const clusterTimeout = 4 * time.Hour

// ProvisionCluster provisions a multinode Kubernetes cluster
// It follows the order: init first CP → join additional CPs → join workers
//
// Its error joins a NodeError for every node that failed. See
// ProvisionClusterContext.
func (cp *ClusterProvisioner) ProvisionCluster(nodes []NodeInfo) error {
	ctx, cancel := context.WithTimeout(context.Background(), clusterTimeout)
	defer cancel()
	_, err := cp.ProvisionClusterContext(ctx, nodes)
	return err
}

// ProvisionClusterContext is ProvisionCluster that ends with ctx and says how far
// each node came. All nodes are prepared in parallel, control planes join one at
// a time, workers in parallel. A node that fails does not stop the others, but for
// two: without an initialised control plane nothing joins, and after a control
// plane that did not join no other does, since etcd may have lost its majority.
//
// It may be called again, with other nodes too: what is done is recognised, and
// what still runs on a node is waited for. A cluster that exists is joined by its
// first control plane that answers. The result is nil only if the input is
// refused.
func (cp *ClusterProvisioner) ProvisionClusterContext(ctx context.Context, nodes []NodeInfo) (*ClusterResult, error) {
	return cp.call(nodes, func(r *clusterRun) error { return r.provision(ctx) })
}

// call does something with nodes while no other call does. The error of do is of
// no node.
func (cp *ClusterProvisioner) call(nodes []NodeInfo, do func(*clusterRun) error) (*ClusterResult, error) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	r, err := cp.newRun(nodes)
	if err != nil {
		return nil, err
	}
	defer r.close()
	return r.result(do(r))
}

// checkNodes is what holds for the nodes of every call.
func checkNodes(nodes []NodeInfo) error {
	if len(nodes) == 0 {
		return ErrNoNodes
	}
	var errs []error
	controlPlanes := 0
	seen := make(map[string]string)
	unique := func(node, what, value string) {
		if value == "" {
			return
		}
		if other, ok := seen[what+" "+value]; ok {
			errs = append(errs, fmt.Errorf("node %s: has the %s %s as node %s has", node, what, value, other))
		}
		seen[what+" "+value] = node
	}
	for i, n := range nodes {
		add := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
		switch n.Role {
		case roleControlPlane:
			controlPlanes++
		case roleWorker:
		default:
			add("node %s: role %q is neither %s nor %s", n.Name, n.Role, roleControlPlane, roleWorker)
		}
		if !validNodeName(n.Name) {
			add("node %d: %q is no name for a node: lower-case letters, digits, - and . only", i, n.Name)
		}
		for what, ip := range map[string]string{"private": n.PrivateIP, "public": n.PublicIP} {
			if ip != "" && !validAddress(ip) {
				add("node %s: %s address %q is neither an IP address nor a host name", n.Name, what, ip)
			}
		}
		if n.address() == "" && n.Transport == nil {
			add("node %s: has neither an address nor a transport", n.Name)
		}
		if n.Port < 0 || n.Port > 65535 {
			add("node %s: port %d is out of range", n.Name, n.Port)
		}
		if _, err := parseHostKeys(n.HostKeys); err != nil {
			add("node %s: host keys: %w", n.Name, err)
		}
		unique(n.Name, "name", n.Name)
		unique(n.Name, "private address", n.PrivateIP)
		unique(n.Name, "instance id", n.InstanceID)
		if n.Transport == nil {
			unique(n.Name, "address to connect to", n.dialAddress())
		}
	}
	if controlPlanes == 0 {
		errs = append(errs, ErrNoControlPlane)
	}
	return errors.Join(errs...)
}

// dialAddress is host:port for a node without a transport.
func (n NodeInfo) dialAddress() string {
	host := n.PublicIP
	if host == "" {
		host = n.PrivateIP
	}
	port := sshPort
	if n.Port != 0 {
		port = fmt.Sprint(n.Port)
	}
	return net.JoinHostPort(host, port)
}

// validAddress accepts IP addresses and host names.
func validAddress(s string) bool {
	return net.ParseIP(s) != nil || validNodeName(s)
}
