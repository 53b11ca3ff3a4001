package crash

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kubeopera/platform/e2e/harness"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/sim/aws/faults"
)

// TestForceAfterTheGracePeriod: the kubelet hangs. A run that was asked to stop
// neither hears of it nor is killed when its time is over.
func TestForceAfterTheGracePeriod(t *testing.T) {
	platform.Reconfigure(t, map[string]string{"GRACE_PERIOD": "3s"})
	r := request("forced", 60)
	run := platform.Start(t, r)
	platform.Reaches(t, run.ID, api.PhaseApply)
	platform.Node.Pause()
	t.Cleanup(platform.Node.Resume)

	p := platform.Provisioner(t)
	if _, err := p.CancelProvision(t.Context(), run.ID, false); err != nil {
		t.Fatal(err)
	}
	_, err := p.CancelProvision(t.Context(), run.ID, true)
	if problem := harness.WantProblem(t, err, http.StatusConflict, "cancel_too_early"); !strings.Contains(problem.Detail, "until "+time.Now().UTC().Format("2006-01-02T")) {
		t.Errorf("the problem does not say from when on force is possible: %s", problem.Detail)
	}
	var killed api.Provision
	harness.Until(t, "force is possible", func() (bool, error) {
		killed, err = p.CancelProvision(t.Context(), run.ID, true)
		return err == nil, err
	})
	// Nothing ends without evidence.
	if killed.Status != api.StatusCancelling || !strings.Contains(killed.Message, "killed on request") {
		t.Errorf("after force the run is %s: %s", killed.Status, killed.Message)
	}
	if left := pods(t, run.ID); len(left) != 1 || left[0].DeletionGracePeriodSeconds == nil || *left[0].DeletionGracePeriodSeconds != 1 {
		t.Errorf("after force there are %d pods of the run, want one that has a second left: %+v", len(left), left)
	}
	_, err = p.RetryProvision(t.Context(), run.ID)
	harness.WantProblem(t, err, http.StatusConflict, "run_not_ended")

	// In that second nothing can be saved.
	platform.Fail(t, faults.Fault{
		Service: "s3", Operation: "PutObject", Resource: "/terraform.tfstate", Kind: faults.KindDelay, Delay: faults.Duration(10 * time.Second), Times: faults.Always,
	})
	platform.Node.Resume()
	run = platform.Wait(t, run.ID, nil)
	wantEnd(t, run, api.StatusCancelled)
	if !strings.Contains(run.Message, "its lock may still be held") {
		t.Errorf("the message does not say what may be left: %s", run.Message)
	}
	if left := pods(t, run.ID); len(left) != 0 {
		t.Errorf("%d pods of the run are left", len(left))
	}
	if jobs := platform.Jobs(t, r.Name); len(jobs) != 0 {
		t.Errorf("%d Jobs of the run are left", len(jobs))
	}
	platform.AWS.Faults().Clear()

	held := lock(t, r.Name)
	unlock, err := p.UnlockProvision(t.Context(), run.ID, held.ID)
	if err != nil {
		t.Fatal(err)
	}
	wantEnd(t, platform.Wait(t, unlock.ID, nil), api.StatusSucceeded)
	checkUnlocked(t, r.Name)
	wantEnd(t, platform.Wait(t, platform.Start(t, request(r.Name, 0)).ID, nil), api.StatusSucceeded)
	checkUnlocked(t, r.Name)
}
