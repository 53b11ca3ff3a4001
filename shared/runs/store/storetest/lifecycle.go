//nolint:thelper // its functions are tests, not helpers: the line of a failure must be theirs
package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runs"
)

func withKey(t *testing.T, environment, caller, key string) runs.Run {
	t.Helper()
	run := NewRun(t, environment)
	run.RequestedBy, run.IdempotencyKey, run.RequestDigest = caller, key, []byte("digest")
	return run
}

func keys(t *testing.T, s runs.Store) {
	first := withKey(t, "a", "me", "k")
	if err := s.Insert(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	busy, isBusy := errors.AsType[*runs.BusyError](s.Insert(t.Context(), withKey(t, "a", "me", "k")))
	if !isBusy || busy.Holder != first.ID {
		t.Errorf("the same key and environment: got %v, want a BusyError", busy)
	}
	err := s.Insert(t.Context(), withKey(t, "b", "me", "k"))
	if _, isBusy := errors.AsType[*runs.BusyError](err); isBusy || !errors.Is(err, runs.ErrConflict) {
		t.Errorf("the same key: got %v, want a plain conflict", err)
	}
	for _, other := range []runs.Run{withKey(t, "c", "you", "k"), withKey(t, "d", "me", "K"), withKey(t, "e", "me", ""), withKey(t, "f", "me", "")} {
		if err := s.Insert(t.Context(), other); err != nil {
			t.Errorf("%s's key %q: %v", other.RequestedBy, other.IdempotencyKey, err)
		}
	}
	move(t, s, get(t, s, first.ID), api.StatusRunning, api.StatusSucceeded)
	if err := s.Insert(t.Context(), withKey(t, "a", "me", "k")); !errors.Is(err, runs.ErrConflict) {
		t.Errorf("the key of an ended run: got %v, want a conflict", err)
	}
	found, err := s.ByKey(t.Context(), "me", "k")
	if err != nil || found.ID != first.ID || string(found.RequestDigest) != "digest" || found.Status != api.StatusSucceeded {
		t.Errorf("by key: %+v, %v", found, err)
	}
}

func keyRace(t *testing.T, s runs.Store) {
	const n = 8
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		run := withKey(t, fmt.Sprint("env", i), "me", "k")
		group.Go(func() { errs[i] = s.Insert(t.Context(), run) })
	}
	group.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, runs.ErrConflict) {
			t.Errorf("got %v, want a conflict", err)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d inserts won", won, n)
	}
}

func events(t *testing.T, s runs.Store) {
	run := insert(t, s, "acme")
	other := insert(t, s, "other")
	want := []api.Event{{At: run.CreatedAt, Status: api.StatusQueued, Phase: run.Phase, Message: run.Message, By: run.RequestedBy}}
	run.Status, run.StartedAt = api.StatusRunning, run.CreatedAt
	step := api.Event{At: run.CreatedAt.Add(time.Second), Status: api.StatusRunning, Phase: api.PhaseApply, Message: "ümläut", ErrorCode: "odd", By: "me"}
	run, err := s.Update(t.Context(), run, &step)
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, step)
	run.Message = "nothing to tell"
	if run, err = s.Update(t.Context(), run, nil); err != nil {
		t.Fatal(err)
	}
	stale := run
	stale.Version--
	if _, err := s.Update(t.Context(), stale, &step); !errors.Is(err, runs.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	broken := run
	broken.Progress.Done = -1
	if _, err := s.Update(t.Context(), broken, &step); !errors.Is(err, runs.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	got, err := s.Events(t.Context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if got, err := s.Events(t.Context(), other.ID); err != nil || len(got) != 1 {
		t.Errorf("of another run: %v, %v", got, err)
	}
}

func claims(t *testing.T, s runs.Store) {
	first, second := insert(t, s, "a"), insert(t, s, "b")
	at := first.CreatedAt.Add(time.Second)
	claimed, err := s.Claim(t.Context(), first, 1, at)
	if err != nil {
		t.Fatal(err)
	}
	first.ClaimedAt, first.Version = at, 2
	for what, got := range map[string]runs.Run{"the answer": claimed, "the row": get(t, s, first.ID)} {
		if diff := cmp.Diff(first, got, same, cmpopts.IgnoreFields(runs.Run{}, "QueuePosition")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	if _, err := s.Claim(t.Context(), second, 1, at); !errors.Is(err, runs.ErrNoSlot) {
		t.Errorf("got %v, want ErrNoSlot", err)
	}
	if _, err := s.Claim(t.Context(), claimed, 5, at); !errors.Is(err, runs.ErrConflict) {
		t.Errorf("claimed twice: %v", err)
	}
	stale := second
	second.Message = "changed"
	if second, err = s.Update(t.Context(), second, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), stale, 5, at); !errors.Is(err, runs.ErrConflict) {
		t.Errorf("a stale claim: %v", err)
	}
	first = move(t, s, claimed, api.StatusRunning)
	if first.ClaimedAt.IsZero() {
		t.Error("the claim is forgotten")
	}
	if _, err := s.Claim(t.Context(), second, 1, at); !errors.Is(err, runs.ErrNoSlot) {
		t.Errorf("while one runs: %v", err)
	}
	first = move(t, s, first, api.StatusCancelling)
	if _, err := s.Claim(t.Context(), second, 1, at); !errors.Is(err, runs.ErrNoSlot) {
		t.Errorf("while one is being cancelled: %v", err)
	}
	move(t, s, first, api.StatusCancelled)
	if _, err := s.Claim(t.Context(), second, 1, at); err != nil {
		t.Errorf("with a free slot: %v", err)
	}
}

func claimRace(t *testing.T, s runs.Store) {
	const n, slots = 8, 3
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		run := insert(t, s, fmt.Sprint("env", i))
		group.Go(func() { _, errs[i] = s.Claim(t.Context(), run, slots, run.CreatedAt) })
	}
	group.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, runs.ErrNoSlot) {
			t.Errorf("got %v, want ErrNoSlot", err)
		}
	}
	if won != slots {
		t.Errorf("%d claims won, want %d", won, slots)
	}
}

func count(t *testing.T, s runs.Store) {
	insert(t, s, "a")
	insert(t, s, "b")
	move(t, s, insert(t, s, "c"), api.StatusRunning)
	move(t, s, insert(t, s, "d"), api.StatusFailed)
	got, err := s.Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[api.Status]int{api.StatusQueued: 2, api.StatusRunning: 1, api.StatusFailed: 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("count (-want +got):\n%s", diff)
	}
}
