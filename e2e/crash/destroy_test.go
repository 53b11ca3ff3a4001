package crash

import (
	"net/http"
	"testing"
	"time"

	"github.com/kubeopera/platform/e2e/harness"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/sim/aws/faults"
)

// TestDestroyKilled kills the runner or Terraform while a destroy is somewhere.
// The next destroy must take down the rest.
func TestDestroyKilled(t *testing.T) {
	rare(t, true)
	tests := []struct {
		name    string
		phase   api.Phase
		program harness.Program
	}{
		{name: "Terraform, destroying", phase: api.PhaseDestroy, program: harness.TerraformApply},
		{name: "the runner, destroying", phase: api.PhaseDestroy, program: harness.Runner},
		{name: "the runner, cleaning up", phase: api.PhaseCleanUp, program: harness.Runner},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := request("destroy-killed-"+string(rune('a'+i)), 0)
			r.Tags["destroy_seconds"] = "4"
			if test.phase == api.PhaseCleanUp {
				r.Tags["aws"] = "yes"
			}
			built := platform.Wait(t, platform.Start(t, r).ID, nil)
			wantEnd(t, built, api.StatusSucceeded)
			if test.phase == api.PhaseCleanUp {
				platform.Fail(t, faults.Fault{Service: "ec2", Kind: faults.KindDelay, Delay: faults.Duration(6 * time.Second), Times: faults.Always})
			}
			p := platform.Provisioner(t)
			run, err := p.DestroyProvision(t.Context(), built.ID)
			if err != nil {
				t.Fatal(err)
			}
			platform.Reaches(t, run.ID, test.phase)
			platform.Kill(t, run.ID, test.program)
			platform.AWS.Faults().Clear()
			run = platform.Wait(t, run.ID, nil)
			if run.Status != api.StatusFailed || run.ErrorCode == "" || run.Message == "" || run.Phase != test.phase {
				t.Fatalf("the destroy ended %s (%s) in phase %s: %s", run.Status, run.ErrorCode, run.Phase, run.Message)
			}
			t.Logf("the destroy ended %s: %s", run.ErrorCode, run.Message)
			// It may still be there.
			if _, err := p.Kubeconfig(t.Context(), built.ID); err != nil {
				t.Error(err)
			}
			again, err := p.RetryProvision(t.Context(), run.ID)
			if err != nil {
				t.Fatal(err)
			}
			wantEnd(t, platform.Wait(t, again.ID, nil), api.StatusSucceeded)
			if left := resources(t, r.Name); len(left) != 0 {
				t.Errorf("the state still holds %v", left)
			}
			checkUnlocked(t, r.Name)
			_, err = p.Kubeconfig(t.Context(), built.ID)
			harness.WantProblem(t, err, http.StatusGone, "kubeconfig_gone")
		})
	}
}
