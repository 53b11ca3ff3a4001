package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/kubeopera/platform/shared/runs"
)

// SaveLog keeps the log of a run, unless a longer one is there.
func (s *Store) SaveLog(ctx context.Context, id runs.ID, log runs.ArchivedLog) error {
	r := logRow{RunID: string(id), Gzip: log.Gzip, Bytes: log.Bytes, Truncated: log.Truncated, SavedAt: stamp(log.SavedAt)}
	_, err := s.db.Writer().NewInsert().Model(&r).ModelTableExpr("? AS l", bun.Ident(s.logTable())).
		On("CONFLICT (run_id) DO UPDATE").
		Set("gzip = EXCLUDED.gzip, bytes = EXCLUDED.bytes, truncated = EXCLUDED.truncated, saved_at = EXCLUDED.saved_at").
		Where("l.bytes <= EXCLUDED.bytes").
		Exec(ctx)
	if err == nil {
		return nil
	}
	if s.violated(err) == noSuchRun {
		return fmt.Errorf("save log of run %s: %w", id, runs.ErrNotFound)
	}
	return wrap("save log of run", id, err)
}

// Log gives the log of a run.
func (s *Store) Log(ctx context.Context, id runs.ID) (runs.ArchivedLog, error) {
	var r logRow
	err := s.db.Reader().NewSelect().Model(&r).ModelTableExpr("? AS l", bun.Ident(s.logTable())).Where("l.run_id = ?", string(id)).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return runs.ArchivedLog{}, fmt.Errorf("log of run %s: %w", id, runs.ErrNoLogs)
	}
	if err != nil {
		return runs.ArchivedLog{}, wrap("read log of run", id, err)
	}
	return runs.ArchivedLog{Gzip: r.Gzip, Bytes: r.Bytes, Truncated: r.Truncated, SavedAt: stamp(r.SavedAt)}, nil
}

func (s *Store) logTable() string { return s.table + "_logs" }
