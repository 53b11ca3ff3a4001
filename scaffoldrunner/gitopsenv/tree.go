package gitopsenv

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// Tree is a part of a repository: a file's bytes by its path, which has slashes
// and none in front.
type Tree map[string][]byte

// The folders that generating reads and writes; the rest of a repository is
// none of its business.
var roots = []string{"apps", "clusters"}

// Roots are those folders.
func Roots() []string { return slices.Clone(roots) }

// Limits of what is read: a repository is somebody else's, and manifests are
// small.
const (
	MaxFile  = 4 << 20  // bytes
	MaxTotal = 64 << 20 // bytes
)

// Load reads what generating needs of a repository's work tree: the folders
// apps and clusters, which may be missing. Symbolic links in them are refused,
// since they lead out of the tree.
func Load(repository fs.FS) (Tree, error) {
	tree := Tree{}
	total := 0
	for _, root := range roots {
		err := fs.WalkDir(repository, root, func(file string, entry fs.DirEntry, err error) error {
			if err != nil {
				if file == root && errors.Is(err, fs.ErrNotExist) {
					return nil
				}
				return err
			}
			if entry.IsDir() {
				return nil
			}
			if !entry.Type().IsRegular() {
				return fmt.Errorf("%s is not a regular file", file)
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			if total += int(info.Size()); info.Size() > MaxFile || total > MaxTotal {
				return fmt.Errorf("%s: more than %d MiB in one file, or %d MiB below apps and clusters, is more than manifests take", file, MaxFile>>20, MaxTotal>>20)
			}
			tree[file], err = fs.ReadFile(repository, file)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read tree: %w", err)
		}
	}
	return tree, nil
}

// under is the part of the tree in and below a folder.
func (t Tree) under(dir string) Tree {
	part := Tree{}
	for file, data := range t {
		if strings.HasPrefix(file, dir+"/") {
			part[file] = data
		}
	}
	return part
}

// has says whether anything is in or below a folder.
func (t Tree) has(dir string) bool {
	for file := range t {
		if strings.HasPrefix(file, dir+"/") {
			return true
		}
	}
	return false
}

// paths are the files of the tree, sorted.
func (t Tree) paths() []string { return slices.Sorted(maps.Keys(t)) }

// Change is one file that differs between two trees.
type Change struct {
	Path string
	// Old and New are the file's bytes; nil where it is not.
	Old, New []byte
}

// Changes are what leads from one tree to another, sorted by path.
func Changes(from, to Tree) []Change {
	var changes []Change
	for file, data := range to {
		if old, ok := from[file]; !ok || !bytes.Equal(old, data) {
			changes = append(changes, Change{Path: file, Old: old, New: data})
		}
	}
	for file, old := range from {
		if _, ok := to[file]; !ok {
			changes = append(changes, Change{Path: file, Old: old})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return changes
}

// folders are the names of the folders directly in dir.
func (t Tree) folders(dir string) []string {
	names := map[string]bool{}
	for file := range t {
		if rest, ok := strings.CutPrefix(file, dir+"/"); ok {
			if name, _, nested := strings.Cut(rest, "/"); nested {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
