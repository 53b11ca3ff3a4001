package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/sim"
	"github.com/kubeopera/platform/sim/machine"
)

// TestExistingMachines makes a cluster of machines that have nothing but an SSH
// server, some of them reached through Session Manager, while connections break in
// every phase; then resets them.
func TestExistingMachines(t *testing.T) {
	t.Parallel() // mostly it waits
	m := launch(t, "metal", 3, 5)
	request := m.request("acme-metal")

	// Connections break after so many bytes, from the handshake on, and once in each
	// phase that is seen; what the machines execute goes on.
	for i, bytes := range map[int]int64{0: 40_000, 2: 2_000, 4: 10_000, 6: 80_000} {
		m.Machines[i].CutAfter(bytes)
	}
	victims := map[api.Phase]int{api.PhaseConnecting: 1, api.PhasePreparingMachines: 4, api.PhaseWaitingForControlPlane: 2, api.PhaseWaitingForNodes: 6}
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
	if len(cut) < 2 { // on a fast machine some are over before anybody looks
		t.Errorf("the run was seen in phases %v only", cut)
	}
	if len(run.Nodes) != 8 || slices.ContainsFunc(run.Nodes, func(n api.Node) bool { return n.State != api.NodeJoined }) {
		t.Errorf("nodes %+v", run.Nodes)
	}
	wantNodes(t, run.ID, 8)
	if violations := platform.AWS.Sessions().Violations(); len(violations) > 0 {
		t.Errorf("Session Manager saw breaches of its protocol: %+v", violations)
	}
	for _, s := range platform.AWS.Sessions().Sessions() {
		if s.Status == "Connected" && slices.ContainsFunc(m.Machines, func(e *machine.Existing) bool { return e.ID() == s.Target }) {
			t.Errorf("a session is left: %+v", s)
		}
	}

	// A worker that cannot be reached is found out before anything changes, and
	// may be left out.
	m.Machines[4].Refuse()
	lost := platform.Wait(t, platform.Start(t, request).ID, nil)
	if name := m.node(4); lost.ErrorCode != "machines_unreachable" || !strings.Contains(lost.Message, name) || strings.Contains(lost.Message, m.node(6)) {
		t.Errorf("without %s the run ended %s: %s", name, lost.ErrorCode, lost.Message)
	}
	if err := m.Machines[4].Restore(); err != nil {
		t.Fatal(err)
	}
	again := platform.Wait(t, platform.Start(t, request).ID, nil)
	if again.Status != api.StatusSucceeded {
		t.Errorf("the same again ended %s: %s", again.ErrorCode, again.Message)
	}

	// Another environment gets none of them.
	another := platform.Wait(t, platform.Start(t, m.request("acme-thief")).ID, nil)
	if another.ErrorCode != "machines_unreachable" || !strings.Contains(another.Message, `it belongs to the environment "acme-metal"`) {
		t.Errorf("another environment's run ended %s: %s", another.ErrorCode, another.Message)
	}

	destroy, err := platform.Provisioner(t).DestroyProvision(t.Context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	destroy = platform.Wait(t, destroy.ID, func(run api.Provision) {
		if run.Phase == api.PhaseResettingMachines && !cut[run.Phase] {
			cut[run.Phase] = true
			m.cut(t, 0)
			m.cut(t, 5)
		}
	})
	if destroy.Status != api.StatusSucceeded {
		t.Fatalf("the destroy ended %s (%s): %s", destroy.Status, destroy.ErrorCode, destroy.Message)
	}
	for _, machine := range m.Machines {
		if out, code, err := machine.Exec(t.Context(), "ls /etc/kubernetes/kubelet.conf /etc/kubernetes/admin.conf /var/lib/etcd/member"); err != nil || code == 0 {
			t.Errorf("%s is not reset: %s (%v)", machine.Name(), out, err)
		}
	}
}

// TestAMachineThatFails: the others are a cluster, the report says which and why,
// and the same run again completes it.
func TestAMachineThatFails(t *testing.T) {
	t.Parallel()
	m := launch(t, "broken", 1, 2)
	request := m.request("acme-broken")
	broken := m.Machines[2]
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
	wantNodes(t, run.ID, 2)
	if out, code, err := broken.Exec(t.Context(), mendIt); err != nil || code != 0 {
		t.Fatalf("%s (%v)", out, err)
	}
	if run = platform.Wait(t, platform.Start(t, request).ID, nil); run.Status != api.StatusSucceeded {
		t.Fatalf("the run ended %s: %s", run.ErrorCode, run.Message)
	}
	wantNodes(t, run.ID, 3)
}

// fleet are machines that somebody has, and what a cluster is to make of them.
type fleet struct {
	*sim.Fleet
	controlPlanes int
	balancer      string // before several control planes
}

// launch gives machines until the test ends. Every other one is behind Session
// Manager.
func launch(t *testing.T, prefix string, controlPlanes, workers int) fleet {
	t.Helper()
	machines, err := platform.LaunchFleet(t.Context(), prefix, controlPlanes+workers)
	if err != nil {
		t.Fatal(err)
	}
	f := fleet{Fleet: machines, controlPlanes: controlPlanes}
	for line := range strings.Lines(f.Key.Reveal()) {
		if !strings.HasPrefix(line, "-----") && len(line) > 40 {
			platform.AddCanary("a machine's private key", strings.TrimSpace(line))
		}
	}
	t.Cleanup(func() {
		for _, m := range f.Machines {
			if err := m.Terminate(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}
	})
	if controlPlanes > 1 {
		if f.balancer, err = platform.Machines.Balance(t.Context(), f.Machines[:controlPlanes]...); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func behindSessionManager(i int) bool { return i%2 == 1 }

// request asks for a cluster of the machines.
func (f fleet) request(name string) api.ProvisionRequest {
	r := api.ProvisionRequest{
		Name: name, Topology: api.TopologyExistingMachines, KubernetesVersion: "1.36.3", SSHCredentialID: f.Credential,
		Region: f.Region(), CredentialID: platform.Credential, ControlPlaneEndpoint: f.balancer,
	}
	for i := range f.Machines {
		if behindSessionManager(i) {
			r.Machines = append(r.Machines, f.ThroughSSM(i, f.role(i)))
		} else {
			r.Machines = append(r.Machines, f.Direct(i, f.role(i)))
		}
	}
	return r
}

func (f fleet) role(i int) api.Role {
	if i < f.controlPlanes {
		return api.RoleControlPlane
	}
	return api.RoleWorker
}

// node is the name that the service gives a machine as a node.
func (f fleet) node(i int) string {
	m := f.Machines[i]
	if behindSessionManager(i) {
		return string(f.role(i)) + "-" + m.ID()
	}
	return fmt.Sprintf("%s-%s-%d", f.role(i), strings.ReplaceAll(m.Address(), ".", "-"), m.Port())
}

// cut breaks all connections to a machine.
func (f fleet) cut(t *testing.T, i int) {
	t.Helper()
	if behindSessionManager(i) {
		platform.AWS.Sessions().End(f.Machines[i].ID(), "cut by the test")
		return
	}
	f.Machines[i].Cut()
}
