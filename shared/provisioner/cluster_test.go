package provisioner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/provisioner/internal/remote"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// phases is "node phase" of a result, with what became of it.
func phases(r *ClusterResult) []string {
	var out []string
	for _, n := range r.Nodes {
		s := n.Name + " " + n.Phase
		switch {
		case n.Skipped:
			s += " skipped"
		case n.Err != nil:
			s += " failed at " + n.Step
		}
		out = append(out, s)
	}
	return out
}

func TestProvisionClusterInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := testNodes(3, 5)
		f := newFleet(t, nodes)
		f.took = time.Minute
		env := testEnvironment(3, 5)
		env.Spec.Cluster.Workers.Labels = map[string]string{"example.com/rack": "r1"}
		env.Spec.Cluster.Workers.Taints = []v1alpha1.Taint{{Key: "gpu", Value: "yes", Effect: v1alpha1.TaintEffectNoSchedule}}
		before := env.DeepCopy()
		var log bytes.Buffer
		cp := f.provisioner(env, &log)
		cp.Parallel = 3
		seen := make(map[string][]string)
		cp.OnProgress = func(p NodeProgress) {
			if s := seen[p.Node]; len(s) == 0 || s[len(s)-1] != p.Phase {
				seen[p.Node] = append(s, p.Phase)
			}
		}
		result, err := cp.ProvisionClusterContext(t.Context(), nodes)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"c1 ready", "c2 ready", "c3 ready", "w1 ready", "w2 ready", "w3 ready", "w4 ready", "w5 ready"}
		if diff := cmp.Diff(want, phases(result)); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		var joins []string
		base := 0
		for i, e := range f.events {
			if strings.HasSuffix(e, stepPrerequisites) {
				base = i
			}
			if strings.Contains(e, "init") || strings.Contains(e, "join") {
				joins = append(joins, e)
			}
		}
		if first := slices.Index(f.events, "c1 "+stepInit); first < base {
			t.Errorf("init began before all nodes were prepared: %v", f.events)
		}
		slices.Sort(joins[3:]) // workers in any order
		want = []string{"c1 " + stepInit, "c2 " + stepJoinControlPlane, "c3 " + stepJoinControlPlane}
		for i := range 5 {
			want = append(want, fmt.Sprintf("w%d %s", i+1, stepJoinWorker))
		}
		if diff := cmp.Diff(want, joins); diff != "" {
			t.Errorf("init and joins (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]int{
			stepRuntime: 3, stepPrerequisites: 3, stepInit: 1, stepJoinControlPlane: 1, stepJoinWorker: 3,
		}, f.most); diff != "" {
			t.Errorf("scripts at a time (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{PhaseConnecting, PhasePreparing, PhaseJoining, PhaseConfiguring, PhaseReady}, seen["w1"]); diff != "" {
			t.Errorf("progress of w1 (-want +got):\n%s", diff)
		}

		labels := map[string]string{managedLabel: "true", roleLabel: roleWorker, workerRoleLabel: "", "example.com/rack": "r1"}
		if diff := cmp.Diff(labels, f.cluster["w2"].Metadata.Labels); diff != "" {
			t.Errorf("labels of w2 (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]kubeTaint{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}}, f.cluster["w2"].Spec.Taints); diff != "" {
			t.Errorf("taints of w2 (-want +got):\n%s", diff)
		}
		if got := f.cluster["c2"].Spec.Taints; len(got) != 0 {
			t.Errorf("c2 is not dedicated and has taints %v", got)
		}
		if diff := cmp.Diff(before, env); diff != "" {
			t.Errorf("the caller's environment changed (-before +after):\n%s", diff)
		}
		if cp.ControlPlaneEndpoint != "api.example.com:6443" || !tokenForm.MatchString(cp.JoinToken) || len(cp.CertificateKey) != 64 || !strings.HasPrefix(cp.CACertHash, "sha256:") {
			t.Errorf("cluster information: endpoint %q, token %q, key %q, hash %q", cp.ControlPlaneEndpoint, cp.JoinToken, cp.CertificateKey, cp.CACertHash)
		}
		if len(f.tokens) != 7 || len(f.keys) != 2 || f.keys[0] == f.keys[1] {
			t.Errorf("%d tokens and %d certificate keys, want one token for each of 7 joins and keys of their own for 2", len(f.tokens), len(f.keys))
		}
		if got := cp.Kubeconfig().Reveal(); !strings.Contains(got, "https://api.example.com:6443") {
			t.Errorf("kubeconfig:\n%s", got)
		}
		for _, secret := range append(f.tokens, f.keys...) {
			if strings.Contains(log.String(), secret) {
				t.Errorf("the log holds the secret %s", secret)
			}
		}

		// All of it again changes nothing and joins nobody.
		if _, err := cp.ProvisionClusterContext(t.Context(), nodes); err != nil {
			t.Fatal(err)
		}
		if f.began("", stepInit) != 1 || f.began("", stepJoinControlPlane) != 2 || f.began("", stepJoinWorker) != 5 || len(f.tokens) != 7 {
			t.Errorf("the second call made another cluster: %v", f.events)
		}
	})
}

func TestProvisionClusterWithOneFailingNode(t *testing.T) {
	t.Parallel()
	all := func(rest ...string) []string {
		out := []string{"c1 ready", "c2 ready", "c3 ready", "w1 ready", "w2 ready"}
		for _, r := range rest {
			name, _, _ := strings.Cut(r, " ")
			out[slices.IndexFunc(out, func(s string) bool { return strings.HasPrefix(s, name+" ") })] = r
		}
		return out
	}
	nobody := func(rest ...string) []string {
		out := []string{"c1 joining skipped", "c2 joining skipped", "c3 joining skipped", "w1 joining skipped", "w2 joining skipped"}
		for _, r := range rest {
			name, _, _ := strings.Cut(r, " ")
			out[slices.IndexFunc(out, func(s string) bool { return strings.HasPrefix(s, name+" ") })] = r
		}
		return out
	}
	for _, test := range []struct {
		name       string
		node, step string
		want       []string
	}{
		{"a worker cannot be reached", "w1", "connect", all("w1 connecting failed at connecting")},
		{"a worker cannot be prepared", "w1", stepRuntime, all("w1 preparing failed at container runtime")},
		{"a worker cannot join", "w1", stepJoinWorker, all("w1 joining failed at kubernetes join worker")},
		{"a worker cannot be labelled", "w1", "ready", all("w1 configuring failed at await ready")},
		{"the first control plane cannot be reached", "c1", "connect", nobody("c1 connecting failed at connecting")},
		{"another control plane cannot be reached", "c2", "connect", nobody("c2 connecting failed at connecting")},
		{
			"the first control plane cannot be prepared, so the next is initialized", "c1", stepPrerequisites,
			all("c1 preparing failed at kubernetes prerequisites"),
		},
		{"the first control plane cannot be initialized", "c1", stepInit, nobody("c1 initializing failed at kubernetes init")},
		{
			"a control plane cannot join", "c2", stepJoinControlPlane,
			all("c2 joining failed at kubernetes join control plane", "c3 joining skipped"),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				nodes := testNodes(3, 2)
				f := newFleet(t, nodes)
				f.took = time.Second
				broken := true
				f.fault = func(node, step string, _ int) error {
					if broken && node == test.node && step == test.step {
						return exits(step)
					}
					return nil
				}
				f.unready[test.node] = test.step == "ready"
				cp := f.provisioner(testEnvironment(3, 2), new(bytes.Buffer))
				result, err := cp.ProvisionClusterContext(t.Context(), nodes)
				if diff := cmp.Diff(test.want, phases(result)); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				var failed *NodeError
				if !errors.As(err, &failed) || failed.Node != test.node {
					t.Errorf("error %v, want a NodeError of %s", err, test.node)
				}
				if strings.Count(err.Error(), "node "+test.node+":") != 1 {
					t.Errorf("error names %s not once:\n%v", test.node, err)
				}

				// Once it is repaired, calling again completes the cluster, which is the same.
				broken = false
				clear(f.unready)
				if n := f.cluster[test.node]; n != nil {
					n.Status.Conditions[0].Status = "True"
				}
				result, err = cp.ProvisionClusterContext(t.Context(), nodes)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(all(), phases(result)); diff != "" {
					t.Errorf("second result (-want +got):\n%s", diff)
				}
				inits := 1
				if test.step == stepInit {
					inits = 2
				}
				if got := f.began("", stepInit); got != inits {
					t.Errorf("initialized %d times, want %d", got, inits)
				}
			})
		})
	}
}

func TestProvisionClusterFindsScriptsThatStillRun(t *testing.T) {
	t.Parallel()
	for _, step := range []string{stepRuntime, stepInit, stepJoinControlPlane, stepJoinWorker} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				nodes := testNodes(3, 1)
				node := map[string]string{stepRuntime: "w1", stepInit: "c1", stepJoinControlPlane: "c2", stepJoinWorker: "w1"}[step]
				f := newFleet(t, nodes)
				f.took = time.Minute
				f.lose = map[string]bool{node + " " + step: true}
				var unreachable *UnreachableError
				if _, err := f.provisioner(testEnvironment(3, 1), new(bytes.Buffer)).ProvisionClusterContext(t.Context(), nodes); !errors.As(err, &unreachable) {
					t.Fatalf("first call: %v, want unreachable", err)
				}
				// Another process, with a provisioner of its own.
				if _, err := f.provisioner(testEnvironment(3, 1), new(bytes.Buffer)).ProvisionClusterContext(t.Context(), nodes); err != nil {
					t.Fatal(err)
				}
				if step == stepRuntime {
					return // it runs for each preparation
				}
				if got := f.began(node, step); got != 1 {
					t.Errorf("%s ran %d times on %s, want once: %v", step, got, node, f.events)
				}
			})
		})
	}
}

func TestProvisionClusterEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := testNodes(1, 20)
		f := newFleet(t, nodes)
		f.took = time.Minute
		cp := f.provisioner(testEnvironment(1, 20), new(bytes.Buffer))
		// In the middle of the preparation, which takes three rounds of two scripts.
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		result, err := cp.ProvisionClusterContext(ctx, nodes)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want deadline exceeded", err)
		}
		for _, n := range result.Nodes {
			if n.Err == nil {
				t.Errorf("node %s has no error", n.Name)
			}
		}
		if got := len(f.events); got > 16 {
			t.Errorf("%d scripts began, want none after the end", got)
		}
		if _, err := cp.ProvisionClusterContext(t.Context(), nodes); err != nil {
			t.Errorf("second call: %v", err)
		}
	})
}

func TestProvisionClusterJoinsByTheFirstControlPlaneThatAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := testNodes(3, 1)
		f := newFleet(t, nodes)
		cp := f.provisioner(testEnvironment(3, 1), new(bytes.Buffer))
		if _, err := cp.ProvisionClusterContext(t.Context(), nodes); err != nil {
			t.Fatal(err)
		}
		// The first control plane is lost, a worker is new.
		f.machines["c1"].down = true
		more := testNodes(3, 2)
		f.machines["w2"] = &fakeMachine{fleet: f, info: more[4], runs: make(map[string]*fakeRun), count: make(map[string]int)}
		result, err := cp.ProvisionClusterContext(t.Context(), more)
		if err == nil {
			t.Error("no error about c1")
		}
		want := []string{"c1 connecting failed at connecting", "c2 ready", "c3 ready", "w1 ready", "w2 ready"}
		if diff := cmp.Diff(want, phases(result)); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}

		// A new machine takes its place: what the old one has left is forgotten first.
		f.machines["c1"] = &fakeMachine{fleet: f, info: more[0], runs: make(map[string]*fakeRun), count: make(map[string]int)}
		if _, err := cp.ProvisionClusterContext(t.Context(), more); err != nil {
			t.Fatal(err)
		}
		if f.began("c1", stepJoinControlPlane) != 1 || f.began("", stepInit) != 1 {
			t.Errorf("c1 did not join the cluster: %v", f.events)
		}
		if diff := cmp.Diff([]string{"c2"}, f.forgot); diff != "" {
			t.Errorf("forgotten on (-want +got):\n%s", diff)
		}
	})
}

func TestProvisionClusterMakesNoSecondCluster(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		spoil func(map[string]*fakeMachine)
		want  string
	}{
		{"a control plane that may hold it cannot be reached", func(m map[string]*fakeMachine) {
			m["c1"].admin, m["c1"].member = false, false
			m["c2"].down, m["c3"].apiDown = true, true
		}, "could not be examined"},
		{"it does not answer", func(m map[string]*fakeMachine) {
			m["c1"].apiDown, m["c2"].apiDown, m["c3"].apiDown = true, true, true
		}, "does not answer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			nodes := testNodes(3, 1)
			f := newFleet(t, nodes)
			cp := f.provisioner(testEnvironment(3, 1), new(bytes.Buffer))
			if _, err := cp.ProvisionClusterContext(t.Context(), nodes); err != nil {
				t.Fatal(err)
			}
			test.spoil(f.machines)
			result, err := cp.ProvisionClusterContext(t.Context(), nodes)
			if err == nil {
				t.Error("no error")
			}
			for _, n := range result.Nodes {
				if n.Skipped && !strings.Contains(n.Err.Error(), test.want) {
					t.Errorf("node %s was skipped: %v, want %q", n.Name, n.Err, test.want)
				}
			}
			if got := f.began("", stepInit); got != 1 {
				t.Errorf("initialized %d times", got)
			}
		})
	}
}

func TestProvisionClusterRefusesInput(t *testing.T) {
	t.Parallel()
	change := func(do func(nodes []NodeInfo)) []NodeInfo {
		nodes := testNodes(1, 2)
		do(nodes)
		return nodes
	}
	for _, test := range []struct {
		name  string
		nodes []NodeInfo
		want  string
	}{
		{"no nodes", nil, "no nodes to provision"},
		{"no control plane", testNodes(0, 2), "at least one control-plane node"},
		{"another role", change(func(n []NodeInfo) { n[1].Role = "Worker" }), "role"},
		{"no name", change(func(n []NodeInfo) { n[1].Name = "" }), "no name"},
		{"a name for a shell", change(func(n []NodeInfo) { n[1].Name = "x';id;'" }), "no name"},
		{"a name twice", change(func(n []NodeInfo) { n[1].Name = n[2].Name }), "name w2"},
		{"an address twice", change(func(n []NodeInfo) { n[1].PrivateIP = n[2].PrivateIP }), "private address"},
		{"no address", change(func(n []NodeInfo) { n[1].PrivateIP = "" }), "neither an address"},
		{"an address for a shell", change(func(n []NodeInfo) { n[1].PrivateIP = "$(id)" }), "neither an IP address"},
		{"a port", change(func(n []NodeInfo) { n[1].Port = 70000 }), "port"},
		{"a host key", change(func(n []NodeInfo) { n[1].HostKeys = []string{"ssh-ed25519 nonsense"} }), "host keys"},
		{"an instance twice", change(func(n []NodeInfo) { n[1].InstanceID, n[2].InstanceID = "i-1", "i-1" }), "instance id"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cp := newFleet(t, nil).provisioner(testEnvironment(1, 2), new(bytes.Buffer))
			if err := cp.ProvisionCluster(test.nodes); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("ProvisionCluster: %v, want %q", err, test.want)
			}
			if result, err := cp.ResetCluster(t.Context(), test.nodes); err == nil || result != nil {
				t.Errorf("ResetCluster: %v, %v, want an error", result, err)
			}
		})
	}
	cp := newFleet(t, nil).provisioner(&v1alpha1.Environment{}, new(bytes.Buffer))
	if err := cp.ProvisionCluster(testNodes(1, 0)); err == nil {
		t.Error("an environment without a cluster passed")
	}
}

func TestRoleOfAMemberCannotChange(t *testing.T) {
	t.Parallel()
	nodes := testNodes(1, 2)
	f := newFleet(t, nodes)
	cp := f.provisioner(testEnvironment(1, 2), new(bytes.Buffer))
	if _, err := cp.ProvisionClusterContext(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	nodes[2].Role = roleControlPlane
	result, err := cp.ProvisionClusterContext(t.Context(), nodes)
	if err == nil || !strings.Contains(err.Error(), "node w2: examine: it is a worker of the cluster") || result.Nodes[1].Phase != PhaseReady {
		t.Errorf("result %v, %v", phases(result), err)
	}
}

func TestTemplatesRunAtTheirPhases(t *testing.T) {
	t.Parallel()
	nodes := testNodes(1, 1)
	f := newFleet(t, nodes)
	f.say = "the value is secret-value-of-a-template"
	f.fault = func(_, step string, _ int) error {
		if step == "template may-fail" {
			return &remote.ExitError{Script: step, Code: 1, Tail: []string{"secret-value-of-a-template"}}
		}
		return nil
	}
	env := testEnvironment(1, 1)
	template := func(name string, phase v1alpha1.TemplatePhase, may bool) v1alpha1.CustomTemplate {
		return v1alpha1.CustomTemplate{
			Name: name, Phase: phase, Inline: "true", ContinueOnError: may,
			Env: map[string]string{"VALUE": "secret-value-of-a-template"},
		}
	}
	env.Spec.CustomTemplates = []v1alpha1.CustomTemplate{
		template("last", v1alpha1.TemplatePhasePostInstall, false),
		template("after-kubernetes", v1alpha1.TemplatePhasePostKubernetes, false),
		template("may-fail", v1alpha1.TemplatePhasePostRuntime, true),
		template("first", v1alpha1.TemplatePhasePreInstall, false),
	}
	var log bytes.Buffer
	cp := f.provisioner(env, &log)
	if _, err := cp.ProvisionClusterContext(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range f.events {
		if node, step, _ := strings.Cut(e, " "); node == "w1" {
			got = append(got, step)
		}
	}
	want := []string{"template first", stepRuntime, "template may-fail", stepPrerequisites, stepJoinWorker, "template after-kubernetes", "template last"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("scripts on w1 (-want +got):\n%s", diff)
	}
	if strings.Contains(log.String(), "secret-value") || !strings.Contains(log.String(), "[w1] container runtime: the value is [redacted]") {
		t.Errorf("log:\n%s", log.String())
	}
}
