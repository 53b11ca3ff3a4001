package harness

import (
	"context"
	"strings"
	"time"

	"github.com/kubeopera/platform/shared/runner/proctree"
)

// watchArguments collects the arguments of every process that there is, until ctx
// ends.
func watchArguments(ctx context.Context) <-chan []byte {
	result := make(chan []byte, 1)
	go func() {
		seen := map[string]bool{}
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			for _, args := range proctree.Arguments() {
				seen[strings.Join(args, "\x00")] = true
			}
			select {
			case <-ctx.Done():
				var all []byte
				for args := range seen {
					all = append(all, args+"\n"...)
				}
				result <- all
				return
			case <-tick.C:
			}
		}
	}()
	return result
}
