package harness

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/kubeopera/platform/e2e/leak"
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
			files, err := filepath.Glob("/proc/[0-9]*/cmdline")
			if err != nil {
				result <- err
				return
			}
			for _, file := range files {
				line, err := os.ReadFile(file)
				if err != nil { // the process has ended
					continue
				}
				if err := scanner.Scan("a process's arguments", line); err != nil {
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
