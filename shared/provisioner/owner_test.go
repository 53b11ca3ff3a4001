package provisioner

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestAMachineBelongsToOneEnvironment: another one does not take it, and its end
// does it no harm.
func TestAMachineBelongsToOneEnvironment(t *testing.T) {
	t.Parallel()
	for _, role := range []string{roleControlPlane, roleWorker} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				nodes := testNodes(1, 2)
				f := newFleet(t, nodes)
				taken := map[string]string{roleControlPlane: "c1", roleWorker: "w2"}[role]
				f.machines[taken].owner, f.machines[taken].member, f.machines[taken].admin = "another", true, role == roleControlPlane
				cp := f.provisioner(testEnvironment(1, 2), new(bytes.Buffer))
				_, err := cp.CheckConnections(t.Context(), nodes)
				if err == nil || !strings.Contains(err.Error(), "node "+taken+`: owner: it belongs to the environment "another"`) {
					t.Errorf("the check says %v", err)
				}
				result, err := cp.ProvisionClusterContext(t.Context(), nodes)
				if err == nil || f.began(taken, stepRuntime)+f.began(taken, stepPrerequisites)+f.began(taken, stepInit)+f.began(taken, stepJoinWorker) > 0 {
					t.Errorf("%v, and scripts %v", err, f.events)
				}
				want := []string{"c1 ready", "w1 ready", "w2 connecting failed at owner"}
				if role == roleControlPlane {
					want = []string{"c1 connecting failed at owner", "w1 joining skipped", "w2 joining skipped"}
				}
				if diff := cmp.Diff(want, phases(result)); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				if _, err := cp.ResetCluster(t.Context(), nodes); err != nil {
					t.Errorf("reset: %v", err)
				}
				if f.began(taken, stepReset) > 0 || f.began("w1", stepReset) != 1 || !f.machines[taken].member {
					t.Errorf("reset did %v", f.events)
				}
			})
		})
	}
}

// TestAClusterOfOthersIsNotTaken: nobody has written who it belongs to.
func TestAClusterOfOthersIsNotTaken(t *testing.T) {
	t.Parallel()
	nodes := testNodes(1, 1)
	f := newFleet(t, nodes)
	f.machines["c1"].admin, f.machines["c1"].member = true, true
	cp := f.provisioner(testEnvironment(1, 1), new(bytes.Buffer))
	if _, err := cp.ProvisionClusterContext(t.Context(), nodes); err == nil || !strings.Contains(err.Error(), "a cluster that is not this environment's") || f.began("c1", stepInit) > 0 {
		t.Errorf("%v, scripts %v", err, f.events)
	}
	if _, err := cp.ResetCluster(t.Context(), nodes); err != nil || f.began("c1", stepReset) > 0 {
		t.Errorf("%v, scripts %v", err, f.events)
	}
}

// TestInitThatGoesOnIsFound: a run was killed while the first control plane was
// made, and the next names the machines in another order, or that one fails.
func TestInitThatGoesOnIsFound(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			nodes := testNodes(3, 0)
			f := newFleet(t, nodes)
			f.took = time.Minute
			c2 := f.machines["c2"]
			f.fault = func(node, step string, _ int) error {
				if node != "c2" || step != stepPrerequisites {
					return nil
				}
				f.mu.Lock()
				defer f.mu.Unlock()
				if fails {
					c2.begun = true
					return exits(step)
				}
				c2.admin, c2.member = true, true // by now
				c2.register()
				return nil
			}
			for _, m := range f.machines {
				m.owner = "test"
			}
			cp := f.provisioner(testEnvironment(3, 0), new(bytes.Buffer))
			_, err := cp.ProvisionClusterContext(t.Context(), nodes)
			if f.began("", stepInit) != 0 || (err != nil) != fails {
				t.Errorf("%v, scripts %v", err, f.events)
			}
		})
	}
}

// TestInitThatWasStoppedInTheMiddleGoesOn: the API server answers, and the pods'
// network is missing.
func TestInitThatWasStoppedInTheMiddleGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := testNodes(1, 1)
		f := newFleet(t, nodes)
		c1 := f.machines["c1"]
		c1.admin, c1.member, c1.begun, c1.owner = true, true, true, "test"
		c1.register()
		cp := f.provisioner(testEnvironment(1, 1), new(bytes.Buffer))
		if _, err := cp.ProvisionClusterContext(t.Context(), nodes); err != nil || f.began("c1", stepInit) != 1 || f.began("c1", stepJoinControlPlane) != 0 {
			t.Errorf("%v, scripts %v", err, f.events)
		}
	})
}

// TestAFailureOfAnEarlierRunIsNotTaken: it happened while nobody was there.
func TestAFailureOfAnEarlierRunIsNotTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := testNodes(1, 1)
		f := newFleet(t, nodes)
		f.took = time.Second
		f.lose = map[string]bool{"w1 " + stepJoinWorker: true}
		f.fault = func(_, step string, n int) error {
			if step == stepJoinWorker && n == 1 {
				return exits(step)
			}
			return nil
		}
		cp := f.provisioner(testEnvironment(1, 1), new(bytes.Buffer))
		if _, err := cp.ProvisionClusterContext(t.Context(), nodes); err == nil {
			t.Fatal("the connection was not lost")
		}
		<-time.After(time.Minute) // until the join has failed
		if _, err := cp.ProvisionClusterContext(t.Context(), nodes); err != nil || f.began("w1", stepJoinWorker) != 2 {
			t.Errorf("%v, scripts %v", err, f.events)
		}
	})
}

func TestOwnerCommandIsAShells(t *testing.T) {
	t.Parallel()
	for _, take := range []bool{false, true} {
		check := exec.CommandContext(t.Context(), "sh", "-n")
		check.Stdin = strings.NewReader(ownerCommand(take))
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
}
