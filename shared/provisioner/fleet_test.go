package provisioner

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/logger"
	"github.com/kubeopera/platform/shared/provisioner/internal/remote"
	"github.com/kubeopera/platform/shared/provisioner/internal/script"
)

// Names of scripts.
const (
	stepKernel           = "kernel"
	stepRuntime          = "container runtime"
	stepPrerequisites    = "kubernetes prerequisites"
	stepInit             = "kubernetes init"
	stepJoinControlPlane = "kubernetes join control plane"
	stepJoinWorker       = "kubernetes join worker"
	stepForget           = "kubernetes forget node"
	stepReset            = "kubernetes reset"
)

// fleet is machines that do what scripts are named for, in no time or in that of a
// clock. What a script has begun goes on when its caller is gone.
type fleet struct {
	ca       string
	took     time.Duration                        // by every script
	fault    func(node, step string, n int) error // of the n-th run of step on node
	lose     map[string]bool                      // "node step" whose connection is lost for good, once
	unready  map[string]bool                      // nodes that never are
	say      string                               // printed by every script
	observed string                               // what is on every machine

	mu       sync.Mutex
	machines map[string]*fakeMachine // by name
	cluster  map[string]*kubeNode    // by name
	events   []string                // "node step", as scripts begin
	at       map[string]int          // scripts at work, by step
	most     map[string]int          // the most of them at a time
	tokens   []string
	keys     []string // certificate keys
	forgot   []string
	asked    []string // endpoints that clusters were made with
}

type fakeMachine struct {
	fleet *fleet
	info  NodeInfo

	boot          int
	rebootWanted  bool
	kernelRight   bool // the wanted kernel runs after the next boot
	admin, member bool
	begun         bool   // init has not come to its end
	owner         string // environment
	apiDown       bool
	down          bool
	refused       int                 // commands while it was down
	runs          map[string]*fakeRun // by id
	count         map[string]int      // runs by step
}

type fakeRun struct {
	over      chan struct{}
	err       error
	delivered bool
	stopped   bool
}

func newFleet(tb testing.TB, nodes []NodeInfo) *fleet {
	tb.Helper()
	f := &fleet{
		ca: newCA(tb), machines: make(map[string]*fakeMachine), cluster: make(map[string]*kubeNode),
		at: make(map[string]int), most: make(map[string]int), unready: make(map[string]bool),
	}
	for _, n := range nodes {
		f.machines[n.Name] = &fakeMachine{fleet: f, info: n, kernelRight: true, runs: make(map[string]*fakeRun), count: make(map[string]int)}
	}
	return f
}

// newCA is a CA with an elliptic key: its pin is of any key's type.
func newCA(tb testing.TB) string {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// provisioner is one that works on the fleet. Its log goes to out.
func (f *fleet) provisioner(env *v1alpha1.Environment, out *bytes.Buffer) *ClusterProvisioner {
	log := &logger.FunLogger{Out: out}
	cp := NewClusterProvisioner(log, "key", "ubuntu", env)
	cp.dial = func(ctx context.Context, _ Connection, e endpoint) (host, error) {
		m := f.machines[e.name]
		if err := m.fault("connect"); err != nil {
			return nil, err
		}
		if m.isDown() {
			return nil, &remote.UnreachableError{Target: e.target, Attempts: 1, Err: errors.New("no route")}
		}
		return m, ctx.Err()
	}
	return cp
}

func (m *fakeMachine) isDown() bool {
	m.fleet.mu.Lock()
	defer m.fleet.mu.Unlock()
	return m.down
}

// fault is what goes wrong with the next run of a step.
func (m *fakeMachine) fault(step string) error {
	f := m.fleet
	f.mu.Lock()
	m.count[step]++
	n := m.count[step]
	f.mu.Unlock()
	if f.fault == nil {
		return nil
	}
	return f.fault(m.info.Name, step, n)
}

func (m *fakeMachine) Run(ctx context.Context, s remote.Script) error {
	f := m.fleet
	if s.Stdin != nil && bytes.Contains(s.Body, s.Stdin) {
		return errors.New("the script holds its secrets")
	}
	f.mu.Lock()
	run := m.runs[s.ID]
	earlier := run != nil && !run.delivered
	if !earlier {
		run = &fakeRun{over: make(chan struct{})}
		m.runs[s.ID] = run
		f.events = append(f.events, m.info.Name+" "+s.Name)
		f.at[s.Name]++
		f.most[s.Name] = max(f.most[s.Name], f.at[s.Name])
		go m.work(run, s) // on the machine, whatever becomes of the caller
	}
	lost := f.lose[m.info.Name+" "+s.Name]
	delete(f.lose, m.info.Name+" "+s.Name)
	f.mu.Unlock()
	if lost {
		return &remote.UnreachableError{Target: m.info.Name, Attempts: 20, Err: errors.New("cut")}
	}
	select {
	case <-run.over:
	case <-ctx.Done():
		f.mu.Lock()
		defer f.mu.Unlock()
		run.stopped, run.delivered = true, true
		return context.Cause(ctx)
	}
	if f.say != "" {
		fmt.Fprintf(s.Output, "%s: %s\n", s.Name, f.say)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	run.delivered = true
	if exit, ok := errors.AsType[*remote.ExitError](run.err); ok && earlier {
		failed := *exit
		failed.Earlier = true
		return &failed
	}
	return run.err
}

func (m *fakeMachine) work(run *fakeRun, s remote.Script) {
	f := m.fleet
	if f.took > 0 {
		<-time.After(f.took)
	}
	run.err = m.fault(s.Name)
	f.mu.Lock()
	defer f.mu.Unlock()
	defer close(run.over)
	f.at[s.Name]--
	if run.err != nil || run.stopped {
		return
	}
	switch s.Name {
	case stepKernel:
		m.rebootWanted = m.boot == 0 || !m.kernelRight
	case stepInit:
		if _, after, found := bytes.Cut(s.Body, []byte("ENDPOINT_HOST='")); found {
			host, _, _ := bytes.Cut(after, []byte("'"))
			f.asked = append(f.asked, string(host))
		}
		m.admin, m.member, m.begun = true, true, false
		m.register()
	case stepJoinControlPlane:
		m.admin, m.member = true, true
		m.register()
	case stepJoinWorker:
		m.member = true
		m.register()
	case stepForget:
		f.forgot = append(f.forgot, m.info.Name)
	case stepReset:
		m.admin, m.member, m.begun, m.owner = false, false, false, ""
		delete(f.cluster, m.info.Name)
	}
}

// register needs the fleet's lock.
func (m *fakeMachine) register() {
	n := new(kubeNode)
	n.Metadata.Name, n.Metadata.ResourceVersion = m.info.Name, "1"
	n.Metadata.Labels = map[string]string{}
	if m.info.Role == roleControlPlane {
		n.Metadata.Labels[controlPlaneLabel] = ""
		n.Spec.Taints = []kubeTaint{{Key: controlPlaneLabel, Effect: "NoSchedule"}}
	}
	status := "True"
	if m.fleet.unready[m.info.Name] {
		status = "False"
	}
	n.Status.Conditions = []kubeCondition{{Type: "Ready", Status: status, Reason: "KubeletReady"}}
	n.Status.Addresses = append(n.Status.Addresses, struct {
		Type    string `json:"type"`
		Address string `json:"address"`
	}{"InternalIP", m.info.PrivateIP})
	n.Status.NodeInfo.KubeletVersion = "v1.36.3"
	m.fleet.cluster[m.info.Name] = n
}

func (m *fakeMachine) Output(ctx context.Context, command string, stdin []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if m.isDown() {
		m.fleet.mu.Lock()
		defer m.fleet.mu.Unlock()
		m.refused++
		return nil, &remote.UnreachableError{Target: m.info.Name, Attempts: 20, Err: errors.New("cut")}
	}
	what := command
	if command == "exec bash -s" {
		_, after, _ := bytes.Cut(stdin, []byte("\nmain() {\n"))
		what = string(after)
	}
	switch {
	case strings.Contains(what, "print_join_data"):
		what = "join data"
	case strings.Contains(what, "patch node"):
		what = "label"
	}
	if err := m.fault(what); err != nil {
		return nil, err
	}
	f := m.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	yes := map[bool]string{true: "yes\n", false: ""}
	switch {
	case strings.Contains(what, script.RebootMarker):
		if m.rebootWanted {
			return fmt.Append(nil, "boot-", m.boot), nil
		}
		return nil, nil
	case strings.Contains(what, rebootCommand):
		m.boot++
		m.rebootWanted = false
		return nil, nil
	case strings.HasPrefix(what, "ip -4"):
		return fmt.Appendf(nil, "198.51.100.1 via 10.0.0.254 dev eth0 src %s uid 0 \\    cache\n", m.info.PrivateIP), nil
	case strings.Contains(what, "print_observation"):
		return []byte(f.observed), nil
	case strings.Contains(what, ownerFile):
		switch {
		case m.owner == "" && (m.admin || m.member):
			return []byte(nobodys + "\n"), nil
		case m.owner == "" && strings.Contains(what, "mv "):
			m.owner = string(stdin)
		}
		return []byte(m.owner), nil
	case strings.Contains(what, begunFile):
		return []byte(map[bool]string{true: adminConf + "\n"}[m.admin] + map[bool]string{true: begunFile + "\n"}[m.begun]), nil
	case strings.Contains(what, "[ -e "+adminConf):
		return []byte(yes[m.admin]), nil
	case strings.Contains(what, "[ -e "+kubeletConf):
		return []byte(yes[m.member]), nil
	case strings.Contains(what, "[ ! -e "+kubeletConf):
		return []byte(yes[!m.member]), nil
	case strings.Contains(what, "print_admin_conf"):
		return []byte(adminKubeconfig), nil
	case !m.admin || m.apiDown:
		return nil, &remote.ExitError{Script: "kubectl", Code: 1, Tail: []string{"connection refused"}}
	case strings.Contains(what, "--raw=/readyz"):
		return []byte("ok"), nil
	case strings.Contains(what, "get nodes -o json"):
		var list struct {
			Kind  string     `json:"kind"`
			Items []kubeNode `json:"items"`
		}
		list.Kind = "List"
		for _, name := range slices.Sorted(maps.Keys(f.cluster)) {
			list.Items = append(list.Items, *f.cluster[name])
		}
		return json.Marshal(list)
	case what == "label":
		return nil, f.patch(command, stdin)
	case what == "join data":
		return f.joinData(stdin)
	}
	return nil, fmt.Errorf("the fleet does not know the command %q", what)
}

func (f *fleet) patch(command string, stdin []byte) error {
	name := strings.Split(command, "'")[1]
	var patch struct {
		Metadata struct {
			ResourceVersion string            `json:"resourceVersion"`
			Labels          map[string]string `json:"labels"`
		} `json:"metadata"`
		Spec struct {
			Taints *[]kubeTaint `json:"taints"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(stdin, &patch); err != nil {
		return err
	}
	n := f.cluster[name]
	if n.Metadata.ResourceVersion != patch.Metadata.ResourceVersion {
		return &remote.ExitError{Script: "kubectl", Code: 1, Tail: []string{"Conflict"}}
	}
	maps.Copy(n.Metadata.Labels, patch.Metadata.Labels)
	if patch.Spec.Taints != nil {
		n.Spec.Taints = *patch.Spec.Taints
	}
	n.Metadata.ResourceVersion += "1"
	return nil
}

func (f *fleet) joinData(stdin []byte) ([]byte, error) {
	if _, secrets, found := bytes.Cut(stdin, []byte("\nmain\n")); found && len(secrets) > 0 {
		_, value, _ := bytes.Cut(bytes.TrimSpace(secrets), []byte("="))
		key, err := base64.StdEncoding.DecodeString(string(value))
		if err != nil {
			return nil, err
		}
		f.keys = append(f.keys, string(key))
	}
	token := fmt.Sprintf("abcdef.%016d", len(f.tokens))
	f.tokens = append(f.tokens, token)
	return json.Marshal(map[string]string{"token": token, "caCertificate": f.ca, "endpoint": "api.example.com:6443"})
}

func (m *fakeMachine) BootID(ctx context.Context) (string, error) {
	m.fleet.mu.Lock()
	defer m.fleet.mu.Unlock()
	return fmt.Sprint("boot-", m.boot), ctx.Err()
}

func (m *fakeMachine) Reconnect(ctx context.Context) error { return ctx.Err() }
func (m *fakeMachine) Client() *ssh.Client                 { return nil }
func (m *fakeMachine) Close() error                        { return nil }

// began is how often a step has begun, of all nodes or one.
func (f *fleet) began(node, step string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, e := range f.events {
		if e == node+" "+step || node == "" && strings.HasSuffix(e, " "+step) {
			n++
		}
	}
	return n
}

// exits is the failure of a script.
func exits(step string) error {
	return &remote.ExitError{Script: step, Code: 13, Class: remote.ClassKubernetes, Tail: []string{"it broke"}}
}

const adminKubeconfig = `apiVersion: v1
kind: Config
clusters:
- name: kubernetes
  cluster: {server: "https://10.0.0.1:6443", certificate-authority-data: Y2E=}
contexts:
- name: admin
  context: {cluster: kubernetes, user: admin}
current-context: admin
users:
- name: admin
  user: {client-certificate-data: Y2VydA==, client-key-data: a2V5}
`

// testNodes are control planes c1, c2 … and workers w1, w2 …
func testNodes(controlPlanes, workers int) []NodeInfo {
	var nodes []NodeInfo
	for i := range controlPlanes {
		nodes = append(nodes, NodeInfo{Name: fmt.Sprintf("c%d", i+1), PrivateIP: fmt.Sprintf("10.0.0.%d", i+1), Role: roleControlPlane})
	}
	for i := range workers {
		nodes = append(nodes, NodeInfo{Name: fmt.Sprintf("w%d", i+1), PrivateIP: fmt.Sprintf("10.0.1.%d", i+1), Role: roleWorker})
	}
	return nodes
}

func testEnvironment(controlPlanes, workers int) *v1alpha1.Environment {
	env := &v1alpha1.Environment{Spec: v1alpha1.EnvironmentSpec{
		Provider: v1alpha1.ProviderSSH,
		Auth:     v1alpha1.Auth{Username: "ubuntu", PrivateKey: "key"},
		Cluster: &v1alpha1.ClusterSpec{
			ControlPlane:         v1alpha1.ControlPlaneSpec{Count: int32(controlPlanes)},
			Workers:              &v1alpha1.WorkerPoolSpec{Count: int32(workers)},
			ControlPlaneEndpoint: "api.example.com",
		},
	}}
	env.Name = "test"
	return env
}
