package runs_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/database/pgtest"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runs/runstest"
)

// witness is a cluster that notes in which order Jobs come to be, and how many
// are at work at a time.
type witness struct {
	*runstest.Cluster

	mu    sync.Mutex
	order []runs.ID
	most  int
}

func (c *witness) EnsureJob(ctx context.Context, run runs.Run, job *batchv1.Job) (*batchv1.Job, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.JobsCreated(run.ID)
	made, err := c.Cluster.EnsureJob(ctx, run, job)
	if c.JobsCreated(run.ID) > before {
		c.order = append(c.order, run.ID)
	}
	c.most = max(c.most, c.atWork())
	return made, err
}

// atWork counts the Jobs that have not ended.
func (c *witness) atWork() int {
	n := 0
	for _, id := range c.order {
		if job := c.Job(id); job != nil && len(job.Status.Conditions) == 0 {
			n++
		}
	}
	return n
}

// TestReplicas lets three replicas, each with its own connections, work through a
// queue: every run has one Job, in the order in which they came, and never are
// more at work than may be.
func TestReplicas(t *testing.T) {
	t.Parallel()
	const replicas, slots, n = 3, 5, 30
	for name, open := range map[string]func(*testing.T) [replicas]runs.Store{
		"sqlite": func(t *testing.T) [replicas]runs.Store {
			t.Helper()
			s := sqliteStore(t) // one process, one handle
			return [replicas]runs.Store{s, s, s}
		},
		"postgres": func(t *testing.T) [replicas]runs.Store {
			t.Helper()
			address := pgtest.Start(t).Database(t)
			return [replicas]runs.Store{sqlStore(t, address), sqlStore(t, address), sqlStore(t, address)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stores := open(t)
			w := newWorld(stores[0])
			cluster := &witness{Cluster: w.cluster}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var group sync.WaitGroup
			defer group.Wait()
			defer stop()
			var engines []*runs.Engine
			for _, s := range stores {
				e := w.engine(t, func(c *runs.Config) {
					c.Store, c.Cluster, c.MaxConcurrent, c.SweepInterval, c.Now = s, cluster, slots, 5*time.Millisecond, time.Now
				})
				engines = append(engines, e)
				group.Go(func() {
					if err := e.Run(ctx); err != nil {
						t.Error(err)
					}
				})
			}
			var want []runs.ID
			for i := range n {
				want = append(want, begin(t, engines[i%replicas], fmt.Sprint("env", i)).ID)
			}
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for busy := true; busy; {
				select {
				case <-t.Context().Done():
					t.Fatal("the queue does not empty")
				case <-tick.C:
				}
				counts, err := stores[0].Count(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if got := counts[api.StatusRunning]; got > slots {
					t.Fatalf("%d runs at a time, want at most %d", got, slots)
				}
				busy = counts[api.StatusSucceeded] < n
				for _, id := range want {
					work(t, w, id, func() { w.cluster.Finish(id, 0, succeeded) })
				}
			}
			stop()
			group.Wait()
			if cluster.most > slots {
				t.Errorf("%d Jobs at a time, want at most %d", cluster.most, slots)
			}
			if diff := cmp.Diff(want, cluster.order); diff != "" {
				t.Errorf("Jobs by age (-want +got):\n%s", diff)
			}
			for _, id := range want {
				if got := w.cluster.JobsCreated(id); got != 1 {
					t.Errorf("run %s had %d Jobs", id, got)
				}
				events, err := stores[0].Events(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				ends := slices.DeleteFunc(events, func(e api.Event) bool { return !runs.Final(e.Status) })
				if len(ends) != 1 {
					t.Errorf("run %s ended %d times", id, len(ends))
				}
			}
		})
	}
}

// TestALateRowTakesNoSlotTwice inserts a run whose id is older than one
// that a replica is about to launch: ids are made before rows are stored.
func TestALateRowTakesNoSlotTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(sqliteStore(t))
	var once sync.Once
	other := w.engine(t, func(c *runs.Config) { c.MaxConcurrent = 1 })
	var late runs.Run
	e := w.engine(t, func(c *runs.Config) {
		c.MaxConcurrent = 1
		c.Store = between{w.store, func() {
			once.Do(func() {
				if err := w.store.Insert(t.Context(), late); err != nil {
					t.Error(err)
				}
				other.Sweep(t.Context())
			})
		}}
	})
	late = runs.Run{
		ID: "00000000-0000-7000-8000-000000000000", Operation: api.OperationApply, Name: "late", Environment: "late", CreatedAt: w.clock(), UpdatedAt: w.clock(),
		Status: api.StatusQueued, Phase: api.PhaseWaitingForSlot, Message: "waiting", Version: 1,
	}
	first := begin(t, e, "first")
	e.Sweep(t.Context())
	if a, b := w.get(t, first.ID).Status, w.get(t, late.ID).Status; a != api.StatusQueued || b != api.StatusRunning {
		t.Errorf("%s and %s with one slot, want queued and running", a, b)
	}
}

// between does something after the queue was read.
type between struct {
	runs.Store
	meanwhile func()
}

func (s between) Unfinished(ctx context.Context) ([]runs.Run, error) {
	list, err := s.Store.Unfinished(ctx)
	s.meanwhile()
	return list, err
}
