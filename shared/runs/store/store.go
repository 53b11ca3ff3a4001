package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/database"
	"github.com/kubeopera/platform/shared/runs"
)

// maxList bounds any list; callers ask for a page of 200 and one more at most.
const maxList = 1000

// Store keeps the runs of one service.
type Store struct {
	db    *database.DB
	table string
}

var _ runs.Store = (*Store)(nil)

// New makes a Store over a table that Migrate has made.
func New(db *database.DB, table string) *Store { return &Store{db: db, table: table} }

// Get gives one run.
func (s *Store) Get(ctx context.Context, id runs.ID) (runs.Run, error) {
	var r row
	if err := s.selectRuns(s.db.Reader(), &r).Where("r.id = ?", string(id)).Scan(ctx); err != nil {
		return runs.Run{}, wrap("get run", id, err)
	}
	return r.run(), nil
}

// List gives runs, newest first.
func (s *Store) List(ctx context.Context, f runs.Filter) ([]runs.Run, error) {
	limit := f.Limit
	if limit <= 0 {
		limit = 50
	}
	var rows []row
	q := s.selectRuns(s.db.Reader(), &rows).Order("r.id DESC").Limit(int64(min(limit, maxList)))
	if f.Status != "" {
		q = q.Where("r.status = ?", string(f.Status))
	}
	if f.Environment != "" {
		q = q.Where("r.environment = ?", f.Environment)
	}
	if f.Before != "" {
		q = q.Where("r.id < ?", string(f.Before))
	}
	if err := q.Scan(ctx); err != nil {
		return nil, wrap("list runs", "", err)
	}
	return toRuns(rows), nil
}

// Unfinished gives live runs, oldest first.
func (s *Store) Unfinished(ctx context.Context) ([]runs.Run, error) {
	var rows []row
	err := s.selectRuns(s.db.Reader(), &rows).Where("r.status IN (?)", bun.List(words(runs.LiveStatuses()))).Order("r.id").Scan(ctx)
	if err != nil {
		return nil, wrap("read unfinished runs", "", err)
	}
	return toRuns(rows), nil
}

// Uncleaned gives ended runs that are not cleaned, oldest first.
func (s *Store) Uncleaned(ctx context.Context, limit int) ([]runs.Run, error) {
	var rows []row
	err := s.selectRuns(s.db.Reader(), &rows).
		Where("NOT r.cleaned").Where("r.status IN (?)", bun.List(words(runs.FinalStatuses()))).Order("r.id").Limit(int64(limit)).Scan(ctx)
	if err != nil {
		return nil, wrap("read ended runs", "", err)
	}
	return toRuns(rows), nil
}

// Known gives the ids that have a row.
func (s *Store) Known(ctx context.Context, ids []runs.ID) (map[runs.ID]bool, error) {
	known := map[runs.ID]bool{}
	if len(ids) == 0 {
		return known, nil
	}
	var found []string
	err := s.db.Writer().NewSelect().ModelTableExpr("? AS r", bun.Ident(s.table)).ColumnExpr("r.id").
		Where("r.id IN (?)", bun.List(words(ids))).Scan(ctx, &found)
	if err != nil {
		return nil, wrap("look for runs", "", err)
	}
	for _, id := range found {
		known[runs.ID(id)] = true
	}
	return known, nil
}

// Insert adds a run.
func (s *Store) Insert(ctx context.Context, run runs.Run) error {
	r := toRow(run)
	// Twice, for when the holder ends between the refusal and the look at it.
	for range 3 {
		_, err := s.db.Writer().NewInsert().Model(&r).ModelTableExpr("?", bun.Ident(s.table)).Exec(ctx)
		if err == nil {
			return nil
		}
		switch s.violated(err) {
		case liveEnvironment:
			if holder, err := s.holder(ctx, run.Environment); err != nil {
				return err
			} else if holder != "" {
				return &runs.BusyError{Environment: run.Environment, Holder: holder}
			}
		case runExists, checkFailed:
			return fmt.Errorf("insert run %s: %w: %w", run.ID, runs.ErrConflict, err)
		default:
			return wrap("insert run", run.ID, err)
		}
	}
	return fmt.Errorf("insert run %s: environment %q: %w", run.ID, run.Environment, runs.ErrConflict)
}

// holder is the live run of an environment, empty if there is none.
func (s *Store) holder(ctx context.Context, environment string) (runs.ID, error) {
	var id string
	err := s.db.Writer().NewSelect().ModelTableExpr("? AS r", bun.Ident(s.table)).ColumnExpr("r.id").
		Where("r.environment = ?", environment).Where("r.status IN (?)", bun.List(words(runs.LiveStatuses()))).Scan(ctx, &id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", wrap("look for the live run of an environment", "", err)
	}
	return runs.ID(id), nil
}

// Update changes a run.
func (s *Store) Update(ctx context.Context, run runs.Run) (runs.Run, error) {
	r := toRow(run)
	r.Version++
	result, err := s.db.Writer().NewUpdate().Model(&r).ModelTableExpr("? AS r", bun.Ident(s.table)).
		Column("status", "phase", "message", "error_code", "progress_done", "progress_total", "progress_current",
			"started_at", "updated_at", "finished_at", "version").
		Where("r.id = ?", string(run.ID)).
		Where("r.version = ?", run.Version).
		Where("r.status IN (?)", bun.List(words(runs.Predecessors(run.Status)))).
		Exec(ctx)
	if err != nil {
		if s.violated(err) == checkFailed {
			return runs.Run{}, fmt.Errorf("update run %s: %w: %w", run.ID, runs.ErrConflict, err)
		}
		return runs.Run{}, wrap("update run", run.ID, err)
	}
	if changed, err := result.RowsAffected(); err != nil {
		return runs.Run{}, wrap("update run", run.ID, err)
	} else if changed == 0 {
		return runs.Run{}, s.explain(ctx, run.ID, "update run")
	}
	stored := r.run()
	stored.QueuePosition = run.QueuePosition
	return stored, nil
}

// MarkCleaned sets Cleaned.
func (s *Store) MarkCleaned(ctx context.Context, id runs.ID) error {
	result, err := s.db.Writer().NewUpdate().ModelTableExpr("? AS r", bun.Ident(s.table)).Set("cleaned = ?", true).
		Where("r.id = ?", string(id)).Where("r.status IN (?)", bun.List(words(runs.FinalStatuses()))).Exec(ctx)
	if err != nil {
		return wrap("mark run", id, err)
	}
	if changed, err := result.RowsAffected(); err != nil {
		return wrap("mark run", id, err)
	} else if changed == 0 {
		return s.explain(ctx, id, "mark run")
	}
	return nil
}

// explain says why no row was changed.
func (s *Store) explain(ctx context.Context, id runs.ID, doing string) error {
	known, err := s.Known(ctx, []runs.ID{id})
	switch {
	case err != nil:
		return err
	case known[id]:
		return fmt.Errorf("%s %s: it has changed: %w", doing, id, runs.ErrConflict)
	default:
		return fmt.Errorf("%s %s: %w", doing, id, runs.ErrNotFound)
	}
}

// Ping says whether runs can be read, and that the writer is there.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.db.Writer().PingContext(ctx); err != nil {
		return wrap("ping", "", err)
	}
	var ids []string
	if err := s.db.Reader().NewSelect().ModelTableExpr("? AS r", bun.Ident(s.table)).ColumnExpr("r.id").Limit(1).Scan(ctx, &ids); err != nil {
		return wrap("ping", "", err)
	}
	return nil
}

// selectRuns selects runs with their place in the queue.
func (s *Store) selectRuns(db bun.IDB, into any) *bun.SelectQuery {
	return db.NewSelect().Model(into).ModelTableExpr("? AS r", bun.Ident(s.table)).ColumnExpr("r.*").
		ColumnExpr("CASE WHEN r.status = ? THEN (SELECT count(*) FROM ? AS q WHERE q.status = ? AND q.id <= r.id) ELSE 0 END AS queue_position",
			string(api.StatusQueued), bun.Ident(s.table), string(api.StatusQueued))
}

// words are string values as plain strings.
func words[T ~string](values []T) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = string(v)
	}
	return list
}
