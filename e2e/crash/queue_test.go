package crash

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/database/pgtest"
	"github.com/kubeopera/platform/shared/skip"
)

// TestManyRuns queues more runs than there are slots: none is lost, doubled or
// started out of order, and there are never more at a time than the cap.
func TestManyRuns(t *testing.T) {
	count, limit := 30, 5
	if skip.Soaking() {
		count, limit = 200, 10
	}
	platform.Reconfigure(t, map[string]string{"MAX_CONCURRENT_RUNS": strconv.Itoa(limit)})
	started := make([]api.Provision, count)
	for i := range started {
		r := request(fmt.Sprintf("many-%03d", i), 0)
		r.WorkerCount = new(1)
		started[i] = platform.Start(t, r)
	}
	if last := started[count-1]; last.Status != api.StatusQueued || last.QueuePosition < 1 {
		t.Errorf("the last of %d runs is %s at place %d of the queue", count, last.Status, last.QueuePosition)
	}
	ended := make([]api.Provision, count)
	var group sync.WaitGroup
	for i, run := range started {
		group.Go(func() { ended[i] = waitLong(t, run.ID) })
	}
	group.Wait()
	var begins []time.Time
	type change struct {
		at time.Time
		by int
	}
	var changes []change
	for i, run := range ended {
		if run.Status != api.StatusSucceeded || run.StartedAt == nil || run.FinishedAt == nil {
			t.Errorf("run %d ended %s (%s): %s", i, run.Status, run.ErrorCode, run.Message)
			continue
		}
		checkOneRun(t, run.TerraformEnvironment, run.ID)
		begins = append(begins, *run.StartedAt)
		changes = append(changes, change{*run.StartedAt, 1}, change{*run.FinishedAt, -1})
	}
	if !slices.IsSortedFunc(begins, time.Time.Compare) {
		t.Errorf("the runs did not begin in order: %v", begins)
	}
	slices.SortFunc(changes, func(a, b change) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.by - b.by
	})
	live, most := 0, 0
	for _, c := range changes {
		live += c.by
		most = max(most, live)
	}
	if most > limit {
		t.Errorf("%d runs at a time, want at most %d", most, limit)
	}
	t.Logf("%d runs, at most %d at a time, in %s", count, most, ended[count-1].FinishedAt.Sub(started[0].CreatedAt).Round(time.Second))
}

// waitLong follows a run that may wait long for its turn.
func waitLong(t *testing.T, id string) api.Provision {
	t.Helper()
	run, err := platform.Provisioner(t).Wait(t.Context(), id, nil)
	if err != nil {
		t.Errorf("run %s: %v", id, err)
	}
	return run
}

func TestPostgresRestarted(t *testing.T) {
	server := pgtest.Start(t)
	platform.Reconfigure(t, map[string]string{"DATABASE_URL": server.Database(t)})
	r := request("postgres", 5)
	run := platform.Start(t, r)
	platform.Reaches(t, run.ID, api.PhaseApply)
	server.Restart(t)
	wantEnd(t, platform.Wait(t, run.ID, nil), api.StatusSucceeded)
	checkOneRun(t, r.Name, run.ID)
	checkComplete(t, r)
}
