package runstest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runs"
)

// Store keeps runs in memory.
type Store struct {
	mu   sync.Mutex
	runs map[runs.ID]runs.Run
	logs map[runs.ID]runs.ArchivedLog
}

var _ runs.Store = (*Store)(nil)

// NewStore makes an empty Store.
func NewStore() *Store {
	return &Store{runs: map[runs.ID]runs.Run{}, logs: map[runs.ID]runs.ArchivedLog{}}
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

// List gives runs, newest first.
func (s *Store) List(_ context.Context, f runs.Filter) ([]runs.Run, error) {
	list := s.pick(func(r runs.Run) bool {
		return (f.Status == "" || r.Status == f.Status) &&
			(f.Environment == "" || r.Environment == f.Environment) &&
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
	if err := check(run); err != nil {
		return err
	}
	run.Inputs = slices.Clone(run.Inputs)
	run.QueuePosition = 0
	s.runs[run.ID] = run
	return nil
}

// Update changes a run.
func (s *Store) Update(_ context.Context, run runs.Run) (runs.Run, error) {
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
	stored.Version++
	if err := check(stored); err != nil {
		return runs.Run{}, err
	}
	s.runs[run.ID] = stored
	return s.read(stored), nil
}

// check is what the CHECKs of the real store are.
func check(run runs.Run) error {
	final := runs.Final(run.Status)
	switch {
	case run.StartedAt.IsZero() && run.Status != api.StatusQueued && run.Status != api.StatusFailed && run.Status != api.StatusCancelled,
		run.FinishedAt.IsZero() == final,
		run.Status == api.StatusFailed && run.ErrorCode == "",
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

// SaveLog keeps a log.
func (s *Store) SaveLog(_ context.Context, id runs.ID, log runs.ArchivedLog) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.runs[id]; !ok {
		return fmt.Errorf("run %s: %w", id, runs.ErrNotFound)
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
	run.Inputs = slices.Clone(run.Inputs)
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
