package joinfault

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
)

// endpointName is the load balancer's.
const endpointName = "k8s-test-int-0123456789abcdef.elb.eu-west-1.amazonaws.com"

// Where a machine's part of a cluster is.
const (
	kubeletConf  = "etc/kubernetes/kubelet.conf"
	adminConf    = "etc/kubernetes/admin.conf"
	caFile       = "etc/kubernetes/pki/ca.crt"
	serverFile   = "etc/kubernetes/pki/apiserver.crt"
	etcdManifest = "etc/kubernetes/manifests/etcd.yaml"
	memberDir    = "var/lib/etcd/member"
	memberFile   = "var/lib/etcd/member/id" // cluster and member
)

// cluster is what one kubeadm init made.
type cluster struct {
	world    *World
	id       string
	maker    *machine
	ca       string // PEM
	hash     string // sha256:<of the CA's public key>
	complete bool   // init came to its end
	served   time.Duration
	members  []*member
	nodes    map[string]*node
	tokens   map[string]time.Duration // until when they are good
	key      string                   // of the shared certificates
	shared   time.Duration            // until when those are there
}

type member struct {
	id      string
	machine *machine
	learner bool
	started bool
}

type node struct {
	name    string
	machine *machine
	control bool
}

// newCluster makes a CA.
func (w *World) newCluster(maker *machine) (*cluster, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(10 * 365 * 24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	c := &cluster{
		world: w, id: fmt.Sprintf("cluster-%d", len(w.clusters)), maker: maker, nodes: map[string]*node{}, tokens: map[string]time.Duration{}, served: -1,
		ca: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), hash: fmt.Sprintf("sha256:%x", sha256.Sum256(public)),
	}
	w.clusters = append(w.clusters, c)
	return c, nil
}

// made says whether the machine has made a cluster.
func (m *machine) made() bool {
	return slices.ContainsFunc(m.world.clusters, func(c *cluster) bool { return c.maker == m && c.complete })
}

// --- etcd ----------------------------------------------------------------------

// member is the one whose data the machine has on its disk.
func (m *machine) member() (*cluster, *member) {
	ids := strings.Fields(m.read(memberFile))
	for _, c := range m.world.clusters {
		if len(ids) == 2 && c.id == ids[0] {
			for _, candidate := range c.members {
				if candidate.id == ids[1] {
					return c, candidate
				}
			}
		}
	}
	return nil, nil
}

// runs says whether the member's etcd runs.
func (e *member) runs() bool {
	if !e.machine.on || !e.machine.exists(etcdManifest) {
		return false
	}
	_, own := e.machine.member()
	return own == e
}

func (c *cluster) voting() (voting, running int) {
	for _, e := range c.members {
		if e.learner {
			continue
		}
		voting++
		if e.runs() {
			running++
		}
	}
	return voting, running
}

// quorum says whether etcd can decide.
func (c *cluster) quorum() bool {
	voting, running := c.voting()
	return running > voting/2
}

// up says whether the API server of a machine answers.
func (m *machine) up() (*cluster, bool) {
	c, e := m.member()
	if c == nil || e.learner || !e.runs() || !c.quorum() {
		return nil, false
	}
	if c.served < 0 {
		c.served = m.world.now
	}
	return c, true
}

// lost says whether etcd has lost its majority for good: too many members are of
// machines that are gone, or whose data is.
func (c *cluster) lost() bool {
	voting, could := 0, 0
	for _, e := range c.members {
		if e.learner {
			continue
		}
		voting++
		if _, own := e.machine.member(); own == e && e.machine.state != "terminated" {
			could++
		}
	}
	return voting > 0 && could <= voting/2
}

var (
	errNoMember  = errors.New("etcdserver: member not found")
	errLearners  = errors.New("etcdserver: too many learner members in cluster")
	errUnhealthy = errors.New("etcdserver: re-configuration failed due to not enough started members")
)

func (c *cluster) addLearner(m *machine) (*member, error) {
	for _, e := range c.members {
		if e.learner {
			return nil, errLearners
		}
		if e.machine == m {
			return nil, errors.New("etcdserver: Peer URLs already exists")
		}
	}
	c.world.serial++
	e := &member{id: fmt.Sprintf("%016x", 0xe7cd000+c.world.serial), machine: m, learner: true}
	c.members = append(c.members, e)
	c.world.note(m.name(), "is etcd's learner %s", e.id)
	return e, nil
}

func (c *cluster) removeMember(id string, by *machine) error {
	i := slices.IndexFunc(c.members, func(e *member) bool { return e.id == id })
	if i < 0 {
		return errNoMember
	}
	gone := c.members[i]
	voting, running := c.voting()
	if !gone.learner {
		voting--
		if gone.runs() {
			running--
		}
		if running < voting/2+1 {
			return errUnhealthy
		}
	}
	c.members = slices.Delete(c.members, i, i+1)
	c.world.note(by.name(), "removes etcd's member %s of %s", id, gone.machine.name())
	return nil
}

// --- nodes ---------------------------------------------------------------------

// grace is after which time a kubelet that is silent makes its node not ready.
const grace = 40 * time.Second

func (n *node) ready() bool {
	m := n.machine
	if !m.on {
		return m.world.now-m.since < grace
	}
	return m.exists(kubeletConf)
}

// kubeletStarts registers the machine's node, if it has one, in its cluster.
func (w *World) kubeletStarts(m *machine) {
	if !m.exists(kubeletConf) {
		return
	}
	for _, c := range w.clusters {
		if c.ca == m.read(caFile) && c.nodes[m.node()] == nil {
			c.nodes[m.node()] = &node{name: m.node(), machine: m, control: m.exists(etcdManifest)}
		}
	}
	if m.made() && m.read(etcdManifest) == "new" && !m.exists(memberFile) {
		w.violate("etcd starts without its data on %s: a second cluster", m.name())
	}
}

// sortedNodes are the nodes by name.
func (c *cluster) sortedNodes() []*node {
	var nodes []*node
	for _, n := range c.nodes {
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b *node) int { return strings.Compare(a.name, b.name) })
	return nodes
}

// --- the way to the API --------------------------------------------------------

var (
	errNoHost  = errors.New("dial tcp: lookup " + endpointName + ": no such host")
	errNoReach = errors.New("the connection to the server was refused")
)

// endpoint leads a machine to an API server, by the name of the load balancer.
func (m *machine) endpoint() (*cluster, error) {
	w := m.world
	if strings.Contains(m.read("etc/hosts"), "# kubeopera\n") {
		if c, ok := m.up(); ok {
			return c, nil
		}
		return nil, errNoReach
	}
	if w.now < w.schedule.DNS {
		return nil, errNoHost
	}
	if w.now < w.silent {
		return nil, errNoReach
	}
	var targets []*cluster
	for _, t := range w.machines {
		if c, ok := t.up(); ok && w.now >= c.served+w.schedule.Balancer {
			targets = append(targets, c)
		}
	}
	if len(targets) == 0 {
		return nil, errNoReach
	}
	return targets[w.random.IntN(len(targets))], nil
}
