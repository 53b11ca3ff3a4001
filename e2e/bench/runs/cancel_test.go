package runs

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kubeopera/platform/e2e/bench"
	"github.com/kubeopera/platform/e2e/harness"
	"github.com/kubeopera/platform/shared/api"
)

// cancelRunning measures from the request to cancel a run until its caller sees
// that it is cancelled: Terraform has saved its state then.
func cancelRunning(b *testing.B, table *bench.Table) {
	b.Helper()
	client := platform.Provisioner(b)
	var took bench.Samples
	for i := range 5 {
		run := platform.Start(b, request(fmt.Sprintf("cancel-%d", i), 600))
		harness.Until(b, "Terraform is at work", func() (bool, error) {
			run, err := client.Provision(b.Context(), run.ID)
			return run.Progress != nil && run.Progress.Current == "terraform_data.cluster", err
		})
		begin := time.Now()
		if _, err := client.CancelProvision(b.Context(), run.ID, false); err != nil {
			b.Fatal(err)
		}
		run, err := client.Wait(b.Context(), run.ID, nil)
		took = append(took, time.Since(begin))
		if err != nil || run.Status != api.StatusCancelled {
			b.Fatalf("the run ended %s (%s): %s; %v", run.Status, run.ErrorCode, run.Message, err)
		}
	}
	table.Add(fmt.Sprintf("from the cancel of a run in its apply to its end, of %d: median, slowest", len(took)),
		bench.Seconds(took.Median())+", "+bench.Seconds(slices.Max(took)), "")
}

// cancelQueued measures how long the request takes that cancels a run in the queue.
func cancelQueued(b *testing.B, table *bench.Table) {
	b.Helper()
	platform.Reconfigure(b, map[string]string{"MAX_CONCURRENT_RUNS": "1"})
	client := platform.Provisioner(b)
	holder := platform.Start(b, request("holder", 600))
	var queued []string
	for i := range 20 {
		queued = append(queued, platform.Start(b, request(fmt.Sprintf("queued-%d", i), 0)).ID)
	}
	platform.Reaches(b, holder.ID, api.PhaseApply)
	var took bench.Samples
	for _, id := range queued {
		begin := time.Now()
		run, err := client.CancelProvision(b.Context(), id, false)
		took = append(took, time.Since(begin))
		if err != nil || run.Status != api.StatusCancelled {
			b.Fatalf("the run is %s: %v", run.Status, err)
		}
	}
	if _, err := client.CancelProvision(b.Context(), holder.ID, false); err != nil {
		b.Fatal(err)
	}
	if _, err := client.Wait(b.Context(), holder.ID, nil); err != nil {
		b.Fatal(err)
	}
	table.Add(fmt.Sprintf("cancel of a queued run, until it is answered with cancelled, of %d: median, slowest", len(took)),
		bench.Milliseconds(took.Median())+", "+bench.Milliseconds(slices.Max(took)), "")
}
