package store

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/kubeopera/platform/shared/runs"
)

// violation is which of the constraints that callers can run into was violated.
type violation int

const (
	none  violation = iota
	taken           // the environment by a live run, or the idempotency key
	runExists
	noSuchRun
	checkFailed
)

// violated tells a driver's error by SQLSTATE and constraint name, or by SQLite's
// extended result code, which does not say which of two unique indexes it was.
func (s *Store) violated(err error) violation {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case pg.Code == "23505" && pg.ConstraintName != s.table+"_pkey":
			return taken
		case pg.Code == "23505":
			return runExists
		case pg.Code == "23503":
			return noSuchRun
		case pg.Code == "23514", pg.Code == "23502", pg.Code == "22P02":
			return checkFailed
		}
		return none
	}
	if lite, ok := errors.AsType[*sqlite.Error](err); ok {
		switch lite.Code() {
		case sqlite3.SQLITE_CONSTRAINT_UNIQUE:
			return taken
		case sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
			return runExists
		case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
			return noSuchRun
		case sqlite3.SQLITE_CONSTRAINT_CHECK, sqlite3.SQLITE_CONSTRAINT_NOTNULL:
			return checkFailed
		}
	}
	return none
}

// wrap says what was being done when the database failed.
func wrap(doing string, id runs.ID, err error) error {
	if id != "" {
		doing += " " + string(id)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%s: %w", doing, runs.ErrNotFound)
	}
	return fmt.Errorf("%w: %s: %w", runs.ErrDatabase, doing, err)
}
