package runs_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runs/runstest"
)

func keyed(environment, caller, key, digest string) runs.NewRun {
	req := request(environment)
	req.RequestedBy, req.IdempotencyKey, req.RequestDigest = caller, key, []byte(digest)
	return req
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t)
	first, replayed, err := e.Start(t.Context(), keyed("acme", "me", "k", "d"))
	if err != nil || replayed {
		t.Fatalf("replayed %t, %v", replayed, err)
	}
	same := func(when string) {
		t.Helper()
		for what, start := range map[string]func() (runs.Run, bool, error){
			"start":  func() (runs.Run, bool, error) { return e.Start(t.Context(), keyed("acme", "me", "k", "d")) },
			"replay": func() (runs.Run, bool, error) { return e.Replay(t.Context(), "me", "k", []byte("d")) },
		} {
			if got, replayed, err := start(); err != nil || !replayed || got.ID != first.ID {
				t.Errorf("%s, %s: got %s, replayed %t, %v", when, what, got.ID, replayed, err)
			}
		}
	}
	same("queued")
	cancel(t, e, first.ID)
	same("cancelled")
	if got, _, _ := e.Replay(t.Context(), "me", "k", []byte("d")); got.Status != api.StatusCancelled {
		t.Errorf("a replay gives the run as it was: %s", got.Status)
	}

	if _, _, err := e.Start(t.Context(), keyed("acme", "me", "k", "other")); !errors.Is(err, runs.ErrKeyReused) {
		t.Errorf("another request: %v", err)
	}
	if _, _, err := e.Replay(t.Context(), "me", "k", []byte("other")); !errors.Is(err, runs.ErrKeyReused) {
		t.Errorf("another request: %v", err)
	}
	if _, replayed, err := e.Replay(t.Context(), "me", "unused", nil); err != nil || replayed {
		t.Errorf("a key that was not used: %t, %v", replayed, err)
	}
	if _, replayed, err := e.Replay(t.Context(), "me", "", nil); err != nil || replayed {
		t.Errorf("no key: %t, %v", replayed, err)
	}
	other, replayed, err := e.Start(t.Context(), keyed("acme", "you", "k", "d"))
	if err != nil || replayed || other.ID == first.ID {
		t.Errorf("another caller's: replayed %t, %v", replayed, err)
	}
}

// TestOneRequestSentManyTimes lets the same request come to several replicas at once.
func TestOneRequestSentManyTimes(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) runs.Store{
		"memory": func(*testing.T) runs.Store { return runstest.NewStore() },
		"sqlite": sqliteStore,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(open(t))
			const n = 8
			var group sync.WaitGroup
			got := make([]runs.Run, n)
			fresh := make([]bool, n)
			for i := range n {
				e := w.engine(t)
				group.Go(func() {
					run, replayed, err := e.Start(t.Context(), keyed("acme", "me", "k", "d"))
					if err != nil {
						t.Error(err)
					}
					got[i], fresh[i] = run, !replayed
				})
			}
			group.Wait()
			first := 0
			for i := range n {
				if got[i].ID != got[0].ID {
					t.Errorf("two runs: %s and %s", got[0].ID, got[i].ID)
				}
				if fresh[i] {
					first++
				}
			}
			if list, err := w.cluster.Credentials(t.Context()); err != nil || len(list) != 1 || first != 1 {
				t.Errorf("%d starts of %d are not replays; credentials %v (%v)", first, n, list, err)
			}
		})
	}
}

// overtaken lets the same request come first, right after its key was looked for.
type overtaken struct {
	runs.Store
	first func()
}

func (s overtaken) ByKey(ctx context.Context, requestedBy, key string) (runs.Run, error) {
	run, err := s.Store.ByKey(ctx, requestedBy, key)
	s.first()
	return run, err
}

func TestARequestIsOvertakenByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	var once sync.Once
	var first runs.Run
	e := w.engine(t, func(c *runs.Config) {
		c.Store = overtaken{w.store, func() {
			once.Do(func() {
				var err error
				if first, _, err = w.engine(t).Start(t.Context(), keyed("acme", "me", "k", "d")); err != nil {
					t.Error(err)
				}
			})
		}}
	})
	if got, replayed, err := e.Start(t.Context(), keyed("acme", "me", "k", "d")); err != nil || !replayed || got.ID != first.ID {
		t.Errorf("got %s, replayed %t, %v", got.ID, replayed, err)
	}
}

func TestManyRequestsWithOneKey(t *testing.T) {
	t.Parallel()
	w := newWorld(sqliteStore(t))
	const n = 6
	var group sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		e := w.engine(t)
		group.Go(func() {
			_, _, errs[i] = e.Start(t.Context(), keyed(fmt.Sprint("env", i), "me", "k", fmt.Sprint("d", i)))
		})
	}
	group.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, runs.ErrKeyReused) {
			t.Errorf("got %v, want ErrKeyReused", err)
		}
	}
	if list, err := w.cluster.Credentials(t.Context()); err != nil || len(list) != 1 || won != 1 {
		t.Errorf("%d won; credentials %v (%v)", won, list, err)
	}
}
