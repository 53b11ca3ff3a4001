package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
)

// repository is a work tree that is read and written. No path leads out of it,
// symbolic links included.
type repository struct{ root *os.Root }

// openRepository opens a folder, which is made if it is not there and something
// is to be written.
func openRepository(dir string, readOnly bool) (*repository, error) {
	if !readOnly {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(dir)
	if readOnly && errors.Is(err, fs.ErrNotExist) {
		return &repository{}, nil
	}
	if err != nil {
		return nil, err
	}
	return &repository{root}, nil
}

// Close lets go of the folder.
func (r *repository) Close() error {
	if r.root == nil {
		return nil
	}
	return r.root.Close()
}

// load reads what is there.
func (r *repository) load() (gitopsenv.Tree, error) {
	if r.root == nil {
		return gitopsenv.Tree{}, nil
	}
	return gitopsenv.Load(r.root.FS())
}

// write makes changes, each file at once: a reader sees the old or the new one.
// Files that others list come first, lists after them, deletions last, so that no
// list ever names a file that is not there.
func (r *repository) write(ctx context.Context, changes []gitopsenv.Change) error {
	rank := func(c gitopsenv.Change) int {
		switch name := path.Base(c.Path); {
		case c.New == nil:
			return 3
		case name == "gotk-sync.yaml":
			return 2
		case strings.HasPrefix(name, "kustomization."):
			return 1
		}
		return 0
	}
	ordered := slices.Clone(changes)
	slices.SortStableFunc(ordered, func(a, b gitopsenv.Change) int { return rank(a) - rank(b) })
	for _, c := range ordered {
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.New == nil {
			if err := r.root.Remove(c.Path); err != nil {
				return err
			}
			r.prune(path.Dir(c.Path))
			continue
		}
		if err := r.replace(c.Path, c.New); err != nil {
			return err
		}
	}
	return nil
}

// replace writes a file beside the old one and renames it.
func (r *repository) replace(file string, data []byte) error {
	dir := path.Dir(file)
	if err := r.root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if info, err := r.root.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	temporary := path.Join(dir, "."+path.Base(file)+"."+rand.Text()[:8])
	if err := r.root.WriteFile(temporary, data, mode); err != nil {
		return errors.Join(err, ignoreMissing(r.root.Remove(temporary)))
	}
	if err := r.root.Rename(temporary, file); err != nil {
		return errors.Join(fmt.Errorf("replace %s: %w", file, err), ignoreMissing(r.root.Remove(temporary)))
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// prune removes folders that are empty now, as git would.
func (r *repository) prune(dir string) {
	for ; dir != "."; dir = path.Dir(dir) {
		if r.root.Remove(dir) != nil {
			return // not empty
		}
	}
}
