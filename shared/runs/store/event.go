package store

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runs"
)

// Events gives a run's timeline, oldest first.
func (s *Store) Events(ctx context.Context, id runs.ID) ([]api.Event, error) {
	var rows []eventRow
	err := s.db.Reader().NewSelect().Model(&rows).ModelTableExpr("? AS e", bun.Ident(s.eventTable())).
		Where("e.run_id = ?", string(id)).Order("e.version").Scan(ctx)
	if err != nil {
		return nil, wrap("read the events of run", id, err)
	}
	events := make([]api.Event, len(rows))
	for i, r := range rows {
		events[i] = api.Event{
			At: stamp(r.At), Status: api.Status(r.Status), Phase: api.Phase(r.Phase), Message: r.Message, ErrorCode: r.ErrorCode, By: r.Caller,
		}
	}
	return events, nil
}

func (s *Store) addEvent(ctx context.Context, tx bun.Tx, e eventRow) error {
	_, err := tx.NewInsert().Model(&e).ModelTableExpr("?", bun.Ident(s.eventTable())).Exec(ctx)
	return err
}

// toEvent is an event of a run at its version.
func toEvent(run runs.Run, e api.Event) eventRow {
	return eventRow{
		RunID: string(run.ID), Version: run.Version, At: stamp(e.At), Status: string(e.Status), Phase: string(e.Phase),
		Message: text(e.Message), ErrorCode: text(e.ErrorCode), Caller: text(e.By),
	}
}

func (s *Store) eventTable() string { return s.table + "_events" }
