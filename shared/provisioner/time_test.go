package provisioner

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestTimeOfProvisioning: in virtual time, so exact. Every script takes a second.
func TestTimeOfProvisioning(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		controlPlanes, workers int
		want                   time.Duration
	}{
		// Two scripts of preparation, init, and one to join.
		{1, 0, 3 * time.Second},
		{1, 1, 4 * time.Second},
		{1, 7, 4 * time.Second},   // as many as work at a time
		{3, 5, 6 * time.Second},   // two control planes more, one after the other
		{1, 15, 7 * time.Second},  // two rounds
		{1, 63, 25 * time.Second}, // eight rounds
	} {
		t.Run(fmt.Sprintf("%d+%d", test.controlPlanes, test.workers), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				nodes := testNodes(test.controlPlanes, test.workers)
				f := newFleet(t, nodes)
				f.took = time.Second
				began := time.Now()
				_, err := f.provisioner(testEnvironment(test.controlPlanes, test.workers), new(bytes.Buffer)).ProvisionClusterContext(t.Context(), nodes)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(test.want, time.Since(began), cmpopts.EquateApproxTime(0)); diff != "" {
					t.Errorf("time (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// BenchmarkProvisionCluster has scripts of 20 ms: ns/op grows with the rounds of
// eight workers, not with the workers.
func BenchmarkProvisionCluster(b *testing.B) {
	for _, workers := range []int{0, 1, 3, 7, 15, 31, 63} {
		b.Run(fmt.Sprintf("nodes=%d", workers+1), func(b *testing.B) {
			nodes := testNodes(1, workers)
			env := testEnvironment(1, workers)
			for b.Loop() {
				f := newFleet(b, nodes)
				f.took = 20 * time.Millisecond
				if _, err := f.provisioner(env, new(bytes.Buffer)).ProvisionClusterContext(b.Context(), nodes); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(20, "ms/script")
		})
	}
}
