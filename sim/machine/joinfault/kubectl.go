package joinfault

import (
	"os"
	"strings"
	"time"
)

// kubectl finds the API server that a call is for, and does what it asks.
func (c *call) kubectl() {
	c.wait(c.world.between(200*time.Millisecond, 1500*time.Millisecond))
	cluster, err := c.reach()
	if err != nil {
		c.fail(1, "error: %v", err)
	}
	words := strings.TrimPrefix(c.label, "kubectl ")
	template := c.option("-o")
	switch {
	case c.has("--raw=/readyz"):
		c.print("ok")
	case strings.HasPrefix(words, "kube-system get secret kubeadm-certs"):
		if cluster.shared <= c.world.now {
			c.fail(1, `Error from server (NotFound): secrets "kubeadm-certs" not found`)
		}
	case strings.HasPrefix(words, "kube-system get secret bootstrap-token-"):
		for token, until := range cluster.tokens {
			if strings.HasPrefix(words, "kube-system get secret bootstrap-token-"+token[:6]) && until > c.world.now {
				return
			}
		}
		c.fail(1, "Error from server (NotFound): secrets not found")
	case strings.HasPrefix(words, "kube-system get pods component=etcd"):
		// Pods of nodes that are off are shown for minutes.
		for _, n := range cluster.sortedNodes() {
			if n.control {
				c.print("pod/etcd-%s\n", n.name)
			}
		}
	case strings.HasPrefix(words, "kube-system exec"):
		c.exec(cluster)
	case strings.HasPrefix(words, "get nodes"):
		for _, n := range cluster.sortedNodes() {
			switch {
			case !n.control:
			default:
				columns := []string{n.name}
				if strings.Contains(template, "conditions") {
					columns = append(columns, map[bool]string{true: "True", false: "Unknown"}[n.ready()])
				}
				if strings.Contains(template, "providerID") {
					columns = append(columns, "aws:///"+region+"a/"+n.machine.id)
				}
				c.print("%s\n", strings.Join(columns, "\t"))
			}
		}
	case strings.HasPrefix(words, "delete node "):
		name := strings.TrimPrefix(words, "delete node ")
		if cluster.nodes[name] == nil {
			c.fail(1, `Error from server (NotFound): nodes "%s" not found`, name)
		}
		delete(cluster.nodes, name)
		c.world.note(c.machine.name(), "deletes the node %s", name)
		c.print("node %q deleted\n", name)
	case strings.HasPrefix(words, "get namespace kube-system"):
		c.print("uid-of-%s", cluster.id)
	case strings.HasPrefix(words, "kube-system get configmap kubeadm-config"):
		c.print("kind: ClusterConfiguration\n")
	case strings.HasPrefix(words, "apply"):
	default:
		c.fail(1, "error: the stand-in does not know %q", c.args)
	}
}

// reach finds the API server by the kubeconfig and the server of the call.
func (c *call) reach() (*cluster, error) {
	if c.option("--server") != "" {
		if found, ok := c.machine.up(); ok {
			return found, nil
		}
		return nil, errNoReach
	}
	config, err := os.ReadFile(c.option("--kubeconfig"))
	if err != nil {
		return nil, err
	}
	of := c.world.kubeconfig[string(config)]
	if of == nil {
		c.fail(1, "error: invalid configuration")
	}
	found, err := c.machine.endpoint()
	if err != nil {
		return nil, err
	}
	if found != of {
		c.fail(1, "error: x509: certificate signed by unknown authority")
	}
	return found, nil
}

// exec is etcdctl in a pod of etcd.
func (c *call) exec(cluster *cluster) {
	var pod string
	for _, arg := range c.args {
		if name, ok := strings.CutPrefix(arg, "pod/etcd-"); ok {
			pod = name
		}
	}
	n := cluster.nodes[pod]
	if n == nil {
		c.fail(1, `Error from server (NotFound): pods "etcd-%s" not found`, pod)
	}
	if !n.machine.on {
		c.wait(30 * time.Second)
		c.fail(1, "Error from server: error dialing backend: dial tcp %s:10250: i/o timeout", n.machine.ip)
	}
	if of, e := n.machine.member(); of != cluster || !e.runs() {
		c.fail(1, "error: Internal error occurred: unable to upgrade connection: container not found (\"etcd\")")
	}
	if !cluster.quorum() {
		c.wait(5 * time.Second)
		c.fail(1, "Error: context deadline exceeded")
	}
	switch {
	case c.has("list"):
		for _, e := range cluster.members {
			status, name, client := "unstarted", "", ""
			if e.started {
				status, name, client = "started", e.machine.node(), "https://"+e.machine.ip+":2379"
			}
			c.print("%s, %s, %s, https://%s:2380, %s, %v\n", e.id, status, name, e.machine.ip, client, e.learner)
		}
	case c.has("remove"):
		if err := cluster.removeMember(c.args[len(c.args)-1], c.machine); err != nil {
			c.fail(1, "Error: %v", err)
		}
	default:
		c.fail(1, "Error: unknown command %q", c.args)
	}
}
