package sim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// claim empties dir and keeps other simulators out of it until the returned
// file is closed, or this process ends.
func claim(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	held, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(held.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("another simulator has %s: if it is still starting, wait until it is up; if it is broken, stop it first", dir)
	}
	if err == nil {
		err = empty(dir)
	}
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	return held, nil
}

// empty removes what is in dir, not dir, which carries the lock.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
