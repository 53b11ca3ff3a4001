package provisioner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/logger"
)

// ClusterHealth represents the health status of a multinode cluster
type ClusterHealth struct {
	// Healthy means that the API server is, and that as many nodes as are expected
	// are there and ready.
	Healthy         bool
	TotalNodes      int
	ReadyNodes      int
	ControlPlanes   int
	Workers         int
	APIServerStatus string // one of the APIServer constants
	Nodes           []NodeHealth
	Message         string // what is wrong, one thing after the other
}

// NodeHealth represents the health status of a single node
type NodeHealth struct {
	Name       string
	Role       string // control-plane or worker
	Ready      bool
	Status     string // Ready or NotReady, and SchedulingDisabled after a comma
	Version    string // of the kubelet
	InternalIP string
}

// States of the API server.
const (
	APIServerRunning     = "Running"
	APIServerNotReady    = "NotReady" // it answers, and says that it is not ready
	APIServerUnreachable = "Unreachable"
)

const healthTimeout = 5 * time.Minute

// GetClusterHealth checks the health of a multinode cluster by querying the first control-plane.
// firstCPHost is the SSH-reachable address: PublicIP for direct SSH, PrivateIP for SSM transport.
// The latter is used for a private address that env.status.cluster gives an instance id to.
//
// A cluster that cannot be asked has a health, too, besides the error.
func (cp *ClusterProvisioner) GetClusterHealth(firstCPHost string) (*ClusterHealth, error) {
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	node := cp.nodeAt(firstCPHost)
	defer closeTransports([]NodeInfo{node})
	return cp.GetClusterHealthContext(ctx, node)
}

// GetClusterHealthContext is GetClusterHealth that ends with ctx, through any
// transport. Only what it takes to connect need be set in node.
func (cp *ClusterProvisioner) GetClusterHealthContext(ctx context.Context, node NodeInfo) (*ClusterHealth, error) {
	return cp.health(ctx, []NodeInfo{node})
}

// GetClusterHealthFromEnv gets cluster health using environment configuration: the
// control planes of env.status.cluster are asked one after the other until one
// answers, by Session Manager those that have an instance id and no public address.
func GetClusterHealthFromEnv(log *logger.FunLogger, env *v1alpha1.Environment) (*ClusterHealth, error) {
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	return ClusterHealthFromEnvironment(ctx, log, env, Connection{})
}

// ClusterHealthFromEnvironment is GetClusterHealthFromEnv that ends with ctx.
// A zero c is replaced by ConnectionFromEnvironment.
func ClusterHealthFromEnvironment(ctx context.Context, log *logger.FunLogger, env *v1alpha1.Environment, c Connection) (*ClusterHealth, error) {
	if env == nil || env.Spec.Cluster == nil {
		return nil, v1alpha1.FieldErrors{{Field: "spec.cluster", Message: "the environment is no cluster"}}
	}
	if env.Status.Cluster == nil {
		return nil, v1alpha1.FieldErrors{{Field: "status.cluster", Message: "the environment has no nodes yet"}}
	}
	cp := NewClusterProvisioner(log, env.Spec.PrivateKey, env.Spec.Username, env)
	if cp.Connection = c; c == (Connection{}) {
		cp.Connection = ConnectionFromEnvironment(env)
	}
	var nodes []NodeInfo
	for _, n := range NodesFromEnvironment(env) {
		if n.Role == roleControlPlane {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("status.cluster.nodes: %w", ErrNoControlPlane)
	}
	defer closeTransports(nodes)
	return cp.health(ctx, nodes)
}

// closeTransports closes those that were made here.
func closeTransports(nodes []NodeInfo) {
	for _, n := range nodes {
		if n.Transport != nil {
			_ = n.Transport.Close()
		}
	}
}

// nodeAt is the node of the environment's status with the address, if there is
// one.
func (cp *ClusterProvisioner) nodeAt(address string) NodeInfo {
	for _, n := range NodesFromEnvironment(cp.Environment) {
		if address != "" && (n.PublicIP == address || n.PrivateIP == address) {
			return n
		}
	}
	return NodeInfo{Name: address, Transport: NewDirectTransport(address)}
}

// NodesFromEnvironment are the nodes of env's status.cluster. Those that have an
// instance id and no public address are reached through Session Manager; whoever
// calls closes their transports.
func NodesFromEnvironment(env *v1alpha1.Environment) []NodeInfo {
	if env == nil || env.Status.Cluster == nil {
		return nil
	}
	region := ""
	if env.Spec.Cluster != nil {
		region = env.Spec.Cluster.Region
	}
	var nodes []NodeInfo
	for _, n := range env.Status.Cluster.Nodes {
		info := NodeInfo{
			Name: n.Name, PublicIP: n.PublicIP, PrivateIP: n.PrivateIP, Role: n.Role, SSHUsername: n.SSHUsername, InstanceID: n.InstanceID,
		}
		if n.PublicIP == "" && n.InstanceID != "" {
			info.Transport = &SSMTransport{InstanceID: n.InstanceID, Region: region}
		}
		nodes = append(nodes, info)
	}
	return nodes
}

// health asks the first of nodes that answers.
func (cp *ClusterProvisioner) health(ctx context.Context, nodes []NodeInfo) (*ClusterHealth, error) {
	r := &clusterRun{cp: cp, masks: cp.Connection.redactor(), hangUp: func() error { return nil }}
	if cp.Environment != nil {
		r.env = *cp.Environment.DeepCopy()
	}
	for _, n := range nodes {
		r.members = append(r.members, &member{info: n})
	}
	defer r.close()
	var err error
	if r.bastion, r.hangUp, err = cp.Connection.dialBastion(ctx, cp.log, cp.UserName, cp.KeyPath); err != nil {
		r.hangUp = func() error { return nil }
		return unreachable(err), err
	}
	var errs []error
	var best *ClusterHealth
	for _, m := range r.members {
		err := r.connect(ctx, m)
		if err == nil {
			var h *ClusterHealth
			if h, err = m.machine.health(ctx, r.env.Spec.Cluster); err == nil {
				return h, nil
			}
			best = h
		}
		errs = append(errs, fmt.Errorf("node %s: %w", m.info.Name, err))
		if ctx.Err() != nil {
			break
		}
	}
	err = errors.Join(errs...)
	if best == nil {
		best = unreachable(err)
	}
	return best, err
}

func unreachable(err error) *ClusterHealth {
	return &ClusterHealth{APIServerStatus: APIServerUnreachable, Message: err.Error()}
}

// health asks one control plane. The health that comes with an error is what is
// known all the same.
func (m *machine) health(ctx context.Context, spec *v1alpha1.ClusterSpec) (*ClusterHealth, error) {
	api, reason := APIServerRunning, ""
	if err := m.apiReady(ctx); err != nil {
		var failed *StepError
		if !errors.As(err, &failed) {
			return unreachable(err), err
		}
		reason = strings.Join(failed.Tail, "; ")
		api = APIServerUnreachable
		// The API server says which of its checks fail; who cannot reach it has no such list.
		if strings.Contains(reason, "[-]") || strings.Contains(reason, "readyz check failed") {
			api = APIServerNotReady
		}
	}
	nodes, err := m.nodes(ctx)
	if err != nil {
		h := unreachable(err)
		h.APIServerStatus = api
		return h, err
	}
	return assess(api, reason, nodes, spec), nil
}

// assess makes a health of what was answered. spec may be nil: then nothing is
// known of what to expect.
func assess(api, reason string, nodes []kubeNode, spec *v1alpha1.ClusterSpec) *ClusterHealth {
	h := &ClusterHealth{APIServerStatus: api, TotalNodes: len(nodes)}
	var problems []string
	problem := func(format string, a ...any) { problems = append(problems, fmt.Sprintf(format, a...)) }
	if api != APIServerRunning {
		problem("API server is %s: %s", api, reason)
	}
	for i := range nodes {
		n := &nodes[i]
		ready, c := n.ready()
		status := "NotReady"
		if ready {
			status = "Ready"
			h.ReadyNodes++
		} else {
			problem("node %s is not ready: %s", n.Metadata.Name, strings.TrimSpace(c.Reason+" "+c.Message))
		}
		if n.Spec.Unschedulable {
			status += ",SchedulingDisabled"
		}
		if n.role() == roleControlPlane {
			h.ControlPlanes++
		} else {
			h.Workers++
		}
		for _, p := range n.pressures() {
			problem("node %s: %s", n.Metadata.Name, p)
		}
		h.Nodes = append(h.Nodes, NodeHealth{
			Name: n.Metadata.Name, Role: n.role(), Ready: ready, Status: status,
			Version: n.Status.NodeInfo.KubeletVersion, InternalIP: n.internalIP(),
		})
	}
	slices.SortStableFunc(h.Nodes, func(a, b NodeHealth) int { return strings.Compare(a.Role+"/"+a.Name, b.Role+"/"+b.Name) })
	h.Healthy = api == APIServerRunning && h.TotalNodes > 0 && h.ReadyNodes == h.TotalNodes
	if len(nodes) == 0 {
		problem("the cluster has no nodes")
	}
	if spec != nil {
		expect := func(what string, have, want int) {
			if have < want {
				h.Healthy = false
				problem("%d of %d %s are missing", want-have, want, what)
			}
		}
		expect("control planes", h.ControlPlanes, int(max(spec.ControlPlane.Count, 1)))
		if spec.Workers != nil {
			expect("workers", h.Workers, int(spec.Workers.Count))
		}
	}
	h.Message = strings.Join(problems, "\n")
	if len(problems) == 0 {
		h.Message = fmt.Sprintf("all %d nodes are ready", h.TotalNodes)
	}
	return h
}

// pressures are the conditions that are true and should not be.
func (n *kubeNode) pressures() []string {
	var out []string
	for _, c := range n.Status.Conditions {
		if c.Type != "Ready" && c.Status == "True" && (strings.HasSuffix(c.Type, "Pressure") || strings.HasSuffix(c.Type, "Unavailable")) {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s: %s %s", c.Type, c.Reason, c.Message)))
		}
	}
	return out
}
