package runs

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/kubeopera/platform/e2e/bench"
	"github.com/kubeopera/platform/e2e/harness"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/sim"
	"github.com/kubeopera/platform/sim/machine"
)

var platform *harness.Platform

func TestMain(m *testing.M) {
	// First, since the simulator starts this program in other roles as well.
	if err := machine.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		os.Exit(m.Run()) // nothing else here needs the simulator
	}
	harness.Main(m, func(c *sim.Config) {
		c.Program = "minimalprovisioner"
		// As in a deployment; the simulator itself is quicker, and more talkative.
		c.Service = map[string]string{"SWEEP_INTERVAL": "2s", "LOG_LEVEL": "info"}
	}, func(p *harness.Platform) { platform = p })
}

// BenchmarkRuns measures runs.
func BenchmarkRuns(b *testing.B) {
	var table bench.Table
	b.Run("overhead", func(b *testing.B) { overhead(b, &table) })
	b.Run("overhead-eks", func(b *testing.B) { overheadOfEKS(b, &table) })
	b.Run("cancel", func(b *testing.B) { cancelRunning(b, &table) })
	b.Run("cancel-queued", func(b *testing.B) { cancelQueued(b, &table) })
	b.Run("scaffold", func(b *testing.B) { scaffold(b, &table) })
	if err := table.Write(os.Stdout); err != nil {
		b.Error(err)
	}
}

// request asks for a minimal cluster whose apply takes that many seconds.
func request(name string, seconds int) api.ProvisionRequest {
	r := platform.Request(name)
	r.Tags = map[string]string{"seconds": fmt.Sprint(seconds)}
	return r
}
