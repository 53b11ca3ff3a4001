package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/database"
	"github.com/kubeopera/platform/shared/runs"
)

// Insert adds a run and the first event of its timeline.
func (s *Store) Insert(ctx context.Context, run runs.Run) error {
	r, err := toRow(run)
	if err != nil {
		return err
	}
	event := toEvent(run, api.Event{
		At: run.CreatedAt, Status: run.Status, Phase: run.Phase, Message: run.Message, ErrorCode: run.ErrorCode, By: run.RequestedBy,
	})
	// Twice, for when the holder ends between the refusal and the look at it.
	for range 3 {
		err := s.db.Writer().RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			if _, err := tx.NewInsert().Model(&r).ModelTableExpr("?", bun.Ident(s.table)).Exec(ctx); err != nil {
				return err
			}
			return s.addEvent(ctx, tx, event)
		})
		if err == nil {
			return nil
		}
		switch s.violated(err) {
		case taken:
			if holder, err := s.holder(ctx, run.Environment); err != nil {
				return err
			} else if holder != "" {
				return &runs.BusyError{Environment: run.Environment, Holder: holder}
			}
			if _, err := s.ByKey(ctx, run.RequestedBy, r.IdempotencyKey); err == nil {
				return fmt.Errorf("insert run %s: its idempotency key is used: %w", run.ID, runs.ErrConflict)
			} else if !errors.Is(err, runs.ErrNotFound) {
				return err
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

// Update changes a run, and adds the event to its timeline.
func (s *Store) Update(ctx context.Context, run runs.Run, event *api.Event) (runs.Run, error) {
	r, err := toRow(run)
	if err != nil {
		return runs.Run{}, err
	}
	r.Version++
	changed := false
	err = s.db.Writer().RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		result, err := tx.NewUpdate().Model(&r).ModelTableExpr("? AS r", bun.Ident(s.table)).
			Column("status", "phase", "message", "error_code", "progress_done", "progress_total", "progress_current", "details",
				"started_at", "updated_at", "finished_at", "version", "cancel_requested_at", "cancelled_by").
			Where("r.id = ?", string(run.ID)).
			Where("r.version = ?", run.Version).
			Where("r.status IN (?)", bun.List(words(runs.Predecessors(run.Status)))).
			Exec(ctx)
		if err != nil {
			return err
		}
		if changed, err = affected(result); err != nil || !changed || event == nil {
			return err
		}
		after := run
		after.Version = r.Version
		return s.addEvent(ctx, tx, toEvent(after, *event))
	})
	if err != nil {
		if s.violated(err) == checkFailed {
			return runs.Run{}, fmt.Errorf("update run %s: %w: %w", run.ID, runs.ErrConflict, err)
		}
		return runs.Run{}, wrap("update run", run.ID, err)
	}
	if !changed {
		return runs.Run{}, s.explain(ctx, run.ID, "update run")
	}
	stored, err := r.run()
	stored.QueuePosition = run.QueuePosition
	return stored, err
}

// Claim gives a queued run a slot. Claims are made one after the other: on SQLite
// there is one writer, on Postgres a lock of the transaction makes it so.
func (s *Store) Claim(ctx context.Context, run runs.Run, slots int, at time.Time) (runs.Run, error) {
	at = stamp(at)
	var taken int64
	changed := false
	err := s.db.Writer().RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if s.db.Dialect() == database.Postgres {
			if _, err := tx.NewRaw("SELECT pg_advisory_xact_lock(hashtext(?))", s.table+" claim").Exec(ctx); err != nil {
				return err
			}
		}
		err := tx.NewSelect().ModelTableExpr("? AS r", bun.Ident(s.table)).ColumnExpr("count(*)").
			Where("r.status IN (?)", bun.List(words(runs.LiveStatuses()))).
			Where("(r.status <> ? OR r.claimed_at IS NOT NULL)", string(api.StatusQueued)).Scan(ctx, &taken)
		if err != nil || taken >= int64(slots) {
			return err
		}
		result, err := tx.NewUpdate().ModelTableExpr("? AS r", bun.Ident(s.table)).
			Set("claimed_at = ?", at).Set("version = version + 1").
			Where("r.id = ?", string(run.ID)).Where("r.version = ?", run.Version).
			Where("r.status = ?", string(api.StatusQueued)).Where("r.claimed_at IS NULL").Exec(ctx)
		if err != nil {
			return err
		}
		changed, err = affected(result)
		return err
	})
	switch {
	case err != nil:
		return runs.Run{}, wrap("claim a slot for run", run.ID, err)
	case taken >= int64(slots):
		return runs.Run{}, fmt.Errorf("claim a slot for run %s: %d of %d taken: %w", run.ID, taken, slots, runs.ErrNoSlot)
	case !changed:
		return runs.Run{}, s.explain(ctx, run.ID, "claim a slot for run")
	}
	run.ClaimedAt = at
	run.Version++
	return run, nil
}

// MarkCleaned sets Cleaned.
func (s *Store) MarkCleaned(ctx context.Context, id runs.ID) error {
	result, err := s.db.Writer().NewUpdate().ModelTableExpr("? AS r", bun.Ident(s.table)).Set("cleaned = ?", true).
		Where("r.id = ?", string(id)).Where("r.status IN (?)", bun.List(words(runs.FinalStatuses()))).Exec(ctx)
	if err != nil {
		return wrap("mark run", id, err)
	}
	if changed, err := affected(result); err != nil {
		return wrap("mark run", id, err)
	} else if !changed {
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

// affected says whether a statement has changed a row.
func affected(result sql.Result) (bool, error) {
	n, err := result.RowsAffected()
	return n > 0, err
}
