//go:build unix

package remote

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockFile waits for the file's lock; closing the file releases it.
func lockFile(file *os.File) error { return unix.Flock(int(file.Fd()), unix.LOCK_EX) }
