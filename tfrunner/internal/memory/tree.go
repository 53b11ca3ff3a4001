package memory

import (
	"path/filepath"
	"strconv"

	"github.com/kubeopera/platform/shared/runner/proctree"
)

// usedByTree adds up the process tree's resident memory that is no mapped file.
func (w *Watch) usedByTree() int64 {
	var total int64
	for _, pid := range append(proctree.Below(w.root), w.root) {
		status := filepath.Join(w.proc, strconv.Itoa(pid), "status")
		for _, kind := range []string{"RssAnon", "RssShmem"} {
			total += field(status, kind) << 10 // kB; a process that has ended has none
		}
	}
	return total
}
