package harness

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/kubeopera/platform/e2e/leak"
	"github.com/kubeopera/platform/shared/runner/proctree"
)

// watchArguments looks for secrets in the arguments of every process that there
// is, until ctx ends, and tells what it found.
func watchArguments(ctx context.Context, scanner *leak.Scanner) <-chan error {
	result := make(chan error, 1)
	go func() {
		found := map[string]error{}
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			for _, args := range proctree.Arguments() {
				if err := scanner.Scan("a process's arguments", []byte(strings.Join(args, "\x00"))); err != nil {
					found[err.Error()] = err
				}
			}
			select {
			case <-ctx.Done():
				var all []error
				for _, err := range found {
					all = append(all, err)
				}
				result <- errors.Join(all...)
				return
			case <-tick.C:
			}
		}
	}()
	return result
}
