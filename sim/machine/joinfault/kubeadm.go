package joinfault

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

func (c *call) kubeadm() {
	switch c.label {
	case "kubeadm config images":
		c.wait(c.world.between(5*time.Second, time.Minute))
	case "kubeadm init":
		c.initialize()
	case "kubeadm init phase":
		c.uploadCertificates()
	case "kubeadm join":
		c.join()
	case "kubeadm reset --force":
		c.reset()
	case "kubeadm token create":
		c.createToken()
	case "kubeadm kubeconfig user":
		c.createKubeconfig()
	default:
		c.fail(1, "kubeadm: unknown command %q", c.args)
	}
}

// configuration is the file of --config.
func (c *call) configuration() string {
	text, err := os.ReadFile(c.option("--config"))
	if err != nil {
		c.fail(1, "unable to read config: %v", err)
	}
	return string(text)
}

// field is a value in a configuration.
func field(configuration, name string) string {
	found := regexp.MustCompile(`(?m)^[ -]*` + name + `: "?([^"\n]*)"?$`).FindStringSubmatch(configuration)
	if found == nil {
		return ""
	}
	return found[1]
}

// preflight refuses what an earlier attempt has left.
func (c *call) preflight(files ...string) {
	c.wait(c.world.between(time.Second, 4*time.Second))
	for _, file := range files {
		if c.machine.exists(file) {
			c.fail(1, "error execution phase preflight: [preflight] Some fatal errors occurred:\n\t[ERROR FileAvailable-%s]: /%s already exists", strings.ReplaceAll(file, "/", "-"), file)
		}
	}
}

// initialize is kubeadm init: every file and every step has its time, at which it
// may be killed.
func (c *call) initialize() {
	w, m := c.world, c.machine
	configuration := c.configuration()
	if w.makes != nil {
		w.violate("%s runs kubeadm init while %s does", m.name(), w.makes.name())
	}
	w.makes = m
	defer func() { w.makes = nil }()
	if w.published {
		w.violate("%s runs kubeadm init although the cluster has been published", m.name())
	}
	for _, other := range w.clusters {
		if !other.complete {
			continue
		}
		if _, e := other.maker.member(); e != nil && other.maker.state != "terminated" && other.maker != m {
			w.violate("%s runs kubeadm init although the cluster of %s is there", m.name(), other.maker.name())
		}
	}
	c.preflight(etcdManifest, kubeletConf, memberDir)
	made, err := w.newCluster(m)
	if err != nil {
		c.fail(1, "error execution phase certs: %v", err)
	}
	w.note(m.name(), "kubeadm init makes %s", made.id)
	m.put(caFile, made.ca)
	m.put(serverFile, made.ca)
	c.wait(c.world.between(time.Second, 5*time.Second))
	m.put(adminConf, made.config("kubernetes-admin"))
	m.put(kubeletConf, "kubelet")
	e := &member{id: fmt.Sprintf("%016x", 0xe7cd000+len(w.clusters)), machine: m, started: true}
	made.members = []*member{e}
	m.put(etcdManifest, "new")
	c.wait(c.world.between(time.Second, 10*time.Second))
	m.put(memberFile, made.id+" "+e.id)
	c.wait(c.world.between(10*time.Second, 60*time.Second))
	made.nodes[m.node()] = &node{name: m.node(), machine: m, control: true}
	if c.has("--upload-certs") {
		made.share(field(configuration, "certificateKey"))
		w.secrets = append(w.secrets, made.key)
	}
	c.wait(c.world.between(time.Second, 10*time.Second))
	if !c.has("--skip-token-print") {
		c.print("kubeadm join --token %s\n", made.newToken(24*time.Hour))
	}
	if !c.has("--skip-certificate-key-print") && made.key != "" {
		c.print("--certificate-key %s\n", made.key)
	}
	made.complete = true
	w.note(m.name(), "kubeadm init ends well")
}

// config is a kubeconfig of the cluster.
func (c *cluster) config(user string) string {
	text := fmt.Sprintf("kind: Config\nuser: %s\nclient-key-data: secret-key-%s-%s\n", user, c.id, user)
	c.world.kubeconfig[text] = c
	return text
}

// share puts the certificates into the cluster, for two hours.
func (c *cluster) share(key string) {
	c.key, c.shared = key, c.world.now+2*time.Hour
}

func (c *cluster) newToken(life time.Duration) string {
	token := fmt.Sprintf("%06x.%016x", c.world.random.Uint32()>>8, c.world.random.Uint64())
	c.tokens[token] = c.world.now + life
	c.world.secrets = append(c.world.secrets, token)
	return token
}

// administrated is the cluster that the node's own admin.conf leads to.
func (c *call) administrated() *cluster {
	c.wait(c.world.between(500*time.Millisecond, 3*time.Second))
	found, err := c.machine.endpoint()
	if err != nil || c.machine.read(adminConf) == "" {
		c.fail(1, "error: couldn't reach the API server: %v", err)
	}
	return found
}

func (c *call) uploadCertificates() {
	key := field(c.configuration(), "certificateKey")
	c.administrated().share(key)
	c.world.note(c.machine.name(), "uploads the shared certificates")
}

func (c *call) createToken() {
	life, err := time.ParseDuration(c.option("--ttl"))
	if err != nil {
		c.fail(1, "%v", err)
	}
	c.print("%s\n", c.administrated().newToken(life))
}

func (c *call) createKubeconfig() {
	of, _ := c.machine.member()
	if of == nil {
		c.fail(1, "error: no CA")
	}
	config := of.config(c.option("--client-name"))
	c.world.secrets = append(c.world.secrets, "secret-key-"+of.id)
	c.print("%s", config)
}

// reset takes back what init and join did. Without an answer of etcd the member
// stays in it, and its data goes all the same, as kubeadm has it.
func (c *call) reset() {
	w, m := c.world, c.machine
	w.note(m.name(), "kubeadm reset")
	c.wait(w.between(time.Second, 3*time.Second))
	if of, e := m.member(); e != nil && of.quorum() {
		if err := of.removeMember(e.id, m); err != nil {
			c.print("[reset] Failed to remove etcd member: %v, please manually remove this etcd member using etcdctl\n", err)
		}
	} else if e != nil {
		c.wait(30 * time.Second)
		c.print("[reset] Failed to remove etcd member: error syncing endpoints with etcd: context deadline exceeded\n")
	}
	c.wait(w.between(time.Second, 5*time.Second))
	of, _ := m.member()
	known := of != nil && !of.lost() && (w.published || len(of.members) > 1)
	m.remove(etcdManifest, memberDir, "etc/kubernetes/pki", kubeletConf, adminConf)
	if known && of.lost() {
		w.violate("%s takes etcd's majority away by kubeadm reset", m.name())
	}
	c.wait(w.between(time.Second, 3*time.Second))
}
