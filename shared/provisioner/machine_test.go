package provisioner

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

func TestKernelReboots(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		right bool
		want  string
	}{
		{"once", true, ""},
		{"and it does not help", false, "still needs it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				nodes := testNodes(1, 0)
				f := newFleet(t, nodes)
				f.machines["c1"].kernelRight = test.right
				env := testEnvironment(1, 0)
				env.Spec.Kernel.Version = "6.8.0-50-generic"
				_, err := f.provisioner(env, new(bytes.Buffer)).ProvisionClusterContext(t.Context(), nodes)
				if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
					t.Errorf("error %v, want %q", err, test.want)
				}
				if f.machines["c1"].boot != 1 || f.began("c1", stepKernel) != 2 {
					t.Errorf("%d reboots, %d times the script; want 1 and 2", f.machines["c1"].boot, f.began("c1", stepKernel))
				}
			})
		})
	}
}

func TestAddressesOfNodesBehindATransport(t *testing.T) {
	t.Parallel()
	nodes := testNodes(1, 1)
	f := newFleet(t, nodes)
	for i := range nodes {
		nodes[i].PrivateIP, nodes[i].InstanceID = "", fmt.Sprintf("i-%d", i)
		nodes[i].Transport = &SSMTransport{InstanceID: nodes[i].InstanceID}
	}
	env := testEnvironment(1, 1)
	env.Spec.Cluster.ControlPlaneEndpoint = ""
	cp := f.provisioner(env, new(bytes.Buffer))
	if _, err := cp.ProvisionClusterContext(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"10.0.0.1"}, f.asked); diff != "" {
		t.Errorf("endpoint of init (-want +got):\n%s", diff)
	}
}

func TestCheckConnections(t *testing.T) {
	t.Parallel()
	nodes := testNodes(1, 2)
	f := newFleet(t, nodes)
	f.machines["w1"].down = true
	result, err := f.provisioner(testEnvironment(1, 2), new(bytes.Buffer)).CheckConnections(t.Context(), nodes)
	if _, ok := errors.AsType[*UnreachableError](err); !ok {
		t.Errorf("error %v, want unreachable", err)
	}
	want := []string{"c1 connecting", "w1 connecting failed at connecting", "w2 connecting"}
	if diff := cmp.Diff(want, phases(result)); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if len(f.events) != 0 {
		t.Errorf("scripts ran: %v", f.events)
	}
}
