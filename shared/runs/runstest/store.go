package runstest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runs"
)

// Store keeps runs in memory.
type Store struct {
	mu     sync.Mutex
	runs   map[runs.ID]runs.Run
	events map[runs.ID][]api.Event
	logs   map[runs.ID]runs.ArchivedLog
}

var _ runs.Store = (*Store)(nil)

// NewStore makes an empty Store.
func NewStore() *Store {
	return &Store{runs: map[runs.ID]runs.Run{}, events: map[runs.ID][]api.Event{}, logs: map[runs.ID]runs.ArchivedLog{}}
}

// Get gives one run.
func (s *Store) Get(_ context.Context, id runs.ID) (runs.Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	run, ok := s.runs[id]
	if !ok {
		return runs.Run{}, fmt.Errorf("run %s: %w", id, runs.ErrNotFound)
	}
	return s.read(run), nil
}

// ByKey gives the run of a caller's idempotency key.
func (s *Store) ByKey(_ context.Context, requestedBy, key string) (runs.Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if run, ok := s.byKey(requestedBy, key); ok {
		return s.read(run), nil
	}
	return runs.Run{}, fmt.Errorf("run of an idempotency key: %w", runs.ErrNotFound)
}

func (s *Store) byKey(requestedBy, key string) (runs.Run, bool) {
	for _, run := range s.runs {
		if key != "" && run.IdempotencyKey == key && run.RequestedBy == requestedBy {
			return run, true
		}
	}
	return runs.Run{}, false
}

// List gives runs, newest first.
func (s *Store) List(_ context.Context, f runs.Filter) ([]runs.Run, error) {
	list := s.pick(func(r runs.Run) bool {
		return (f.Status == "" || r.Status == f.Status) &&
			(f.Environment == "" || r.Environment == f.Environment) &&
			(f.Operation == "" || r.Operation == f.Operation) &&
			(f.CreatedAfter.IsZero() || !r.CreatedAt.Before(f.CreatedAfter)) &&
			(f.CreatedBefore.IsZero() || r.CreatedAt.Before(f.CreatedBefore)) &&
			(f.Before == "" || r.ID < f.Before)
	})
	slices.Reverse(list)
	limit := f.Limit
	if limit <= 0 {
		limit = 50
	}
	return list[:min(len(list), limit)], nil
}

// Unfinished gives live runs, oldest first.
func (s *Store) Unfinished(context.Context) ([]runs.Run, error) {
	return s.pick(func(r runs.Run) bool { return !runs.Final(r.Status) }), nil
}

// Uncleaned gives ended runs that are not cleaned, oldest first.
func (s *Store) Uncleaned(_ context.Context, limit int) ([]runs.Run, error) {
	list := s.pick(func(r runs.Run) bool { return runs.Final(r.Status) && !r.Cleaned })
	return list[:min(len(list), limit)], nil
}

// Events gives a run's timeline, oldest first.
func (s *Store) Events(_ context.Context, id runs.ID) ([]api.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events[id]), nil
}

// Count gives how many runs there are of each status.
func (s *Store) Count(context.Context) (map[api.Status]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[api.Status]int{}
	for _, run := range s.runs {
		counts[run.Status]++
	}
	return counts, nil
}

// Known gives the ids that have a row.
func (s *Store) Known(_ context.Context, ids []runs.ID) (map[runs.ID]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := map[runs.ID]bool{}
	for _, id := range ids {
		if _, ok := s.runs[id]; ok {
			known[id] = true
		}
	}
	return known, nil
}

// Insert adds a run.
func (s *Store) Insert(_ context.Context, run runs.Run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.runs[run.ID]; ok {
		return fmt.Errorf("run %s exists: %w", run.ID, runs.ErrConflict)
	}
	for _, other := range s.runs {
		if other.Environment == run.Environment && !runs.Final(other.Status) && !runs.Final(run.Status) {
			return &runs.BusyError{Environment: run.Environment, Holder: other.ID}
		}
	}
	if _, ok := s.byKey(run.RequestedBy, run.IdempotencyKey); ok {
		return fmt.Errorf("run %s: its idempotency key is used: %w", run.ID, runs.ErrConflict)
	}
	if err := check(run); err != nil {
		return err
	}
	run = copied(run)
	run.QueuePosition = 0
	s.events[run.ID] = []api.Event{{
		At: run.CreatedAt, Status: run.Status, Phase: run.Phase, Message: run.Message, ErrorCode: run.ErrorCode, By: run.RequestedBy,
	}}
	s.runs[run.ID] = run
	return nil
}

// Update changes a run.
func (s *Store) Update(_ context.Context, run runs.Run, event *api.Event) (runs.Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, ok := s.runs[run.ID]
	if !ok {
		return runs.Run{}, fmt.Errorf("run %s: %w", run.ID, runs.ErrNotFound)
	}
	if stored.Version != run.Version || !slices.Contains(runs.Predecessors(run.Status), stored.Status) {
		return runs.Run{}, fmt.Errorf("run %s has changed: %w", run.ID, runs.ErrConflict)
	}
	stored.Status, stored.Phase, stored.Message, stored.ErrorCode, stored.Progress = run.Status, run.Phase, run.Message, run.ErrorCode, run.Progress
	stored.StartedAt, stored.UpdatedAt, stored.FinishedAt = run.StartedAt, run.UpdatedAt, run.FinishedAt
	stored.CancelRequestedAt, stored.CancelledBy = run.CancelRequestedAt, run.CancelledBy
	stored.Details = copied(run).Details
	stored.Version++
	if err := check(stored); err != nil {
		return runs.Run{}, err
	}
	s.runs[run.ID] = stored
	if event != nil {
		s.events[run.ID] = append(s.events[run.ID], *event)
	}
	return s.read(stored), nil
}

// Claim gives a queued run a slot.
func (s *Store) Claim(_ context.Context, run runs.Run, slots int, at time.Time) (runs.Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := 0
	for _, other := range s.runs {
		if !runs.Final(other.Status) && (other.Status != api.StatusQueued || !other.ClaimedAt.IsZero()) {
			taken++
		}
	}
	stored, ok := s.runs[run.ID]
	switch {
	case taken >= slots:
		return runs.Run{}, fmt.Errorf("run %s: %w", run.ID, runs.ErrNoSlot)
	case !ok:
		return runs.Run{}, fmt.Errorf("run %s: %w", run.ID, runs.ErrNotFound)
	case stored.Version != run.Version || stored.Status != api.StatusQueued || !stored.ClaimedAt.IsZero():
		return runs.Run{}, fmt.Errorf("run %s has changed: %w", run.ID, runs.ErrConflict)
	}
	stored.ClaimedAt = at
	stored.Version++
	s.runs[run.ID] = stored
	return s.read(stored), nil
}

// copied is a run that shares no memory with the one given.
func copied(run runs.Run) runs.Run {
	run.Inputs, run.RequestDigest, run.Details.Nodes = slices.Clone(run.Inputs), slices.Clone(run.RequestDigest), slices.Clone(run.Details.Nodes)
	if run.Details.Changes != nil {
		run.Details.Changes = new(*run.Details.Changes)
	}
	if run.Details.Lock != nil {
		run.Details.Lock = new(*run.Details.Lock)
	}
	return run
}

// check is what the CHECKs of the real store are.
func check(run runs.Run) error {
	final := runs.Final(run.Status)
	switch {
	case run.StartedAt.IsZero() && run.Status != api.StatusQueued && run.Status != api.StatusFailed && run.Status != api.StatusCancelled,
		run.FinishedAt.IsZero() == final,
		run.Status == api.StatusFailed && run.ErrorCode == "",
		run.CancelRequestedAt.IsZero() && (run.Status == api.StatusCancelling || run.Status == api.StatusCancelled),
		run.Progress.Done < 0 || run.Progress.Total < 0:
		return fmt.Errorf("run %s breaks a rule: %w", run.ID, runs.ErrConflict)
	}
	return nil
}

// MarkCleaned sets Cleaned.
func (s *Store) MarkCleaned(_ context.Context, id runs.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	run, ok := s.runs[id]
	if !ok {
		return fmt.Errorf("run %s: %w", id, runs.ErrNotFound)
	}
	if !runs.Final(run.Status) {
		return fmt.Errorf("run %s is live: %w", id, runs.ErrConflict)
	}
	run.Cleaned = true
	s.runs[id] = run
	return nil
}

// Ping says that all is well.
func (s *Store) Ping(context.Context) error { return nil }

// SaveLog keeps a log, unless a longer one is there.
func (s *Store) SaveLog(_ context.Context, id runs.ID, log runs.ArchivedLog) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.runs[id]; !ok {
		return fmt.Errorf("run %s: %w", id, runs.ErrNotFound)
	}
	if s.logs[id].Bytes > log.Bytes {
		return nil
	}
	log.Gzip = slices.Clone(log.Gzip)
	s.logs[id] = log
	return nil
}

// Log gives a log.
func (s *Store) Log(_ context.Context, id runs.ID) (runs.ArchivedLog, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	log, ok := s.logs[id]
	if !ok {
		return runs.ArchivedLog{}, fmt.Errorf("run %s: %w", id, runs.ErrNoLogs)
	}
	log.Gzip = slices.Clone(log.Gzip)
	return log, nil
}

// pick gives the runs that pass, oldest first.
func (s *Store) pick(pass func(runs.Run) bool) []runs.Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []runs.Run
	for _, id := range slices.SortedFunc(maps.Keys(s.runs), cmp.Compare) {
		if run := s.runs[id]; pass(run) {
			list = append(list, s.read(run))
		}
	}
	return list
}

// read is a run as callers get it; the mutex is held.
func (s *Store) read(run runs.Run) runs.Run {
	run = copied(run)
	if run.Status == api.StatusQueued {
		run.QueuePosition = 1
		for id, other := range s.runs {
			if other.Status == api.StatusQueued && id < run.ID {
				run.QueuePosition++
			}
		}
	}
	return run
}
