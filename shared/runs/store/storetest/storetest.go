//nolint:thelper // its functions are tests, not helpers: the line of a failure must be theirs
package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runs"
)

// Run checks a Store; open gives an empty one that lives as long as its t.
func Run(t *testing.T, open func(t *testing.T) runs.Store) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*testing.T, runs.Store)
	}{
		{"a run comes back as it was stored", roundTrip},
		{"text that a database cannot hold is cleaned", cleanText},
		{"an environment has one live run", oneLive},
		{"of many inserts at once one wins", insertRace},
		{"an id is used once", duplicateID},
		{"updates compare and set", compareAndSet},
		{"of many updates at once one wins", updateRace},
		{"only moves of the table are stored", tableOnly},
		{"what has ended does not change", finalStays},
		{"broken rules are conflicts", rules},
		{"queue positions count the queued", queue},
		{"lists are filtered, newest first", list},
		{"unfinished and uncleaned runs", sweeps},
		{"a caller's key stands for one run", keys},
		{"of many inserts with one key one wins", keyRace},
		{"a timeline is stored with what it tells", events},
		{"slots are claimed one by one", claims},
		{"of many claims at once as many win as there are slots", claimRace},
		{"runs are counted by status", count},
		{"known ids", known},
		{"logs", logs},
		{"what is not there is not found", notFound},
		{"ping", ping},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, open(t))
		})
	}
}

// NewRun is a queued run of an environment, ready to be inserted.
func NewRun(tb testing.TB, environment string) runs.Run {
	tb.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		tb.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	return runs.Run{
		ID: runs.ID(id.String()), Operation: api.OperationApply, Name: environment, Environment: environment, RequestedBy: "tests",
		Inputs: json.RawMessage(`{"region": "eu-west-1", "count": 3}`), CreatedAt: now,
		Status: api.StatusQueued, Phase: api.PhaseWaitingForSlot, Message: "waiting", UpdatedAt: now, Version: 1,
	}
}

func insert(t *testing.T, s runs.Store, environment string) runs.Run {
	t.Helper()
	run := NewRun(t, environment)
	if err := s.Insert(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	return run
}

// move stores a run with another status, along the table.
func move(t *testing.T, s runs.Store, run runs.Run, to ...api.Status) runs.Run {
	t.Helper()
	for _, status := range to {
		run.Status = status
		run.UpdatedAt = run.UpdatedAt.Add(time.Second)
		if run.StartedAt.IsZero() {
			run.StartedAt = run.UpdatedAt
		}
		if runs.Final(status) {
			run.FinishedAt = run.UpdatedAt
		}
		if status == api.StatusFailed {
			run.ErrorCode, run.Message = "why", "because"
		}
		if status == api.StatusCancelling || status == api.StatusCancelled {
			run.CancelRequestedAt = run.UpdatedAt
		}
		var err error
		if run, err = s.Update(t.Context(), run, nil); err != nil {
			t.Fatalf("to %s: %v", status, err)
		}
	}
	return run
}

func get(t *testing.T, s runs.Store, id runs.ID) runs.Run {
	t.Helper()
	run, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// same compares runs; Inputs as JSON, since a database may write it anew.
var same = cmp.Options{
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Inputs" }, cmp.Comparer(func(a, b json.RawMessage) bool {
		var x, y any
		if len(a) == 0 || len(b) == 0 {
			return len(a) == len(b)
		}
		return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && cmp.Equal(x, y)
	})),
	cmpopts.EquateEmpty(),
}

func roundTrip(t *testing.T, s runs.Store) {
	run := NewRun(t, "acme")
	run.IdempotencyKey, run.RequestDigest = "a key", []byte{0, 1, 0xff}
	if err := s.Insert(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	run.QueuePosition = 1
	if diff := cmp.Diff(run, get(t, s, run.ID), same); diff != "" {
		t.Errorf("after insert (-want +got):\n%s", diff)
	}
	run.Status, run.Phase, run.Message, run.ErrorCode = api.StatusRunning, api.PhaseApply, "ümläut and 漢字", "odd"
	run.Progress = api.Progress{Done: 3, Total: 14, Current: `module.eks["a"].aws_eks_cluster.this`}
	run.StartedAt, run.UpdatedAt = run.CreatedAt.Add(time.Second), run.CreatedAt.Add(2*time.Second+1234*time.Microsecond)
	run.CancelRequestedAt, run.CancelledBy = run.CreatedAt.Add(time.Minute), "somebody"
	run.Details = runs.Details{
		Nodes:   []api.Node{{Name: "control-plane-0", State: api.NodeJoined}, {Name: "worker-0", State: api.NodeFailed, Message: "no \"disk\""}},
		Changes: &api.Changes{Add: 3},
		Lock:    &api.StateLock{ID: "lock", Who: "me@pod", Created: run.CreatedAt},
	}
	run.QueuePosition = 0
	stored, err := s.Update(t.Context(), run, nil)
	if err != nil {
		t.Fatal(err)
	}
	run.Version++
	for what, got := range map[string]runs.Run{"answer of update": stored, "after update": get(t, s, run.ID)} {
		if diff := cmp.Diff(run, got, same); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		if got.UpdatedAt.Location() != time.UTC {
			t.Errorf("%s: time in %v", what, got.UpdatedAt.Location())
		}
	}
	bare := NewRun(t, "bare")
	bare.Inputs = nil
	if err := s.Insert(t.Context(), bare); err != nil {
		t.Fatal(err)
	}
	if got := get(t, s, bare.ID).Inputs; len(got) != 0 {
		t.Errorf("no inputs became %s", got)
	}
}

func cleanText(t *testing.T, s runs.Store) {
	run := insert(t, s, "acme")
	run.Message = "it's 100%; DROP TABLE ? -- \x00\xff \\"
	run.ErrorCode = "\x00"
	if _, err := s.Update(t.Context(), run, nil); err != nil {
		t.Fatal(err)
	}
	got := get(t, s, run.ID).Message
	if want := "it's 100%; DROP TABLE ? -- \uFFFD \\"; got != want && got != run.Message {
		t.Errorf("got %q, want %q", got, want)
	}
}

func oneLive(t *testing.T, s runs.Store) {
	first := insert(t, s, "acme")
	refuse := func(when string) {
		t.Helper()
		err := s.Insert(t.Context(), NewRun(t, "acme"))
		busy, ok := errors.AsType[*runs.BusyError](err)
		if !ok {
			t.Fatalf("%s: got %v, want a BusyError", when, err)
		}
		if busy.Holder != first.ID || busy.Environment != "acme" || !errors.Is(err, runs.ErrConflict) {
			t.Errorf("%s: got %+v", when, busy)
		}
	}
	refuse("queued")
	insert(t, s, "other")
	first = move(t, s, first, api.StatusRunning)
	refuse("running")
	first = move(t, s, first, api.StatusCancelling)
	refuse("cancelling")
	move(t, s, first, api.StatusCancelled)
	insert(t, s, "acme")
}

func insertRace(t *testing.T, s runs.Store) {
	const n = 8
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		run := NewRun(t, "acme")
		group.Go(func() { errs[i] = s.Insert(t.Context(), run) })
	}
	group.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if _, ok := errors.AsType[*runs.BusyError](err); !ok {
			t.Errorf("got %v, want a BusyError", err)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d inserts won", won, n)
	}
}

func duplicateID(t *testing.T, s runs.Store) {
	run := insert(t, s, "acme")
	again := run
	again.Environment = "other"
	if err := s.Insert(t.Context(), again); !errors.Is(err, runs.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
}

func compareAndSet(t *testing.T, s runs.Store) {
	stale := insert(t, s, "acme")
	run := move(t, s, stale, api.StatusRunning)
	if run.Version != 2 {
		t.Errorf("version %d, want 2", run.Version)
	}
	stale.Message = "from a stale read"
	if _, err := s.Update(t.Context(), stale, nil); !errors.Is(err, runs.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	run.Message = "from a fresh one"
	if _, err := s.Update(t.Context(), run, nil); err != nil {
		t.Error(err)
	}
	if got := get(t, s, run.ID); got.Message != run.Message || got.Version != 3 {
		t.Errorf("got %+v", got)
	}
}

func updateRace(t *testing.T, s runs.Store) {
	run := insert(t, s, "acme")
	const n = 8
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		mine := run
		mine.Message = fmt.Sprint("writer ", i)
		group.Go(func() { _, errs[i] = s.Update(t.Context(), mine, nil) })
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
	if got := get(t, s, run.ID); won != 1 || got.Version != 2 {
		t.Errorf("%d of %d updates won, version %d", won, n, got.Version)
	}
}

func tableOnly(t *testing.T, s runs.Store) {
	for _, from := range runs.Statuses() {
		for _, to := range runs.Statuses() {
			run := insert(t, s, string(from)+"-"+string(to))
			path := map[api.Status][]api.Status{
				api.StatusRunning: {api.StatusRunning}, api.StatusCancelling: {api.StatusRunning, api.StatusCancelling},
				api.StatusSucceeded: {api.StatusRunning, api.StatusSucceeded}, api.StatusFailed: {api.StatusFailed}, api.StatusCancelled: {api.StatusCancelled},
			}
			run = move(t, s, run, path[from]...)
			next := run
			next.Status, next.ErrorCode = to, "why"
			next.StartedAt, next.FinishedAt, next.CancelRequestedAt = run.CreatedAt, time.Time{}, run.CreatedAt
			if runs.Final(to) {
				next.FinishedAt = run.CreatedAt
			}
			_, err := s.Update(t.Context(), next, nil)
			if allowed := slices.Contains(runs.Predecessors(to), from); allowed && err != nil || !allowed && !errors.Is(err, runs.ErrConflict) {
				t.Errorf("%s to %s (allowed %t): %v", from, to, allowed, err)
			}
		}
	}
}

func finalStays(t *testing.T, s runs.Store) {
	run := move(t, s, insert(t, s, "acme"), api.StatusRunning, api.StatusFailed)
	changed := run
	changed.Message = "something else"
	if _, err := s.Update(t.Context(), changed, nil); !errors.Is(err, runs.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	for range 2 {
		if err := s.MarkCleaned(t.Context(), run.ID); err != nil {
			t.Fatal(err)
		}
	}
	run.Cleaned = true
	if diff := cmp.Diff(run, get(t, s, run.ID), same); diff != "" {
		t.Errorf("after cleaning (-want +got):\n%s", diff)
	}
	live := insert(t, s, "other")
	if err := s.MarkCleaned(t.Context(), live.ID); !errors.Is(err, runs.ErrConflict) {
		t.Errorf("a live run was cleaned: %v", err)
	}
}

func rules(t *testing.T, s runs.Store) {
	for name, edit := range map[string]func(*runs.Run){
		"running without a start":         func(r *runs.Run) { r.Status = api.StatusRunning },
		"failed without an end":           func(r *runs.Run) { r.Status, r.ErrorCode = api.StatusFailed, "why" },
		"failed without a reason":         func(r *runs.Run) { r.Status, r.FinishedAt = api.StatusFailed, r.CreatedAt },
		"cancelled without being asked":   func(r *runs.Run) { r.Status, r.FinishedAt = api.StatusCancelled, r.CreatedAt },
		"queued with an end":              func(r *runs.Run) { r.FinishedAt = r.CreatedAt },
		"a progress of less than nothing": func(r *runs.Run) { r.Progress.Done = -1 },
	} {
		run := insert(t, s, "env")
		bad := run
		edit(&bad)
		if _, err := s.Update(t.Context(), bad, nil); !errors.Is(err, runs.ErrConflict) {
			t.Errorf("%s: got %v, want a conflict", name, err)
		}
		if got := get(t, s, run.ID); got.Version != 1 {
			t.Errorf("%s: was stored", name)
		}
		move(t, s, run, api.StatusCancelled)
	}
}

func queue(t *testing.T, s runs.Store) {
	first, second, third := insert(t, s, "a"), insert(t, s, "b"), insert(t, s, "c")
	check := func(want map[runs.ID]int) {
		t.Helper()
		listed, err := s.List(t.Context(), runs.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		unfinished, err := s.Unfinished(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, all := range [][]runs.Run{listed, unfinished} {
			got := map[runs.ID]int{}
			for _, run := range all {
				got[run.ID] = run.QueuePosition
				if one := get(t, s, run.ID).QueuePosition; one != run.QueuePosition {
					t.Errorf("position %d alone, %d in a list", one, run.QueuePosition)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("positions (-want +got):\n%s", diff)
			}
		}
	}
	check(map[runs.ID]int{first.ID: 1, second.ID: 2, third.ID: 3})
	move(t, s, first, api.StatusRunning)
	check(map[runs.ID]int{first.ID: 0, second.ID: 1, third.ID: 2})
}

func list(t *testing.T, s runs.Store) {
	var ids []runs.ID // newest first
	var times []time.Time
	for i := range 5 {
		run := NewRun(t, fmt.Sprint("env", i%2))
		run.CreatedAt = time.Date(2026, 5, 4, 3, 0, 0, 1000*i, time.UTC)
		if err := s.Insert(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		times = slices.Insert(times, 0, run.CreatedAt)
		run = move(t, s, run, api.StatusRunning)
		if i != 4 {
			move(t, s, run, api.StatusSucceeded)
		}
		ids = slices.Insert(ids, 0, run.ID)
	}
	for _, test := range []struct {
		name string
		f    runs.Filter
		want []runs.ID
	}{
		{"all", runs.Filter{}, ids},
		{"a limit", runs.Filter{Limit: 2}, ids[:2]},
		{"the page after", runs.Filter{Limit: 2, Before: ids[1]}, ids[2:4]},
		{"the last page", runs.Filter{Limit: 2, Before: ids[3]}, ids[4:]},
		{"beyond", runs.Filter{Before: ids[4]}, nil},
		{"an environment", runs.Filter{Environment: "env1"}, []runs.ID{ids[1], ids[3]}},
		{"an operation", runs.Filter{Operation: api.OperationApply}, ids},
		{"another operation", runs.Filter{Operation: api.OperationPlan}, nil},
		{"from a time on", runs.Filter{CreatedAfter: times[1]}, ids[:2]},
		{"before a time", runs.Filter{CreatedBefore: times[1].In(time.FixedZone("east", 3600))}, ids[2:]},
		{"between times", runs.Filter{CreatedAfter: times[3], CreatedBefore: times[2]}, ids[3:4]},
		{"from before all times on", runs.Filter{CreatedAfter: time.Date(0, 1, 1, 0, 0, 0, 0, time.FixedZone("east", 3600))}, ids},
		{"before a time after all", runs.Filter{CreatedBefore: time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("west", -3600))}, ids},
		{"a status", runs.Filter{Status: api.StatusRunning}, ids[:1]},
		{"both", runs.Filter{Status: api.StatusSucceeded, Environment: "env0"}, []runs.ID{ids[2], ids[4]}},
		{"none", runs.Filter{Environment: "nobody's"}, nil},
		{"more than the limit", runs.Filter{Limit: 100000}, ids},
	} {
		listed, err := s.List(t.Context(), test.f)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, idsOf(listed), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func sweeps(t *testing.T, s runs.Store) {
	queued := insert(t, s, "queued")
	running := move(t, s, insert(t, s, "running"), api.StatusRunning)
	cancelling := move(t, s, insert(t, s, "cancelling"), api.StatusRunning, api.StatusCancelling)
	failed := move(t, s, insert(t, s, "failed"), api.StatusFailed)
	succeeded := move(t, s, insert(t, s, "succeeded"), api.StatusRunning, api.StatusSucceeded)

	unfinished, err := s.Unfinished(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]runs.ID{queued.ID, running.ID, cancelling.ID}, idsOf(unfinished)); diff != "" {
		t.Errorf("unfinished (-want +got):\n%s", diff)
	}
	uncleaned := func(limit int) []runs.ID {
		t.Helper()
		list, err := s.Uncleaned(t.Context(), limit)
		if err != nil {
			t.Fatal(err)
		}
		return idsOf(list)
	}
	if diff := cmp.Diff([]runs.ID{failed.ID, succeeded.ID}, uncleaned(10)); diff != "" {
		t.Errorf("uncleaned (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]runs.ID{failed.ID}, uncleaned(1)); diff != "" {
		t.Errorf("uncleaned, at most one (-want +got):\n%s", diff)
	}
	if err := s.MarkCleaned(t.Context(), failed.ID); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]runs.ID{succeeded.ID}, uncleaned(10)); diff != "" {
		t.Errorf("uncleaned, after one was (-want +got):\n%s", diff)
	}
}

func known(t *testing.T, s runs.Store) {
	run := insert(t, s, "acme")
	got, err := s.Known(t.Context(), []runs.ID{"0198a5ce-0000-7000-8000-000000000000", run.ID})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[runs.ID]bool{run.ID: true}, got); diff != "" {
		t.Errorf("known (-want +got):\n%s", diff)
	}
	if got, err := s.Known(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("none asked: %v, %v", got, err)
	}
}

func logs(t *testing.T, s runs.Store) {
	run := insert(t, s, "acme")
	if _, err := s.Log(t.Context(), run.ID); !errors.Is(err, runs.ErrNoLogs) {
		t.Errorf("got %v, want ErrNoLogs", err)
	}
	for _, want := range []runs.ArchivedLog{
		{Gzip: []byte{0x1f, 0x8b, 0, 0xff}, Bytes: 12, SavedAt: run.CreatedAt},
		{Gzip: []byte("another"), Bytes: 99, Truncated: true, SavedAt: run.CreatedAt.Add(time.Minute)},
		{Gzip: []byte("the same again"), Bytes: 99, SavedAt: run.CreatedAt},
	} {
		if err := s.SaveLog(t.Context(), run.ID, want); err != nil {
			t.Fatal(err)
		}
		got, err := s.Log(t.Context(), run.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	}
	if err := s.SaveLog(t.Context(), run.ID, runs.ArchivedLog{Gzip: []byte("less"), Bytes: 98, SavedAt: run.CreatedAt}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Log(t.Context(), run.ID); err != nil || got.Bytes != 99 {
		t.Errorf("a shorter log replaced a longer one: %+v, %v", got, err)
	}
	if err := s.SaveLog(t.Context(), "nobody", runs.ArchivedLog{SavedAt: run.CreatedAt, Gzip: []byte{}}); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("log of no run: got %v, want ErrNotFound", err)
	}
}

func notFound(t *testing.T, s runs.Store) {
	if _, err := s.Get(t.Context(), "nobody"); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
	if _, err := s.Update(t.Context(), NewRun(t, "acme"), nil); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("update: %v", err)
	}
	if _, err := s.Claim(t.Context(), NewRun(t, "acme"), 1, time.Now()); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("claim: %v", err)
	}
	if _, err := s.ByKey(t.Context(), "tests", "nobody's"); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("by key: %v", err)
	}
	insert(t, s, "acme") // without a key
	if _, err := s.ByKey(t.Context(), "tests", ""); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("by no key: %v", err)
	}
	if events, err := s.Events(t.Context(), "nobody"); err != nil || len(events) != 0 {
		t.Errorf("events: %v, %v", events, err)
	}
	if err := s.MarkCleaned(t.Context(), "nobody"); !errors.Is(err, runs.ErrNotFound) {
		t.Errorf("mark: %v", err)
	}
}

func ping(t *testing.T, s runs.Store) {
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func idsOf(list []runs.Run) []runs.ID {
	var ids []runs.ID
	for _, run := range list {
		ids = append(ids, run.ID)
	}
	return ids
}
