package machines

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/kubeopera/platform/e2e/bench"
	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/logger"
	"github.com/kubeopera/platform/shared/provisioner"
)

// scriptTime is how long every script takes. A cluster has two of preparation on
// each machine, one that makes its first control plane, and one that joins.
const scriptTime = time.Second

// nodes measures how long a cluster takes, by its number of machines. With one
// script of a second in each place the least possible is known: the rounds of
// machines that are worked on at a time.
func nodes(b *testing.B, table *bench.Table) {
	b.Helper()
	const parallel = 8
	within := map[int]time.Duration{} // of joining, by workers, where one round is enough
	for _, workers := range []int{0, 1, 3, 7, 15, 31, 63} {
		took := provision(b, workers, 0)
		rounds := (workers + 1 + parallel - 1) / parallel
		joins := (workers + parallel - 1) / parallel
		addNodes(table, workers, parallel, took, time.Duration(2*rounds+1+joins)*scriptTime)
		if joins == 1 {
			within[workers] = took.joining
		}
	}
	took := provision(b, 63, 64)
	addNodes(table, 63, 64, took, 4*scriptTime)
	const most = 1.25
	ratio := float64(within[7]) / float64(within[1])
	table.Add(fmt.Sprintf("joining of 7 workers against 1, %d at a time", parallel), fmt.Sprintf("%.2f times", ratio),
		bench.Verdict(fmt.Sprintf("flat: at most %.2f times", most), ratio <= most))
}

func addNodes(table *bench.Table, workers, parallel int, took phases, least time.Duration) {
	table.Add(fmt.Sprintf("cluster of %d, %d at a time, scripts of 1 s: whole; connecting, preparing, making the first, joining the others", workers+1, parallel),
		fmt.Sprintf("%s; %s, %s, %s, %s", bench.Seconds(took.whole), bench.Seconds(took.connecting), bench.Seconds(took.preparing),
			bench.Seconds(took.initializing), bench.Seconds(took.joining)),
		fmt.Sprintf("least possible %.0f s", least.Seconds()))
}

// phases are how long the parts of a call have taken.
type phases struct{ whole, connecting, preparing, initializing, joining time.Duration }

// provision makes a cluster of one control plane and some workers; parallel is 0
// for what the library takes by itself.
func provision(b *testing.B, workers, parallel int) phases {
	b.Helper()
	fleet := newStandIns(b, scriptTime)
	infos := []provisioner.NodeInfo{fleet.node(b, "control-plane-1", "10.0.0.1", v1alpha1.NodeRoleControlPlane)}
	for i := range workers {
		infos = append(infos, fleet.node(b, fmt.Sprintf("worker-%d", i+1), fmt.Sprintf("10.0.1.%d", i+1), v1alpha1.NodeRoleWorker))
	}
	env := &v1alpha1.Environment{Spec: v1alpha1.EnvironmentSpec{
		Provider: v1alpha1.ProviderSSH,
		Auth:     v1alpha1.Auth{Username: "ubuntu", PrivateKey: "of the connection"},
		Cluster: &v1alpha1.ClusterSpec{
			ControlPlane:         v1alpha1.ControlPlaneSpec{Count: 1},
			Workers:              &v1alpha1.WorkerPoolSpec{Count: int32(workers)},
			ControlPlaneEndpoint: "10.0.0.1",
		},
	}}
	env.Name = "bench"
	log := logger.NewLogger()
	log.Out = io.Discard
	cp := provisioner.NewClusterProvisioner(log, "", "ubuntu", env)
	cp.Connection = provisioner.Connection{Key: fleet.key, HostKeyPolicy: "off"}
	cp.Parallel = parallel
	var mu sync.Mutex
	began := map[string]time.Time{} // first event of each phase
	cp.OnProgress = func(p provisioner.NodeProgress) {
		mu.Lock()
		defer mu.Unlock()
		if _, seen := began[p.Phase]; !seen {
			began[p.Phase] = p.At
		}
	}
	start := time.Now()
	result, err := cp.ProvisionClusterContext(b.Context(), infos)
	if err != nil {
		b.Fatal(err)
	}
	whole := time.Since(start)
	for _, n := range result.Nodes {
		if n.Phase != provisioner.PhaseReady {
			b.Fatalf("node %s is %s", n.Name, n.Phase)
		}
	}
	if workers == 0 {
		began[provisioner.PhaseJoining] = began[provisioner.PhaseConfiguring]
	}
	between := func(from, to string) time.Duration { return began[to].Sub(began[from]) }
	return phases{
		whole:        whole,
		connecting:   between(provisioner.PhaseConnecting, provisioner.PhasePreparing),
		preparing:    between(provisioner.PhasePreparing, provisioner.PhaseInitializing),
		initializing: between(provisioner.PhaseInitializing, provisioner.PhaseJoining),
		joining:      between(provisioner.PhaseJoining, provisioner.PhaseConfiguring),
	}
}
