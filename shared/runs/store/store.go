package store

import (
	"context"
	"time"

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
	return r.run()
}

// ByKey gives the run of a caller's idempotency key.
func (s *Store) ByKey(ctx context.Context, requestedBy, key string) (runs.Run, error) {
	var r row
	err := s.selectRuns(s.db.Writer(), &r).Where("r.requested_by = ?", requestedBy).Where("r.idempotency_key = ?", key).Where("r.idempotency_key <> ''").Scan(ctx)
	if err != nil {
		return runs.Run{}, wrap("get the run of an idempotency key", "", err)
	}
	return r.run()
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
	if f.Operation != "" {
		q = q.Where("r.operation = ?", string(f.Operation))
	}
	if !f.CreatedAfter.IsZero() {
		q = q.Where("r.created_at >= ?", within(f.CreatedAfter))
	}
	if !f.CreatedBefore.IsZero() {
		q = q.Where("r.created_at < ?", within(f.CreatedBefore))
	}
	if f.Before != "" {
		q = q.Where("r.id < ?", string(f.Before))
	}
	if err := q.Scan(ctx); err != nil {
		return nil, wrap("list runs", "", err)
	}
	return toRuns(rows)
}

// within is a time in UTC, or the nearest that both databases can read: an offset
// can lead out of the years that RFC 3339 has.
func within(t time.Time) time.Time {
	t = t.UTC()
	switch {
	case t.Year() < 1:
		return time.Time{}
	case t.Year() > 9999:
		return time.Date(10000, time.January, 1, 0, 0, 0, -1000, time.UTC)
	}
	return t
}

// Unfinished gives live runs, oldest first.
func (s *Store) Unfinished(ctx context.Context) ([]runs.Run, error) {
	var rows []row
	err := s.selectRuns(s.db.Reader(), &rows).Where("r.status IN (?)", bun.List(words(runs.LiveStatuses()))).Order("r.id").Scan(ctx)
	if err != nil {
		return nil, wrap("read unfinished runs", "", err)
	}
	return toRuns(rows)
}

// Uncleaned gives ended runs that are not cleaned, oldest first.
func (s *Store) Uncleaned(ctx context.Context, limit int) ([]runs.Run, error) {
	var rows []row
	err := s.selectRuns(s.db.Reader(), &rows).
		Where("NOT r.cleaned").Where("r.status IN (?)", bun.List(words(runs.FinalStatuses()))).Order("r.id").Limit(int64(limit)).Scan(ctx)
	if err != nil {
		return nil, wrap("read ended runs", "", err)
	}
	return toRuns(rows)
}

// Count gives how many runs there are of each status.
func (s *Store) Count(ctx context.Context) (map[api.Status]int, error) {
	var rows []struct {
		Status string
		N      int64
	}
	err := s.db.Reader().NewSelect().ModelTableExpr("? AS r", bun.Ident(s.table)).
		ColumnExpr("r.status").ColumnExpr("count(*) AS n").GroupExpr("r.status").Scan(ctx, &rows)
	if err != nil {
		return nil, wrap("count runs", "", err)
	}
	counts := map[api.Status]int{}
	for _, r := range rows {
		counts[api.Status(r.Status)] = int(r.N)
	}
	return counts, nil
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

// Ping says whether runs can be read and written, and that the tables are not those
// of an earlier release.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.db.CheckWritable(ctx); err != nil {
		return wrap("ping", "", err)
	}
	var ids []string
	if err := s.db.Reader().NewSelect().ModelTableExpr("? AS r", bun.Ident(s.table)).ColumnExpr("r.id").Limit(1).Scan(ctx, &ids); err != nil {
		return wrap("ping", "", err)
	}
	_, err := CheckSchema(ctx, s.db, s.table)
	return err
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
