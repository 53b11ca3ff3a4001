package machines

import (
	"os"
	"testing"

	"github.com/kubeopera/platform/e2e/bench"
)

// BenchmarkMachines measures clusters of many machines, and tunnels to one.
func BenchmarkMachines(b *testing.B) {
	var table bench.Table
	b.Run("nodes", func(b *testing.B) { nodes(b, &table) })
	b.Run("tunnel", func(b *testing.B) { tunnels(b, &table) })
	if err := table.Write(os.Stdout); err != nil {
		b.Error(err)
	}
}
