package e2e

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/sim/aws/sessionmanager"
	"github.com/kubeopera/platform/sim/machine"
)

// TestExistingMachines makes a cluster of machines that have nothing but an SSH
// server, some of them reached through Session Manager, while connections break in
// every phase; then resets them.
func TestExistingMachines(t *testing.T) {
	m := launch(t, 3, 5)
	request := m.request("acme-metal")

	// Every connection of a machine breaks once in each phase; what it executes goes on.
	victims := map[api.Phase]int{api.PhaseConnecting: 1, api.PhaseApply: 4, api.PhaseWaitingForControlPlane: 2, api.PhaseWaitingForNodes: 6}
	cut := map[api.Phase]bool{}
	run := platform.Wait(t, platform.Start(t, request).ID, func(run api.Provision) {
		if i, ok := victims[run.Phase]; ok && !cut[run.Phase] {
			cut[run.Phase] = true
			m.cut(t, i)
		}
	})
	if run.Status != api.StatusSucceeded {
		t.Fatalf("the run ended %s (%s): %s", run.Status, run.ErrorCode, run.Message)
	}
	for phase := range victims {
		if !cut[phase] {
			t.Errorf("the run was not seen in phase %s", phase)
		}
	}
	if len(run.Nodes) != 8 || slices.ContainsFunc(run.Nodes, func(n api.Node) bool { return n.State != api.NodeJoined }) {
		t.Errorf("nodes %+v", run.Nodes)
	}
	m.wantNodes(t, run.ID, 8)
	if violations := platform.AWS.Sessions().Violations(); len(violations) > 0 {
		t.Errorf("Session Manager saw breaches of its protocol: %+v", violations)
	}
	if sessions := platform.AWS.Sessions().Sessions(); slices.ContainsFunc(sessions, func(s sessionmanager.SessionInfo) bool { return s.Status == "Connected" }) {
		t.Errorf("sessions are left: %+v", sessions)
	}

	// A worker that cannot be reached is found out before anything changes, and
	// may be left out.
	m.machines[4].Refuse()
	lost := platform.Wait(t, platform.Start(t, request).ID, nil)
	if name := m.node(4); lost.ErrorCode != "machines_unreachable" || !strings.Contains(lost.Message, name) || strings.Contains(lost.Message, m.node(6)) {
		t.Errorf("without %s the run ended %s: %s", name, lost.ErrorCode, lost.Message)
	}
	if err := m.machines[4].Restore(); err != nil {
		t.Fatal(err)
	}
	again := platform.Wait(t, platform.Start(t, request).ID, nil)
	if again.Status != api.StatusSucceeded {
		t.Errorf("the same again ended %s: %s", again.ErrorCode, again.Message)
	}

	destroy, err := platform.Provisioner(t).DestroyProvision(t.Context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	if destroy = platform.Wait(t, destroy.ID, nil); destroy.Status != api.StatusSucceeded {
		t.Fatalf("the destroy ended %s (%s): %s", destroy.Status, destroy.ErrorCode, destroy.Message)
	}
	for _, machine := range m.machines {
		if out, code, err := machine.Exec(t.Context(), "ls /etc/kubernetes/kubelet.conf /etc/kubernetes/admin.conf /var/lib/etcd/member"); err != nil || code == 0 {
			t.Errorf("%s is not reset: %s (%v)", machine.Name(), out, err)
		}
	}
}

// TestAMachineThatFails: the others are a cluster, the report says which and why,
// and the same run again completes it.
func TestAMachineThatFails(t *testing.T) {
	m := launch(t, 1, 2)
	request := m.request("acme-broken")
	broken := m.machines[2]
	// The container runtime's configuration has no place where its folder is a file.
	const breakIt, mendIt = "rm -rf /etc/containerd && touch /etc/containerd", "rm /etc/containerd"
	if out, code, err := broken.Exec(t.Context(), breakIt); err != nil || code != 0 {
		t.Fatalf("%s (%v)", out, err)
	}
	run := platform.Wait(t, platform.Start(t, request).ID, nil)
	name := m.node(2)
	if run.ErrorCode != "machines_failed" || !strings.Contains(run.Message, "1 of 3 machines failed") || !strings.Contains(run.Message, name) {
		t.Fatalf("the run ended %s: %s", run.ErrorCode, run.Message)
	}
	for _, n := range run.Nodes {
		if want := map[bool]api.NodeState{true: api.NodeFailed, false: api.NodeJoined}[n.Name == name]; n.State != want || n.Message == "" {
			t.Errorf("node %+v, want %s", n, want)
		}
	}
	m.wantNodes(t, run.ID, 2)
	if out, code, err := broken.Exec(t.Context(), mendIt); err != nil || code != 0 {
		t.Fatalf("%s (%v)", out, err)
	}
	if run = platform.Wait(t, platform.Start(t, request).ID, nil); run.Status != api.StatusSucceeded {
		t.Fatalf("the run ended %s: %s", run.ErrorCode, run.Message)
	}
	m.wantNodes(t, run.ID, 3)
}

// fleet are machines that somebody has, and the key that they let in.
type fleet struct {
	machines      []*machine.Existing
	controlPlanes int
	balancer      string // before several control planes
	credential    string
}

// launch gives machines until the test ends. Every other one is behind Session
// Manager.
func launch(t *testing.T, controlPlanes, workers int) fleet {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	authorized, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	f := fleet{machines: make([]*machine.Existing, controlPlanes+workers), controlPlanes: controlPlanes, credential: uuid.NewString()}
	key := string(pem.EncodeToMemory(block))
	for line := range strings.Lines(key) {
		if !strings.HasPrefix(line, "-----") && len(line) > 40 {
			platform.AddCanary("a machine's private key", strings.TrimSpace(line))
		}
	}
	platform.AuthService.PutSSH(cloudcred.SSHCredential{ID: f.credential, Name: "metal", PrivateKey: redact.Secret(key)})
	var group sync.WaitGroup
	errs := make([]error, len(f.machines))
	for i := range f.machines {
		group.Go(func() {
			f.machines[i], errs[i] = platform.Machines.LaunchExisting(t.Context(), machine.ExistingMachine{
				Name: fmt.Sprintf("metal-%d", i), AuthorizedKeys: string(ssh.MarshalAuthorizedKey(authorized)), Network: f.credential,
			})
		})
	}
	group.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := f.machines[i].Terminate(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
	if controlPlanes > 1 {
		if f.balancer, err = platform.Machines.Balance(t.Context(), f.machines[:controlPlanes]...); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func behindSessionManager(i int) bool { return i%2 == 1 }

// request asks for a cluster of the machines.
func (f fleet) request(name string) api.ProvisionRequest {
	r := api.ProvisionRequest{
		Name: name, Topology: api.TopologyExistingMachines, KubernetesVersion: "1.36.3", SSHCredentialID: f.credential,
		Region: f.machines[0].Instance().Region, CredentialID: platform.Credential,
	}
	if f.controlPlanes > 1 {
		r.ControlPlaneEndpoint = f.balancer
	}
	for i, m := range f.machines {
		entry := api.Machine{Role: api.RoleWorker, User: m.User(), HostKey: m.HostKeys()[0], Transport: api.TransportDirect, Address: m.Address(), Port: m.Port()}
		if i < f.controlPlanes {
			entry.Role = api.RoleControlPlane
		}
		if behindSessionManager(i) {
			entry.Transport, entry.Address, entry.Port, entry.InstanceID = api.TransportSSM, "", 0, m.ID()
		}
		r.Machines = append(r.Machines, entry)
	}
	return r
}

// node is the name that the service gives a machine as a node.
func (f fleet) node(i int) string {
	m, role := f.machines[i], api.RoleWorker
	if i < f.controlPlanes {
		role = api.RoleControlPlane
	}
	if behindSessionManager(i) {
		return string(role) + "-" + m.ID()
	}
	return fmt.Sprintf("%s-%s-%d", role, strings.ReplaceAll(m.Address(), ".", "-"), m.Port())
}

// cut breaks all connections to a machine.
func (f fleet) cut(t *testing.T, i int) {
	t.Helper()
	if behindSessionManager(i) {
		platform.AWS.Sessions().End(f.machines[i].ID(), "cut by the test")
		return
	}
	f.machines[i].Cut()
}

// wantNodes looks at the cluster with the kubeconfig that the run has published.
func (f fleet) wantNodes(t *testing.T, run string, want int) {
	t.Helper()
	data, err := platform.Provisioner(t).Kubeconfig(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := cluster.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ready := 0
	for _, n := range nodes.Items {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				ready++
			}
		}
	}
	if ready != want || len(nodes.Items) != want {
		t.Errorf("%d of %d nodes are ready, want %d", ready, len(nodes.Items), want)
	}
}
