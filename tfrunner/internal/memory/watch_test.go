package memory

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// container is a cgroup folder and a /proc with what the watch reads of them.
type container struct{ cgroups, proc string }

func newContainer(t *testing.T) container {
	t.Helper()
	dir := t.TempDir()
	c := container{filepath.Join(dir, "cgroup"), filepath.Join(dir, "proc")}
	c.write(t, "proc/self/cgroup", "0::/\n")
	return c
}

func (c container) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(filepath.Dir(c.proc), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (c container) use(t *testing.T, group string, current, cache int64) {
	t.Helper()
	c.write(t, filepath.Join("cgroup", group, "memory.current"), fmt.Sprintln(current))
	c.write(t, filepath.Join("cgroup", group, "memory.stat"), fmt.Sprintf("anon 1\nfile 2\nactive_file %d\ninactive_file %d\n", cache/2, cache-cache/2))
}

const mib = 1 << 20

func TestNew_whose_limit_counts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, stated, enforced string
		limit                  int64
		cgroup                 bool
		refused                bool
	}{
		{"a container of Kubernetes", "1073741824", "1073741824\n", 1 << 30, true, false},
		{"rounded to pages", "1073741825", "1073741824\n", 1 << 30, true, false},
		{"a cgroup that others are in too", "1073741824", "8589934592\n", 1 << 30, false, false},
		{"a cgroup without a limit", "1073741824", "max\n", 1 << 30, false, false},
		{"no cgroup", "1073741824", "", 1 << 30, false, false},
		{"only the cgroup says", "", "1073741824\n", 1 << 30, true, false},
		{"no limit at all", "", "max\n", 0, false, false},
		{"no number", "2Gi", "max\n", 0, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newContainer(t)
			if tt.enforced != "" {
				c.write(t, "cgroup/memory.max", tt.enforced)
			}
			w, err := newWatch(tt.stated, c.cgroups, c.proc, os.Getpid())
			if (err != nil) != tt.refused {
				t.Fatal(err)
			}
			if err == nil && (w.Limit() != tt.limit || (w.cgroup != "") != tt.cgroup) {
				t.Errorf("limit %d, want %d; cgroup %q", w.Limit(), tt.limit, w.cgroup)
			}
		})
	}
}

func TestRun_reports_once_what_cannot_be_taken_back(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"", "kubepods/pod1"} {
		t.Run("cgroup "+group, func(t *testing.T) {
			t.Parallel()
			c := newContainer(t)
			c.write(t, "proc/self/cgroup", "1:cpu:/elsewhere\n0::/"+group+"\n")
			c.write(t, filepath.Join("cgroup", group, "memory.max"), fmt.Sprintln(100*mib))
			c.use(t, group, 99*mib, 50*mib) // full of page cache
			synctest.Test(t, func(t *testing.T) {
				w, err := newWatch("", c.cgroups, c.proc, os.Getpid())
				if err != nil {
					t.Fatal(err)
				}
				var got []*ExceededError
				done := make(chan struct{})
				go func() {
					w.Run(t.Context(), func(e *ExceededError) { got = append(got, e) })
					close(done)
				}()
				<-time.After(time.Minute)
				synctest.Wait()
				if len(got) > 0 {
					t.Fatalf("reported %v", got[0])
				}
				c.use(t, group, 99*mib, 2*mib)
				<-done
				if len(got) != 1 || got[0].Used != 97*mib || got[0].Error() != "97 MiB of the pod's 100 MiB of memory are in use" {
					t.Errorf("reported %v", got)
				}
			})
		})
	}
}

func TestRun_ends_with_its_context(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report := func(e *ExceededError) { t.Errorf("reported %v", e) }
	w, err := newWatch(fmt.Sprint(int64(1)<<40), newContainer(t).cgroups, "/proc", os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	w.Run(ctx, report)
	new(Watch).Run(t.Context(), report)
}

func TestRun_without_a_cgroup_adds_up_the_process_tree(t *testing.T) {
	t.Parallel()
	w, err := newWatch(fmt.Sprint(1*mib), newContainer(t).cgroups, "/proc", os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var got *ExceededError
	w.Run(t.Context(), func(e *ExceededError) { got = e })
	if got == nil || got.Used < mib || got.Used > 1<<40 {
		t.Errorf("reported %v", got)
	}
}

func TestKilled(t *testing.T) {
	t.Parallel()
	c := newContainer(t)
	c.write(t, "cgroup/memory.max", fmt.Sprintln(100*mib))
	c.write(t, "cgroup/memory.events", "low 0\noom 3\noom_kill 2\n")
	w, err := newWatch("", c.cgroups, c.proc, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if w.Killed() || new(Watch).Killed() {
		t.Error("a kill before the watch began")
	}
	c.write(t, "cgroup/memory.events", "low 0\noom 4\noom_kill 3\n")
	if !w.Killed() {
		t.Error("the kill was not noticed")
	}
}
