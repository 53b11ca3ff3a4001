package crash

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubeopera/platform/e2e/harness"
	"github.com/kubeopera/platform/shared/api"
)

func TestCancelAndRetry(t *testing.T) {
	r := request("cancelled", 60)
	run := platform.Start(t, r)
	platform.Reaches(t, run.ID, api.PhaseApply)
	p := platform.Provisioner(t)
	_, err := p.CancelProvision(t.Context(), run.ID, true)
	harness.WantProblem(t, err, http.StatusConflict, "cancel_too_early")
	if _, err := p.CancelProvision(t.Context(), run.ID, false); err != nil {
		t.Fatal(err)
	}
	_, err = p.CancelProvision(t.Context(), run.ID, true)
	harness.WantProblem(t, err, http.StatusConflict, "cancel_too_early")
	_, err = p.RetryProvision(t.Context(), run.ID)
	harness.WantProblem(t, err, http.StatusConflict, "run_not_ended")

	run = platform.Wait(t, run.ID, nil)
	wantEnd(t, run, api.StatusCancelled)
	checkUnlocked(t, r.Name)
	if log := platform.Logs(t, run.ID); !strings.Contains(log, "terraform_data.network") {
		t.Errorf("the log of a cancelled run is not whole:\n%s", log)
	}
	_, err = p.CancelProvision(t.Context(), run.ID, false)
	harness.WantProblem(t, err, http.StatusConflict, "run_ended")

	events, err := p.ProvisionEvents(t.Context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	var statuses []api.Status
	for _, e := range events {
		statuses = append(statuses, e.Status)
	}
	if want := []api.Status{api.StatusQueued, api.StatusRunning, api.StatusCancelling, api.StatusCancelled}; !slices.Equal(slices.Compact(statuses), want) {
		t.Errorf("the timeline goes %v, want %v", slices.Compact(statuses), want)
	}
	if !slices.ContainsFunc(events, func(e api.Event) bool { return e.Status == api.StatusCancelling && e.By == "simulator" }) {
		t.Errorf("the timeline does not say who cancelled: %+v", events)
	}

	// What was made before is kept; the retry does the rest, as slowly.
	retry, err := p.RetryProvision(t.Context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	if retry.RetryOf != run.ID || retry.ID == run.ID {
		t.Errorf("the retry is %+v", retry)
	}
	platform.Reaches(t, retry.ID, api.PhaseApply)
	if _, err := p.CancelProvision(t.Context(), retry.ID, false); err != nil {
		t.Fatal(err)
	}
	wantEnd(t, platform.Wait(t, retry.ID, nil), api.StatusCancelled)
}

func TestCancelInTheQueue(t *testing.T) {
	platform.Reconfigure(t, map[string]string{"MAX_CONCURRENT_RUNS": "1"})
	first := platform.Start(t, request("queue-first", 5))
	second := platform.Start(t, request("queue-second", 1))
	run, err := platform.Provisioner(t).CancelProvision(t.Context(), second.ID, false)
	if err != nil {
		t.Fatal(err)
	}
	if run.Status != api.StatusCancelled {
		t.Errorf("a queued run is %s after its cancel", run.Status)
	}
	harness.Until(t, "the credential Secret is deleted", func() (bool, error) {
		return !slices.Contains(platform.CredentialSecrets(t), "provision-"+second.ID+"-credential"), nil
	})
	if jobs := platform.Jobs(t, "queue-second"); len(jobs) != 0 {
		t.Errorf("the cancelled run has %d Jobs", len(jobs))
	}
	wantEnd(t, platform.Wait(t, first.ID, nil), api.StatusSucceeded)
}

func TestPlanDestroyAndRecreate(t *testing.T) {
	r := request("lifecycle", 1)
	p := platform.Provisioner(t)

	planned := r
	planned.Operation = api.OperationPlan
	plan := platform.Wait(t, platform.Start(t, planned).ID, nil)
	wantEnd(t, plan, api.StatusSucceeded)
	if plan.Changes == nil || plan.Changes.Add != 4 {
		t.Errorf("the plan is %+v: %s", plan.Changes, plan.Message)
	}
	if _, err := platform.AWS.S3().Object(bucket(r.Name), "terraform.tfstate"); err == nil {
		t.Error("a plan has written a state")
	}
	_, err := p.DestroyProvision(t.Context(), plan.ID)
	if err == nil {
		t.Error("what was never applied was destroyed")
	}

	run := platform.Wait(t, platform.Start(t, r).ID, nil)
	wantEnd(t, run, api.StatusSucceeded)
	if _, err := p.Kubeconfig(t.Context(), run.ID); err != nil {
		t.Error(err)
	}
	other := r
	other.Region = "us-west-2"
	_, err = p.StartProvision(t.Context(), other)
	harness.WantProblem(t, err, http.StatusConflict, "environment_immutable")

	destroy, err := p.DestroyProvision(t.Context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	destroy = platform.Wait(t, destroy.ID, nil)
	wantEnd(t, destroy, api.StatusSucceeded)
	if destroy.Operation != api.OperationDestroy || destroy.Changes == nil || destroy.Changes.Remove != 4 {
		t.Errorf("the destroy removed %+v: %s", destroy.Changes, destroy.Message)
	}
	if left := resources(t, r.Name); len(left) != 0 {
		t.Errorf("the state still holds %v", left)
	}
	_, err = p.Kubeconfig(t.Context(), run.ID)
	harness.WantProblem(t, err, http.StatusGone, "kubeconfig_gone")
	checkUnlocked(t, r.Name)
	for _, id := range []string{plan.ID, run.ID} {
		harness.Until(t, "the outputs of a run before the destroy are gone", func() (bool, error) {
			return outputs(t, id) == nil, nil
		})
	}
	if outputs(t, destroy.ID) == nil {
		t.Error("the destroy's own outputs are gone")
	}

	// Nothing binds the name any more.
	wantEnd(t, platform.Wait(t, platform.Start(t, other).ID, nil), api.StatusSucceeded)
}

func TestLockOfSomebodyElse(t *testing.T) {
	r := request("locked", 1)
	wantEnd(t, platform.Wait(t, platform.Start(t, r).ID, nil), api.StatusSucceeded)
	const id = "5a3e7c1e-0000-4000-8000-000000000001"
	lock, err := json.Marshal(map[string]string{
		"ID": id, "Operation": "OperationTypeApply", "Who": "ops@laptop", "Version": "1.11.4",
		"Created": time.Now().UTC().Format(time.RFC3339Nano), "Path": bucket(r.Name) + "/terraform.tfstate",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := platform.AWS.S3().PutObject(bucket(r.Name), "terraform.tfstate.tflock", lock); err != nil {
		t.Fatal(err)
	}
	stopped := platform.Wait(t, platform.Start(t, r).ID, nil)
	wantEnd(t, stopped, api.StatusFailed, "state_locked")
	if stopped.Lock == nil || stopped.Lock.ID != id || stopped.Lock.Who != "ops@laptop" {
		t.Errorf("the run names the lock %+v", stopped.Lock)
	}
	p := platform.Provisioner(t)
	wrong, err := p.UnlockProvision(t.Context(), stopped.ID, "5a3e7c1e-0000-4000-8000-000000000002")
	if err != nil {
		t.Fatal(err)
	}
	wantEnd(t, platform.Wait(t, wrong.ID, nil), api.StatusFailed, "unlock_refused")
	right, err := p.UnlockProvision(t.Context(), stopped.ID, id)
	if err != nil {
		t.Fatal(err)
	}
	wantEnd(t, platform.Wait(t, right.ID, nil), api.StatusSucceeded)
	checkComplete(t, r)
}
