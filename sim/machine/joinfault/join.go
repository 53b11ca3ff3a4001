package joinfault

import (
	"strings"
	"time"
)

// join is kubeadm join, with the phases and limits of kubeadm and of the scripts'
// configuration: 10 minutes for the discovery, 4 for etcd.
func (c *call) join() {
	w, m := c.world, c.machine
	configuration := c.configuration()
	key := field(configuration, "certificateKey")
	if key != "" {
		if w.joining != nil {
			w.violate("%s joins while %s does", m.name(), w.joining.name())
		}
		w.joining = m
		defer func() {
			if w.joining == m {
				w.joining = nil
			}
		}()
	}
	w.note(m.name(), "kubeadm join")
	files := []string{kubeletConf}
	if key != "" {
		files = append(files, etcdManifest, memberDir)
	}
	c.preflight(files...)
	to := c.discover(configuration)
	c.wait(w.between(time.Second, 5*time.Second))
	if n := to.nodes[m.node()]; n != nil && n.ready() {
		c.fail(1, "error execution phase kubelet-start: a Node with name %q and status \"Ready\" already exists in the cluster", m.node())
	}
	if key == "" {
		c.startKubelet(to, false)
		w.note(m.name(), "has joined")
		return
	}
	if to.shared <= w.now {
		c.fail(1, `error execution phase control-plane-prepare/download-certs: error downloading certs: error downloading the secret: Secret "kubeadm-certs" was not found in the "kube-system" Namespace`)
	}
	if to.key != key {
		c.fail(1, "error execution phase control-plane-prepare/download-certs: error downloading certs: error decoding secret data with provided key %s: cipher: message authentication failed", key)
	}
	for _, e := range to.members {
		if !e.runs() {
			c.wait(30 * time.Second)
			c.fail(1, "error execution phase check-etcd: etcd cluster is not healthy: failed to dial endpoint https://%s:2379 with maintenance client: context deadline exceeded", e.machine.ip)
		}
	}
	c.startKubelet(to, true)
	c.becomeMember(to)
	c.wait(w.between(5*time.Second, 20*time.Second))
	if _, err := m.endpoint(); err != nil {
		c.fail(1, "error execution phase control-plane-join/mark-control-plane: %v", err)
	}
	if n := to.nodes[m.node()]; n != nil {
		n.control = true
	}
	w.note(m.name(), "has joined as a control plane")
}

// discover finds the cluster that the configuration is for.
func (c *call) discover(configuration string) *cluster {
	token := field(configuration, "token")
	var found *cluster
	var problem error
	if !c.poll(10*time.Minute, func() bool {
		found, problem = c.machine.endpoint()
		return problem == nil && found.tokens[token] > c.world.now
	}) {
		if problem != nil {
			c.fail(1, "error execution phase preflight: couldn't validate the identity of the API Server: %v", problem)
		}
		c.fail(1, "error execution phase preflight: couldn't validate the identity of the API Server: could not find a JWS signature in the cluster-info ConfigMap for token %s", token)
	}
	if field(configuration, "apiServerEndpoint") == "" || !strings.Contains(configuration, found.hash) {
		c.fail(1, "error execution phase preflight: couldn't validate the identity of the API Server: none of the public keys were found")
	}
	return found
}

func (c *call) startKubelet(to *cluster, control bool) {
	w, m := c.world, c.machine
	m.put(caFile, to.ca)
	m.put(serverFile, to.ca)
	c.wait(w.between(time.Second, 3*time.Second))
	if control {
		m.put(adminConf, to.config("kubernetes-admin"))
	}
	m.put(kubeletConf, "kubelet")
	c.wait(w.between(2*time.Second, 20*time.Second))
	to.nodes[m.node()] = &node{name: m.node(), machine: m}
}

// becomeMember is the phase etcd-join.
func (c *call) becomeMember(to *cluster) {
	w, m := c.world, c.machine
	var e *member
	problem := errNoReach
	if !c.poll(4*time.Minute, func() bool {
		if !to.quorum() {
			return false
		}
		e, problem = to.addLearner(m)
		return problem == nil
	}) {
		c.fail(1, "error execution phase etcd-join: error creating local etcd static pod manifest file: %v", problem)
	}
	c.wait(w.between(500*time.Millisecond, 3*time.Second))
	m.put(memberFile, to.id+" "+e.id)
	m.put(etcdManifest, "existing")
	c.wait(w.between(2*time.Second, 15*time.Second))
	e.started = true
	c.wait(w.between(time.Second, 10*time.Second))
	if !c.poll(4*time.Minute, func() bool { return to.quorum() && e.runs() }) {
		c.fail(1, "error execution phase etcd-join: etcdserver: can only promote a learner member which is in sync with leader")
	}
	e.learner = false
	w.note(m.name(), "has a vote in etcd")
	w.reached(m, "vote")
}
