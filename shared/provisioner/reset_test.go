package provisioner

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestResetCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := testNodes(3, 4)
		f := newFleet(t, nodes)
		f.took = time.Second
		cp := f.provisioner(testEnvironment(3, 4), new(bytes.Buffer))
		if _, err := cp.ProvisionClusterContext(t.Context(), nodes); err != nil {
			t.Fatal(err)
		}
		f.events = nil
		f.fault = func(node, step string, n int) error {
			if node == "w2" && step == stepReset && n == 1 {
				return exits(step)
			}
			return nil
		}
		result, err := cp.ResetCluster(t.Context(), nodes)
		var failed *NodeError
		if !errors.As(err, &failed) || failed.Node != "w2" {
			t.Errorf("error %v, want one of w2", err)
		}
		want := []string{"c1 reset", "c2 reset", "c3 reset", "w1 reset", "w2 resetting failed at kubernetes reset", "w3 reset", "w4 reset"}
		if diff := cmp.Diff(want, phases(result)); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"c3 " + stepReset, "c2 " + stepReset, "c1 " + stepReset}, f.events[4:]); diff != "" {
			t.Errorf("control planes (-want +got):\n%s", diff)
		}
		if f.most[stepReset] != 4 {
			t.Errorf("%d resets at a time, want 4 workers", f.most[stepReset])
		}
		if cp.Kubeconfig() != "" || cp.JoinToken != "" {
			t.Error("the kubeconfig or the token of the cluster that was is still there")
		}
		if _, err := cp.ResetCluster(t.Context(), nodes); err != nil {
			t.Errorf("second reset: %v", err)
		}
		// The cluster can be made again by the same provisioner.
		if _, err := cp.ProvisionClusterContext(t.Context(), nodes); err != nil {
			t.Errorf("made again: %v", err)
		}
	})
}

// TestResultOfAnEarlierRun: a script that ended while nobody listened says
// nothing about a machine that was reset since.
func TestResultOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := testNodes(1, 0)
		f := newFleet(t, nodes)
		f.took = time.Second
		f.lose = map[string]bool{"c1 " + stepInit: true}
		cp := f.provisioner(testEnvironment(1, 0), new(bytes.Buffer))
		if _, err := cp.ProvisionClusterContext(t.Context(), nodes); err == nil {
			t.Fatal("no error")
		}
		synctest.Wait()
		<-time.After(time.Minute)
		if _, err := cp.ResetCluster(t.Context(), nodes); err != nil {
			t.Fatal(err)
		}
		if _, err := cp.ProvisionClusterContext(t.Context(), nodes); err != nil {
			t.Fatal(err)
		}
		if !f.machines["c1"].admin {
			t.Error("there is no cluster")
		}
	})
}
