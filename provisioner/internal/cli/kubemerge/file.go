package kubemerge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Change is what MergeFile did.
type Change struct {
	Context string // name of the context
	Backup  string // path of what the file held before; empty if nothing was there or changed
	Changed bool
}

const (
	// lockWait is how long MergeFile waits for another program to be done.
	lockWait = 5 * time.Second
	lockPoll = 50 * time.Millisecond
)

// MergeFile merges a kubeconfig into the file at path, which need not exist. What
// the file held is kept beside it, and the file is replaced at once: whoever reads
// it sees the old one or the new one. kubectl and others are kept out meanwhile by
// the lock file that they use too.
func MergeFile(ctx context.Context, path string, fresh []byte, o Options, now time.Time) (change Change, err error) {
	// What is behind a link is replaced, not the link.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return Change{}, err
	}
	unlock, err := lock(ctx, path)
	if err != nil {
		return Change{}, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	existing, err := os.ReadFile(path) //nolint:gosec // whoever runs the program names the file
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Change{}, err
	}
	there := err == nil
	merged, name, err := Merge(existing, fresh, o)
	if err != nil {
		return Change{}, fmt.Errorf("%s: %w", path, err)
	}
	change = Change{Context: name}
	if there && string(merged) == string(existing) {
		return change, nil
	}
	if len(existing) > 0 {
		if change.Backup, err = backup(path, existing, now); err != nil {
			return Change{}, fmt.Errorf("keep a backup: %w", err)
		}
	}
	change.Changed = true
	return change, WriteFile(path, merged)
}

// WriteFile replaces a file at once by one that only its owner may read.
func WriteFile(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// backup writes what a file holds to a new file beside it.
func backup(path string, data []byte, now time.Time) (string, error) {
	stamp := now.UTC().Format("20060102T150405Z")
	for i := 1; ; i++ {
		name := fmt.Sprintf("%s.%s.bak", path, stamp)
		if i > 1 {
			name = fmt.Sprintf("%s.%s-%d.bak", path, stamp, i)
		}
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // beside a file that whoever runs the program names
		if errors.Is(err, fs.ErrExist) && i < 1000 {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = f.Write(data)
		return name, errors.Join(err, f.Sync(), f.Close())
	}
}

// lock takes client-go's lock of a kubeconfig: a file beside it that one program
// can create.
func lock(ctx context.Context, path string) (unlock func() error, err error) {
	name := path + ".lock"
	deadline := time.Now().Add(lockWait)
	for {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0) //nolint:gosec // beside a file that whoever runs the program names
		if err == nil {
			_ = f.Close() // nothing was written
			return func() error { return os.Remove(name) }, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("another program is writing %s; if none is, remove %s", path, name)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lockPoll):
		}
	}
}
