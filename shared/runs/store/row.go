package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runs"
)

// row is a run as it is stored.
type row struct {
	bun.BaseModel `bun:"table:runs,alias:r"` // the real name is set by each query

	ID              string    `bun:"id,pk"`
	Operation       string    `bun:"operation"`
	RetryOf         string    `bun:"retry_of"`
	Name            string    `bun:"name"`
	Environment     string    `bun:"environment"`
	RequestedBy     string    `bun:"requested_by"`
	Inputs          string    `bun:"inputs"`
	CreatedAt       time.Time `bun:"created_at"`
	Status          string    `bun:"status"`
	Phase           string    `bun:"phase"`
	Message         string    `bun:"message"`
	ErrorCode       string    `bun:"error_code"`
	ProgressDone    int64     `bun:"progress_done"`
	ProgressTotal   int64     `bun:"progress_total"`
	ProgressCurrent string    `bun:"progress_current"`
	StartedAt       time.Time `bun:"started_at,nullzero"`
	UpdatedAt       time.Time `bun:"updated_at"`
	FinishedAt      time.Time `bun:"finished_at,nullzero"`
	Version         int64     `bun:"version"`
	Cleaned         bool      `bun:"cleaned"`

	IdempotencyKey    string    `bun:"idempotency_key"`
	RequestDigest     []byte    `bun:"request_digest"`
	Details           string    `bun:"details,nullzero"`
	ClaimedAt         time.Time `bun:"claimed_at,nullzero"`
	CancelRequestedAt time.Time `bun:"cancel_requested_at,nullzero"`
	CancelledBy       string    `bun:"cancelled_by"`

	QueuePosition int64 `bun:"queue_position,scanonly"`
}

// eventRow is an entry of a run's timeline.
type eventRow struct {
	bun.BaseModel `bun:"table:events,alias:e"`

	RunID     string    `bun:"run_id,pk"`
	Version   int64     `bun:"version,pk"`
	At        time.Time `bun:"at"`
	Status    string    `bun:"status"`
	Phase     string    `bun:"phase"`
	Message   string    `bun:"message"`
	ErrorCode string    `bun:"error_code"`
	Caller    string    `bun:"caller"`
}

// logRow is the log of a run that has ended.
type logRow struct {
	bun.BaseModel `bun:"table:logs,alias:l"`

	RunID     string    `bun:"run_id,pk"`
	Gzip      []byte    `bun:"gzip"`
	Bytes     int64     `bun:"bytes"`
	Truncated bool      `bun:"truncated"`
	SavedAt   time.Time `bun:"saved_at"`
}

func toRow(r runs.Run) (row, error) {
	inputs := string(r.Inputs)
	if inputs == "" {
		inputs = "null"
	}
	details, err := encode(r.Details)
	if err != nil {
		return row{}, err
	}
	return row{
		ID: string(r.ID), Operation: string(r.Operation), RetryOf: string(r.RetryOf), Name: r.Name, Environment: r.Environment,
		RequestedBy: r.RequestedBy, Inputs: inputs, CreatedAt: stamp(r.CreatedAt),
		Status: string(r.Status), Phase: string(r.Phase), Message: text(r.Message), ErrorCode: text(r.ErrorCode),
		ProgressDone: int64(r.Progress.Done), ProgressTotal: int64(r.Progress.Total), ProgressCurrent: text(r.Progress.Current),
		StartedAt: stamp(r.StartedAt), UpdatedAt: stamp(r.UpdatedAt), FinishedAt: stamp(r.FinishedAt),
		Version: r.Version, Cleaned: r.Cleaned,
		IdempotencyKey: text(r.IdempotencyKey), RequestDigest: r.RequestDigest, Details: details,
		ClaimedAt: stamp(r.ClaimedAt), CancelRequestedAt: stamp(r.CancelRequestedAt), CancelledBy: text(r.CancelledBy),
	}, nil
}

// encode gives details as JSON, empty if there are none.
func encode(d runs.Details) (string, error) {
	data, err := json.Marshal(d)
	if err != nil {
		return "", fmt.Errorf("encode details: %w", err)
	}
	if string(data) == "{}" {
		return "", nil
	}
	return string(data), nil
}

func (r row) run() (runs.Run, error) {
	run := runs.Run{
		ID: runs.ID(r.ID), Operation: api.Operation(r.Operation), RetryOf: runs.ID(r.RetryOf), Name: r.Name, Environment: r.Environment,
		RequestedBy: r.RequestedBy, CreatedAt: stamp(r.CreatedAt),
		Status: api.Status(r.Status), Phase: api.Phase(r.Phase), Message: r.Message, ErrorCode: r.ErrorCode,
		Progress:  api.Progress{Done: int(r.ProgressDone), Total: int(r.ProgressTotal), Current: r.ProgressCurrent},
		StartedAt: stamp(r.StartedAt), UpdatedAt: stamp(r.UpdatedAt), FinishedAt: stamp(r.FinishedAt),
		Version: r.Version, Cleaned: r.Cleaned, QueuePosition: int(r.QueuePosition),
		IdempotencyKey: r.IdempotencyKey, RequestDigest: r.RequestDigest,
		ClaimedAt: stamp(r.ClaimedAt), CancelRequestedAt: stamp(r.CancelRequestedAt), CancelledBy: r.CancelledBy,
	}
	if r.Inputs != "null" {
		run.Inputs = json.RawMessage(r.Inputs)
	}
	if r.Details != "" {
		if err := json.Unmarshal([]byte(r.Details), &run.Details); err != nil {
			return runs.Run{}, fmt.Errorf("%w: details of run %s: %w", runs.ErrDatabase, r.ID, err)
		}
	}
	return run, nil
}

func toRuns(rows []row) ([]runs.Run, error) {
	list := make([]runs.Run, len(rows))
	for i, r := range rows {
		var err error
		if list[i], err = r.run(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// stamp is a time as both databases keep it: UTC, microseconds.
func stamp(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// text is what both databases take as text.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
}
