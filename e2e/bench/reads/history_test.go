package reads

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/database"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runs/store"
)

// table is where cluster-provisioner keeps its runs.
const table = "provision_jobs"

// addHistory stores runs that have ended, made after the model of a live one. The
// service must be down. It gives their ids.
func addHistory(tb testing.TB, databaseURL, model string, count int) []string {
	tb.Helper()
	db, err := database.Open(tb.Context(), databaseURL)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	}()
	stored := store.New(db, table)
	run, err := stored.Get(tb.Context(), runs.ID(model))
	if err != nil {
		tb.Fatal(err)
	}
	run.Status, run.Phase, run.Message = api.StatusSucceeded, api.PhaseDone, "applied: 45 added, 0 changed, 0 removed"
	run.Progress = api.Progress{Done: 45, Total: 45}
	run.Details.Changes = &api.Changes{Add: 45}
	run.FinishedAt, run.Cleaned, run.IdempotencyKey, run.RequestDigest = time.Now(), true, "", nil
	ids := make([]string, count)
	for i := range ids {
		id, err := uuid.NewV7()
		if err != nil {
			tb.Fatal(err)
		}
		ids[i] = id.String()
		run.ID = runs.ID(ids[i])
		if err := stored.Insert(tb.Context(), run); err != nil {
			tb.Fatal(err)
		}
	}
	return ids
}
