package bootstrap

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/redact"
)

// The parameters below a cluster's prefix.
const (
	nameClusterState = "cluster_state"
	nameKubeconfig   = "admin_kubeconfig"
	nameJoined       = "control_plane_joined/"
	nameStatus       = "bootstrap_status/"
)

// Layout says where a cluster's parameters are.
type Layout struct {
	Prefix        string // such as /kubeopera/acme
	ControlPlanes int
	// Instances are the ids of the EC2 instances by index; empty if they are not
	// known. Then the reports of an instance that was replaced count until its
	// successor writes over them.
	Instances []string
	// Since is when what workers report begins to count.
	Since time.Time
}

// names are all parameters of a cluster. What is read first is what the last
// ones must not be older than: a node that has joined was let in by a cluster
// whose kubeconfig is published.
func (l Layout) names() []string {
	var names []string
	for i := range l.ControlPlanes {
		names = append(names, l.joined(i), l.status(i))
	}
	return append(names, l.name(nameClusterState), l.name(nameKubeconfig))
}

func (l Layout) name(parameter string) string {
	return strings.TrimSuffix(l.Prefix, "/") + "/" + parameter
}
func (l Layout) joined(i int) string { return l.name(nameJoined + strconv.Itoa(i)) }
func (l Layout) status(i int) string { return l.name(nameStatus + node(i)) }

func (l Layout) instance(i int) string {
	if i < len(l.Instances) {
		return l.Instances[i]
	}
	return ""
}

func node(i int) string { return "control-plane-" + strconv.Itoa(i) }

// Cluster is what its parameters say of a cluster.
type Cluster struct {
	// Kubeconfig is the admin's, as it was published; empty until then.
	Kubeconfig redact.Secret
	// Ready says that the first node has set up all that the cluster needs.
	Ready bool
	// Nodes are the control-plane nodes by index.
	Nodes []Node
	// Workers are the worker nodes that report how they set themselves up; only
	// Watch knows them.
	Workers []Node
	// Missing are parameters that there should be and are not.
	Missing []string
}

// Node is a node of the cluster.
type Node struct {
	api.Node
	// Instance is the EC2 instance that reported; empty if none did.
	Instance string
}

// Read makes a picture of the values of a cluster's parameters, by full name.
func Read(l Layout, values map[string]string) Cluster {
	var c Cluster
	c.Ready = strings.HasPrefix(values[l.name(nameClusterState)], "READY:")
	if value := strings.TrimSpace(values[l.name(nameKubeconfig)]); value != pending {
		c.Kubeconfig = redact.Secret(value)
	}
	for i := range l.ControlPlanes {
		join := parseJoin(values[l.joined(i)]).of(l.instance(i))
		status := parseStatus(values[l.status(i)]).of(l.instance(i))
		c.Nodes = append(c.Nodes, read(node(i), join, status))
	}
	for _, name := range l.names() {
		// A status is for people; nothing hangs on it.
		if _, ok := values[name]; !ok && !strings.Contains(name, "/"+nameStatus) {
			c.Missing = append(c.Missing, name)
		}
	}
	return c
}

// read makes one node of its two reports. Both may say that it failed; the newer
// one counts, since a node that was started again reports again.
func read(name string, join, status report) Node {
	n := Node{Instance: status.instance}
	if n.Instance == "" {
		n.Instance = join.instance
	}
	n.Name = name
	text := status.text()
	joinsAgain := join.state == joinJoining && join.at.After(status.at)
	worksAgain := status.state == statusRunning && status.at.After(join.at)
	switch {
	case join.state == joinJoined:
		n.State, n.Message = api.NodeJoined, "joined"
	case status.state == statusFailed && !joinsAgain:
		n.State, n.Message = api.NodeFailed, failed(status.phase, status.message)
	case join.state == joinFailed && !worksAgain:
		n.State, n.Message = api.NodeFailed, failed(status.phase, join.message)
	case join.state == joinJoining:
		n.State, n.Message = api.NodeJoining, text
		if text == "" || status.state != statusRunning {
			n.Message = "joining the cluster"
		}
	case status.state == statusRunning || status.state == statusDone:
		n.State, n.Message = api.NodeWorking, text
		if text == "" {
			n.Message = "at work"
		}
	default:
		n.State, n.Message = api.NodeWaiting, "has not reported yet"
	}
	return n
}

func failed(phase, reason string) string {
	switch {
	case reason == "" && phase == "":
		return "failed"
	case reason == "":
		return "failed: " + phase
	case phase == "" || strings.HasPrefix(strings.ReplaceAll(reason, "_", " "), phase):
		return "failed: " + reason
	}
	return "failed: " + phase + ": " + reason
}

// Published says that there is a kubeconfig.
func (c Cluster) Published() bool { return c.Kubeconfig != "" }

// Joined counts the nodes that are members.
func (c Cluster) Joined() int {
	n := 0
	for _, node := range c.Nodes {
		if node.State == api.NodeJoined {
			n++
		}
	}
	return n
}

// Complete says that there is a kubeconfig and that every node is a member.
func (c Cluster) Complete() bool {
	return c.Published() && len(c.Nodes) > 0 && c.Joined() == len(c.Nodes)
}

// Failed is the first node that has given up, if one has.
func (c Cluster) Failed() (Node, bool) { return c.first(api.NodeFailed) }

func (c Cluster) first(state api.NodeState) (Node, bool) {
	for _, node := range c.Nodes {
		if node.State == state {
			return node, true
		}
	}
	return Node{}, false
}

// Focus is the node that everything waits for: one that failed, else the one
// that is joining, else the first that is no member. ok is false if all are.
func (c Cluster) Focus() (n Node, ok bool) {
	for _, state := range []api.NodeState{
		api.NodeFailed, api.NodeJoining, api.NodeWorking, api.NodeWaiting,
	} {
		if n, ok := c.first(state); ok {
			return n, true
		}
	}
	return Node{}, false
}

// String is the picture in a sentence.
func (c Cluster) String() string {
	text := ""
	if n, ok := c.Focus(); ok {
		text = n.Name + ": " + n.Message
	}
	if len(c.Nodes) < 2 && text != "" {
		return text
	}
	count := fmt.Sprintf("%d of %d control-plane nodes joined", c.Joined(), len(c.Nodes))
	if text == "" {
		return count
	}
	return text + " (" + count + ")"
}
