package pidone

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubeopera/platform/shared/runner/proctree"
)

// restTimeout bounds the killing of what is left: a process in
// uninterruptible sleep cannot be waited for.
const restTimeout = 10 * time.Second

// killRest kills all that descends from this process and reaps it.
func killRest() {
	for deadline := time.Now().Add(restTimeout); time.Now().Before(deadline); {
		// Once more after each round: a process may have forked while we looked.
		for _, pid := range proctree.Below(os.Getpid()) {
			// It may have ended by itself.
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if errors.Is(err, unix.ECHILD) {
			return
		}
		if pid == 0 {
			pause(10 * time.Millisecond)
		}
	}
}

func pause(d time.Duration) { <-time.After(d) }
