package joinfault

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Result is how a schedule ended.
type Result struct {
	Schedule   Schedule
	Violations []string
	Nodes      []Node // that are there at the end
	Timeline   []string
	Logs       map[string]string // the ends of the nodes' logs, by name
	Took       time.Duration     // in the World's time
}

// Node is how one node ended.
type Node struct {
	Name    string
	State   string // joined, failed, or what else its parameters say
	Message string
}

// Failed are the nodes that gave up.
func (r *Result) Failed() []Node {
	var failed []Node
	for _, n := range r.Nodes {
		if n.State == "failed" {
			failed = append(failed, n)
		}
	}
	return failed
}

// String is all that helps to understand a schedule that went wrong.
func (r *Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Schedule)
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "violated %s\n", v)
	}
	for _, n := range r.Nodes {
		fmt.Fprintf(&b, "%s: %s: %s\n", n.Name, n.State, n.Message)
	}
	fmt.Fprintf(&b, "\n%s\n", strings.Join(r.Timeline, "\n"))
	for _, n := range r.Nodes {
		if n.State != "joined" || len(r.Violations) > 0 {
			fmt.Fprintf(&b, "\nend of the log of %s:\n%s\n", n.Name, r.Logs[n.Name])
		}
	}
	return b.String()
}

// result holds the end against the promises.
func (w *World) result() *Result {
	r := &Result{Schedule: w.schedule, Logs: map[string]string{}, Took: w.now}
	final := w.final()
	for _, m := range w.machines {
		if m.state == "terminated" {
			continue
		}
		n := w.picture(m)
		r.Nodes = append(r.Nodes, n)
		r.Logs[n.Name] = m.say(60)
		w.checkNode(m, n, final)
	}
	w.checkClusters(final)
	w.checkSecrets()
	r.Violations, r.Timeline = w.violations, w.timeline
	return r
}

// parameter is the value of a parameter.
func (w *World) parameter(name string) string {
	p, _ := w.parameters.Get(region, prefix+name)
	return p.Value
}

// final is the cluster that was published.
func (w *World) final() *cluster {
	state := strings.SplitN(w.parameter("cluster_state"), ":", 3)
	for _, c := range w.clusters {
		if len(state) == 3 && state[0] == "READY" && state[2] == c.hash {
			return c
		}
	}
	return nil
}

// picture is what the platform sees of a node, by the rules of its runner: a report
// of another instance counts as none; who has joined has joined; a failure is told by
// either parameter.
func (w *World) picture(m *machine) Node {
	n := Node{Name: m.name(), State: "silent"}
	status := strings.SplitN(w.parameter(m.status()), "|", 5)
	reported := len(status) == 5 && status[2] == m.id
	var slot []string
	if !m.worker {
		slot = strings.SplitN(w.parameter(fmt.Sprintf("control_plane_joined/%d", m.index)), ":", 4)
	}
	holds := len(slot) > 2 && slot[1] == m.id
	switch {
	case holds && slot[0] == "JOINED", m.worker && reported && status[0] == "DONE":
		n.State = "joined"
	case reported && status[0] == "FAILED":
		n.State, n.Message = "failed", status[1]+": "+status[4]
	case holds && slot[0] == "FAILED" && len(slot) == 4:
		n.State, n.Message = "failed", slot[3]
	case reported:
		n.State, n.Message = status[0], status[1]+": "+status[4]
	}
	return n
}

// checkNode: a node has joined, all of it, or has failed and says why.
func (w *World) checkNode(m *machine, n Node, final *cluster) {
	switch {
	case n.State == "joined":
		switch c, e := m.member(); {
		case !m.bootstrapped():
			w.violate("%s is shown as joined and is not through", m.name())
		case final == nil || m.read(caFile) != final.ca || final.nodes[m.node()] == nil:
			w.violate("%s is shown as joined and is no node of the cluster", m.name())
		case !m.worker && (c != final || !e.runs() || e.learner):
			w.violate("%s is shown as joined and is no member of etcd with a vote", m.name())
		}
	case n.State == "failed" && strings.TrimLeft(n.Message, ": ") != "":
		if !m.gaveUp {
			w.violate("%s is shown as failed and has not given up", m.name())
		}
	default:
		w.violate("%s ends as %s: %s", m.name(), n.State, n.Message)
	}
}

// checkClusters: one cluster, and in it nothing that is left of others.
func (w *World) checkClusters(final *cluster) {
	for _, c := range w.clusters {
		if c != final && len(c.nodes) > 1 {
			w.violate("%d nodes joined %s, which is not the cluster that was published", len(c.nodes), c.id)
		}
	}
	if final == nil {
		return
	}
	for _, e := range final.members {
		switch {
		case e.learner:
			w.violate("etcd has the learner %s of %s left", e.id, e.machine.name())
		case e.machine.state == "terminated" && !final.lost():
			w.violate("etcd has the member %s left, of %s, which is gone", e.id, e.machine.name())
		}
	}
}

// checkSecrets: nobody reads the keys of the cluster where they are not kept.
func (w *World) checkSecrets() {
	where := map[string]string{}
	for _, m := range w.machines {
		text, err := os.ReadFile(m.log())
		if err == nil {
			where["log of "+m.name()] = string(text)
		}
	}
	for _, name := range w.parameters.Names(region, prefix) {
		name = strings.TrimPrefix(name, prefix)
		switch name {
		case "join_token", "k8s_certificate_key", "admin_kubeconfig":
		default:
			where[name] = w.parameter(name)
		}
	}
	for place, text := range where {
		w.findSecret(place, text)
	}
}

func (w *World) findSecret(place, text string) {
	for _, secret := range w.secrets {
		if secret != "PENDING" && secret != "" && strings.Contains(text, secret) {
			w.violate("%s has a secret in it", place)
			return
		}
	}
}

// watchArguments: arguments are visible to every user of a machine.
func (w *World) watchArguments(c *call) {
	w.findSecret("the arguments of "+c.args[0]+" on "+c.machine.name(), strings.Join(c.args, " "))
}
