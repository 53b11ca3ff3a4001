package provisioner

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/logger"
	"github.com/kubeopera/platform/shared/provisioner/internal/remote"
)

const nodesJSON = `{"kind":"List","items":[
 {"metadata":{"name":"w1","labels":{}},"spec":{"unschedulable":true},
  "status":{"conditions":[{"type":"MemoryPressure","status":"True","reason":"KubeletHasInsufficientMemory"},{"type":"Ready","status":"True"}],
            "addresses":[{"type":"Hostname","address":"w1"},{"type":"InternalIP","address":"10.0.1.1"}],"nodeInfo":{"kubeletVersion":"v1.36.3"}}},
 {"metadata":{"name":"c1","labels":{"node-role.kubernetes.io/control-plane":""}},
  "status":{"conditions":[{"type":"Ready","status":"False","reason":"KubeletNotReady","message":"container runtime network not ready"}],
            "addresses":[{"type":"InternalIP","address":"10.0.0.1"}],"nodeInfo":{"kubeletVersion":"v1.36.3"}}}]}`

func TestHealthOfACluster(t *testing.T) {
	t.Parallel()
	nodes := testNodes(3, 2)
	spec := func(workers int32) *v1alpha1.Environment {
		env := testEnvironment(3, int(workers))
		env.Spec.Cluster.Region = "eu-west-1"
		env.Status.Cluster = &v1alpha1.ClusterStatus{}
		for _, n := range nodes {
			env.Status.Cluster.Nodes = append(env.Status.Cluster.Nodes, v1alpha1.NodeStatus{Name: n.Name, Role: n.Role, PrivateIP: n.PrivateIP})
		}
		return env
	}
	for _, test := range []struct {
		name    string
		workers int32
		spoil   func(*fleet)
		healthy bool
		api     string
		message string
	}{
		{"all well", 2, func(*fleet) {}, true, APIServerRunning, "all 5 nodes are ready"},
		{"more workers than asked for", 1, func(*fleet) {}, true, APIServerRunning, "all 5 nodes are ready"},
		{"a worker is missing", 3, func(*fleet) {}, false, APIServerRunning, "1 of 3 workers are missing"},
		{"a control plane is missing", 2, func(f *fleet) { delete(f.cluster, "c3") }, false, APIServerRunning, "1 of 3 control planes are missing"},
		{"a node is not ready", 2, func(f *fleet) {
			f.cluster["w1"].Status.Conditions[0] = kubeCondition{Type: "Ready", Status: "Unknown", Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status."}
		}, false, APIServerRunning, "node w1 is not ready: NodeStatusUnknown Kubelet stopped posting node status."},
		{"the first control plane cannot be reached", 2, func(f *fleet) { f.machines["c1"].down = true }, true, APIServerRunning, "all 5"},
		{"its API server is down", 2, func(f *fleet) { f.machines["c1"].apiDown = true }, true, APIServerRunning, "all 5"},
		{"no API server answers", 2, func(f *fleet) {
			for _, m := range f.machines {
				m.apiDown = true
			}
		}, false, APIServerUnreachable, "connection refused"},
		{"no control plane can be reached", 2, func(f *fleet) {
			for _, m := range f.machines {
				m.down = true
			}
		}, false, APIServerUnreachable, "no route"},
		{"etcd has lost its majority", 2, func(f *fleet) {
			f.fault = func(_, step string, _ int) error {
				if strings.Contains(step, "readyz") {
					return &remote.ExitError{Script: "kubectl", Code: 1, Tail: []string{"[-]etcd failed: reason withheld", "readyz check failed"}}
				}
				return nil
			}
		}, false, APIServerNotReady, "[-]etcd failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, nodes)
			cp := f.provisioner(spec(test.workers), new(bytes.Buffer))
			if _, err := cp.ProvisionClusterContext(t.Context(), nodes); err != nil {
				t.Fatal(err)
			}
			test.spoil(f)
			h, err := cp.health(t.Context(), NodesFromEnvironment(cp.Environment)[:3])
			if h == nil {
				t.Fatalf("no health: %v", err)
			}
			if h.Healthy != test.healthy || h.APIServerStatus != test.api || !strings.Contains(h.Message, test.message) {
				t.Errorf("healthy %t, API server %s, %q; want %t, %s, %q", h.Healthy, h.APIServerStatus, h.Message, test.healthy, test.api, test.message)
			}
			if (err != nil) != (test.api == APIServerUnreachable) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestAssess(t *testing.T) {
	t.Parallel()
	nodes, err := parseNodes([]byte(nodesJSON))
	if err != nil {
		t.Fatal(err)
	}
	got := assess(APIServerRunning, "", nodes, nil)
	want := &ClusterHealth{
		TotalNodes: 2, ReadyNodes: 1, ControlPlanes: 1, Workers: 1, APIServerStatus: APIServerRunning,
		Nodes: []NodeHealth{
			{Name: "c1", Role: "control-plane", Status: "NotReady", Version: "v1.36.3", InternalIP: "10.0.0.1"},
			{Name: "w1", Role: "worker", Ready: true, Status: "Ready,SchedulingDisabled", Version: "v1.36.3", InternalIP: "10.0.1.1"},
		},
		Message: "node w1: MemoryPressure: KubeletHasInsufficientMemory\nnode c1 is not ready: KubeletNotReady container runtime network not ready",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("health (-want +got):\n%s", diff)
	}
	if h := assess(APIServerRunning, "", nil, nil); h.Healthy {
		t.Error("a cluster without nodes is healthy")
	}
}

func TestNodesAreFoundByWholeAddresses(t *testing.T) {
	t.Parallel()
	list := func(addresses ...string) []kubeNode {
		nodes := make([]kubeNode, len(addresses))
		for i, a := range addresses {
			data, _ := json.Marshal(map[string]any{
				"metadata": map[string]any{"name": string(rune('a' + i))},
				"status":   map[string]any{"addresses": []any{map[string]string{"type": "InternalIP", "address": a}}},
			})
			if err := json.Unmarshal(data, &nodes[i]); err != nil {
				t.Fatal(err)
			}
		}
		return nodes
	}
	for _, test := range []struct {
		name  string
		nodes []kubeNode
		info  NodeInfo
		want  string
		wrong bool
	}{
		{"not by a beginning", list("10.0.1.81", "10.0.1.8"), NodeInfo{Name: "x", PrivateIP: "10.0.1.8"}, "b", false},
		{"private before public", list("198.51.100.1", "10.0.0.1"), NodeInfo{Name: "x", PrivateIP: "10.0.0.1", PublicIP: "198.51.100.1"}, "b", false},
		{"public where there is no private", list("198.51.100.1"), NodeInfo{Name: "x", PublicIP: "198.51.100.1"}, "a", false},
		{"IPv6 in another spelling", list("2001:db8::1"), NodeInfo{Name: "x", PrivateIP: "2001:0DB8:0:0::1"}, "a", false},
		{"by name where no address fits", list("10.0.0.1"), NodeInfo{Name: "a", PrivateIP: "10.9.9.9"}, "a", false},
		{"none", list("10.0.0.1"), NodeInfo{Name: "x", PrivateIP: "10.0.0.2"}, "", false},
		{"two with one address", list("10.0.0.1", "10.0.0.1"), NodeInfo{Name: "x", PrivateIP: "10.0.0.1"}, "", true},
	} {
		n, err := findNode(test.nodes, test.info)
		got := ""
		if n != nil {
			got = n.Metadata.Name
		}
		if got != test.want || (err != nil) != test.wrong {
			t.Errorf("%s: %q, %v; want %q, error %t", test.name, got, err, test.want, test.wrong)
		}
	}
}

func TestHealthByWhichTransport(t *testing.T) {
	t.Parallel()
	env := testEnvironment(1, 0)
	env.Spec.Cluster.Region = "eu-west-1"
	env.Status.Cluster = &v1alpha1.ClusterStatus{Nodes: []v1alpha1.NodeStatus{
		{Name: "private", Role: "control-plane", InstanceID: "i-0123456789abcdef0", PrivateIP: "10.0.0.1", SSHUsername: "rocky"},
		{Name: "public", Role: "control-plane", InstanceID: "i-0123456789abcdef1", PrivateIP: "10.0.0.2", PublicIP: "198.51.100.2"},
	}}
	cp := NewClusterProvisioner(nil, "key", "ubuntu", env)
	if n := cp.nodeAt("10.0.0.1"); n.SSHUsername != "rocky" {
		t.Errorf("node at 10.0.0.1: %+v", n)
	} else if s, ok := n.Transport.(*SSMTransport); !ok || s.InstanceID != "i-0123456789abcdef0" || s.Region != "eu-west-1" {
		t.Errorf("transport to a private node: %+v", n.Transport)
	}
	if n := cp.nodeAt("198.51.100.2"); n.Transport != nil || n.dialAddress() != "198.51.100.2:22" {
		t.Errorf("node at 198.51.100.2: %+v", n)
	}
	if n := cp.nodeAt("192.0.2.1:2222"); n.Transport.Target() != "192.0.2.1" {
		t.Errorf("an unknown node: %+v", n)
	}
	if _, err := GetClusterHealthFromEnv(nil, singleNode(func(*v1alpha1.EnvironmentSpec) {})); !errors.Is(err, v1alpha1.ErrInvalid) {
		t.Errorf("health of a single machine: %v", err)
	}
	orphan := &v1alpha1.Environment{Status: env.Status} // its spec.cluster was taken out
	if s, ok := NodesFromEnvironment(orphan)[0].Transport.(*SSMTransport); !ok || s.Region != "" {
		t.Errorf("transport without a region: %+v", s)
	}
	env.Status.Cluster.Nodes = nil
	if _, err := GetClusterHealthFromEnv(new(logger.FunLogger), env); !errors.Is(err, ErrNoControlPlane) {
		t.Errorf("health without nodes: %v", err)
	}
}

func FuzzParseNodes(f *testing.F) {
	f.Add([]byte(nodesJSON))
	f.Add([]byte(`{"kind":"NodeList","items":[{"metadata":{"name":"x';id"}}]}`))
	f.Add([]byte(`{"kind":"Status"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		nodes, err := parseNodes(data)
		if err != nil {
			return
		}
		h := assess(APIServerRunning, "", nodes, &v1alpha1.ClusterSpec{})
		if h.TotalNodes != len(nodes) || h.ReadyNodes > h.TotalNodes || h.ControlPlanes+h.Workers != h.TotalNodes || h.Message == "" {
			t.Errorf("health %+v of %d nodes", h, len(nodes))
		}
		for i := range nodes {
			if strings.ContainsAny(nodes[i].Metadata.Name, "'\"$`; \n") {
				t.Errorf("name %q passed", nodes[i].Metadata.Name)
			}
			if patch, err := nodePatch(&v1alpha1.ClusterSpec{}, roleWorker, &nodes[i]); err != nil || !json.Valid(patch) {
				t.Errorf("patch %s: %v", patch, err)
			}
		}
	})
}
