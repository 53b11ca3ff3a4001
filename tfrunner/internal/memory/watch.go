// Package memory watches how much of its memory limit a container uses, so that
// Terraform can be interrupted while it still can save its state. The kernel,
// which kills at the limit, does not wait for that.
//
// What counts is what the kernel cannot take back: not the page cache, in which
// the provider's binary alone, some 700 MB, would look like half of the limit.
// It is read from the container's own cgroup (version 2) if that has the limit,
// else added up over the process tree.
package memory

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Bounds of the soft limit.
const (
	// softPercent of the limit is where Terraform is interrupted. The rest is for
	// what it still needs to come to an end: 200 MB of 2 GiB.
	softPercent = 90
	// interval is how often usage is looked at; a provider grows by some 100 MB a
	// second while it starts.
	interval = 500 * time.Millisecond
)

// ExceededError says that the soft limit is passed.
type ExceededError struct {
	Used, Limit int64 // bytes
}

// Error says how much of the limit is used.
func (e *ExceededError) Error() string {
	return fmt.Sprintf("%s of the pod's %s of memory are in use", size(e.Used), size(e.Limit))
}

func size(bytes int64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}

// Watch watches one container. Its zero value watches nothing.
type Watch struct {
	limit  int64
	cgroup string // folder of the cgroup that has the limit; empty: none has
	proc   string
	root   int   // process whose tree counts where there is no cgroup
	kills  int64 // by the kernel, before the watch began
}

// New watches the container of this process. limit is the container's memory
// limit in bytes as Kubernetes states it (runcontract.EnvMemoryLimit); empty: the
// cgroup's own, if it has one.
func New(limit string) (*Watch, error) {
	return newWatch(limit, "/sys/fs/cgroup", "/proc", os.Getpid())
}

func newWatch(limit, cgroups, proc string, root int) (*Watch, error) {
	w := &Watch{proc: proc, root: root}
	if limit != "" {
		n, err := strconv.ParseInt(limit, 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("memory limit %q is no number of bytes", limit)
		}
		w.limit = n
	}
	folder := ownCgroup(cgroups, proc)
	enforced, ok := number(filepath.Join(folder, "memory.max"))
	switch {
	case !ok: // no cgroup v2, or it has no limit
	case w.limit == 0, enforced <= w.limit: // whole pages, hence a little less
		w.limit, w.cgroup = enforced, folder
		w.kills = field(filepath.Join(folder, "memory.events"), "oom_kill")
	}
	return w, nil
}

// ownCgroup is the folder of this process's cgroup: the whole tree's root where
// the container has a cgroup namespace.
func ownCgroup(cgroups, proc string) string {
	data, err := os.ReadFile(filepath.Join(proc, "self", "cgroup"))
	if err != nil {
		return cgroups
	}
	for line := range strings.Lines(string(data)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return filepath.Join(cgroups, filepath.Clean("/"+path))
		}
	}
	return cgroups
}

// Limit is the memory limit in bytes; 0 if there is none.
func (w *Watch) Limit() int64 { return w.limit }

// Run looks at the usage until ctx ends or the soft limit is passed, which it
// reports once.
func (w *Watch) Run(ctx context.Context, exceeded func(*ExceededError)) {
	if w.limit == 0 {
		return
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if used := w.used(); used > w.limit/100*softPercent {
			exceeded(&ExceededError{Used: used, Limit: w.limit})
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Killed tells whether the kernel has killed a process of this container for want
// of memory since the watch began. Without a cgroup of one's own nobody can tell.
func (w *Watch) Killed() bool {
	if w.cgroup == "" {
		return false
	}
	return field(filepath.Join(w.cgroup, "memory.events"), "oom_kill") > w.kills
}

// used is what the kernel cannot take back, in bytes; 0 if it cannot be read.
func (w *Watch) used() int64 {
	if w.cgroup == "" {
		return w.usedByTree()
	}
	current, ok := number(filepath.Join(w.cgroup, "memory.current"))
	if !ok {
		return 0
	}
	for _, cache := range []string{"inactive_file", "active_file"} {
		current -= field(filepath.Join(w.cgroup, "memory.stat"), cache)
	}
	return current
}

// number reads a file with one number; ok is false if it holds "max" or is not there.
func number(path string) (n int64, ok bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err = strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil
}

// field reads the number of one of a file's "name number" lines, colons and units
// aside; 0 if there is none.
func field(path, name string) int64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.TrimSuffix(fields[0], ":") != name {
			continue
		}
		if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
			return n
		}
	}
	return 0
}
