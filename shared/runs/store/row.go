package store

import (
	"encoding/json"
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

	QueuePosition int64 `bun:"queue_position,scanonly"`
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

func toRow(r runs.Run) row {
	inputs := string(r.Inputs)
	if inputs == "" {
		inputs = "null"
	}
	return row{
		ID: string(r.ID), Operation: string(r.Operation), RetryOf: string(r.RetryOf), Name: r.Name, Environment: r.Environment,
		RequestedBy: r.RequestedBy, Inputs: inputs, CreatedAt: stamp(r.CreatedAt),
		Status: string(r.Status), Phase: string(r.Phase), Message: text(r.Message), ErrorCode: r.ErrorCode,
		ProgressDone: int64(r.Progress.Done), ProgressTotal: int64(r.Progress.Total), ProgressCurrent: text(r.Progress.Current),
		StartedAt: stamp(r.StartedAt), UpdatedAt: stamp(r.UpdatedAt), FinishedAt: stamp(r.FinishedAt),
		Version: r.Version, Cleaned: r.Cleaned,
	}
}

func (r row) run() runs.Run {
	run := runs.Run{
		ID: runs.ID(r.ID), Operation: api.Operation(r.Operation), RetryOf: runs.ID(r.RetryOf), Name: r.Name, Environment: r.Environment,
		RequestedBy: r.RequestedBy, CreatedAt: stamp(r.CreatedAt),
		Status: api.Status(r.Status), Phase: api.Phase(r.Phase), Message: r.Message, ErrorCode: r.ErrorCode,
		Progress:  api.Progress{Done: int(r.ProgressDone), Total: int(r.ProgressTotal), Current: r.ProgressCurrent},
		StartedAt: stamp(r.StartedAt), UpdatedAt: stamp(r.UpdatedAt), FinishedAt: stamp(r.FinishedAt),
		Version: r.Version, Cleaned: r.Cleaned, QueuePosition: int(r.QueuePosition),
	}
	if r.Inputs != "null" {
		run.Inputs = json.RawMessage(r.Inputs)
	}
	return run
}

func toRuns(rows []row) []runs.Run {
	list := make([]runs.Run, len(rows))
	for i, r := range rows {
		list[i] = r.run()
	}
	return list
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
