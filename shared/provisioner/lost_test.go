package provisioner

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTheOnlyControlPlaneIsLost: the call does not try again for each of many
// nodes what takes minutes.
func TestTheOnlyControlPlaneIsLost(t *testing.T) {
	t.Parallel()
	for _, during := range []string{"join data", "label"} {
		t.Run(during, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				nodes := testNodes(1, 30)
				f := newFleet(t, nodes)
				c1 := f.machines["c1"]
				f.fault = func(_, step string, n int) error {
					if step == during && n == 3 {
						f.mu.Lock()
						defer f.mu.Unlock()
						c1.down = true
					}
					return nil
				}
				begin := time.Now()
				_, err := f.provisioner(testEnvironment(1, 30), new(bytes.Buffer)).ProvisionClusterContext(t.Context(), nodes)
				if err == nil || !strings.Contains(err.Error(), "node w30: ") || !strings.Contains(err.Error(), "by node c1: ") {
					t.Errorf("%v", err)
				}
				if c1.refused > 2*maxAsking {
					t.Errorf("a machine that is away was asked %d times", c1.refused)
				}
				if took := time.Since(begin); took >= readyTimeout {
					t.Errorf("took %s", took)
				}
			})
		})
	}
}
