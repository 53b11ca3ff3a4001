package crash

import (
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/e2e/harness"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/sim"
	"github.com/kubeopera/platform/sim/aws/faults"
	"github.com/kubeopera/platform/sim/aws/protocol"
	"github.com/kubeopera/platform/sim/faultproxy"
)

// TestRunKilled kills the runner or Terraform while a run is somewhere. The next
// run on the environment must find its way, without anybody's help.
func TestRunKilled(t *testing.T) {
	tests := []struct {
		name    string
		phase   api.Phase // which is waited for first; empty: the program's start
		program harness.Program
		rare    bool
	}{
		{name: "the runner, preparing the state", phase: api.PhasePreparingState, program: harness.Runner, rare: true},
		{name: "Terraform in init", program: harness.TerraformInit, rare: true},
		{name: "the runner in init", phase: api.PhaseInit, program: harness.Runner, rare: true},
		{name: "Terraform in plan", program: harness.TerraformPlan},
		{name: "Terraform in apply", phase: api.PhaseApply, program: harness.TerraformApply},
		{name: "the runner in apply", phase: api.PhaseApply, program: harness.Runner},
		{name: "Terraform, reading what is published", phase: api.PhasePublishing, program: "terraform output", rare: true},
		{name: "the runner, publishing", phase: api.PhasePublishing, program: harness.Runner, rare: true},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			rare(t, test.rare)
			r := request("killed-"+string(rune('a'+i)), 4)
			slow := faults.Fault{Service: "s3", Kind: faults.KindDelay, Delay: faults.Duration(time.Second), Times: faults.Always}
			if test.phase != api.PhaseApply && test.phase != api.PhasePublishing {
				// What talks to S3 then lasts long enough to be met.
				platform.Fail(t, slow)
			}
			run := platform.Start(t, r)
			if test.phase == api.PhasePublishing {
				platform.Reaches(t, run.ID, api.PhaseApply)
				slow.Operation, slow.Delay = "GetObject", faults.Duration(6*time.Second)
				platform.Fail(t, slow)
			}
			if test.phase != "" {
				platform.Reaches(t, run.ID, test.phase)
			}
			platform.Kill(t, run.ID, test.program)
			platform.AWS.Faults().Clear()
			run = platform.Wait(t, run.ID, nil)
			if run.Status != api.StatusFailed || run.ErrorCode == "" || run.Message == "" {
				t.Fatalf("the run ended %s (%s): %s", run.Status, run.ErrorCode, run.Message)
			}
			t.Logf("the run ended %s: %s", run.ErrorCode, run.Message)
			if test.phase == api.PhasePublishing && run.Phase != test.phase {
				t.Errorf("the run ended in phase %s, want %s", run.Phase, test.phase)
			}
			next := platform.Wait(t, platform.Start(t, r).ID, nil)
			wantEnd(t, next, api.StatusSucceeded)
			checkComplete(t, r)
		})
	}
}

// TestStateCannotBeSaved: S3 refuses the state that the apply ends with. What was
// made must not be lost.
func TestStateCannotBeSaved(t *testing.T) {
	tests := []struct {
		name  string
		fault faults.Fault
		rare  bool
	}{
		{name: "S3 takes no state, but what is put beside it", fault: faults.Fault{Resource: "/terraform.tfstate"}},
		{name: "S3 is down", fault: faults.Fault{}, rare: true},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			rare(t, test.rare)
			r := request("unsaved-"+string(rune('a'+i)), 3)
			run := platform.Start(t, r)
			platform.Reaches(t, run.ID, api.PhaseApply)
			fault := test.fault
			fault.Service, fault.Kind, fault.Times = "s3", faults.KindError, faults.Always
			if fault.Resource != "" {
				fault.Operation = "PutObject"
			}
			fault.Error = &protocol.Error{Status: http.StatusForbidden, Code: "AccessDenied", Message: "Access Denied"}
			platform.Fail(t, fault)
			run = platform.Wait(t, run.ID, nil)
			wantEnd(t, run, api.StatusFailed, "state_not_saved")
			if !strings.Contains(run.Message, "start the run again") {
				t.Errorf("the message does not say what becomes of the state: %s", run.Message)
			}
			platform.AWS.Faults().Clear()
			if test.rare {
				// The next run cannot save it either, and hands it on.
				fault.Operation, fault.Resource = "PutObject", "/terraform.tfstate"
				platform.Fail(t, fault)
				wantEnd(t, platform.Wait(t, platform.Start(t, r).ID, nil), api.StatusFailed, "state_not_saved")
				platform.AWS.Faults().Clear()
			}

			next := platform.Wait(t, platform.Start(t, r).ID, nil)
			wantEnd(t, next, api.StatusSucceeded)
			if next.Changes == nil || next.Changes.Add == 2+*r.WorkerCount {
				t.Errorf("the next run made everything anew: %+v", next.Changes)
			}
			checkComplete(t, r)
		})
	}
}

// TestLockAnswerLost: S3 stored the lock, and nobody was told so.
func TestLockAnswerLost(t *testing.T) {
	r := request("lock-lost", 1)
	platform.Fail(t, faults.Fault{Service: "s3", Operation: "PutObject", Resource: ".tflock", Kind: faults.KindLostAnswer})
	run := platform.Wait(t, platform.Start(t, r).ID, nil)
	t.Logf("the run ended %s (%s): %s", run.Status, run.ErrorCode, run.Message)
	if run.Status != api.StatusSucceeded {
		next := platform.Wait(t, platform.Start(t, r).ID, nil)
		wantEnd(t, next, api.StatusSucceeded)
	}
	checkComplete(t, r)
}

func TestCredentialExpires(t *testing.T) {
	r := request("expires", 4)
	run := platform.Start(t, r)
	platform.Reaches(t, run.ID, api.PhaseApply)
	if err := platform.AWS.Keys().Expire(platform.AccessKey.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := platform.AWS.Keys().Expire(platform.AccessKey.ID, time.Time{}); err != nil {
			t.Error(err)
		}
	})
	run = platform.Wait(t, run.ID, nil)
	wantEnd(t, run, api.StatusFailed, "state_not_saved")
	if err := platform.AWS.Keys().Expire(platform.AccessKey.ID, time.Time{}); err != nil {
		t.Fatal(err)
	}
	wantEnd(t, platform.Wait(t, platform.Start(t, r).ID, nil), api.StatusSucceeded)
	checkComplete(t, r)
}

func TestJobDeletedByHand(t *testing.T) {
	r := request("job-deleted", 8)
	run := platform.Start(t, r)
	platform.Reaches(t, run.ID, api.PhaseApply)
	err := platform.Kubernetes.BatchV1().Jobs(sim.RunNamespace).Delete(t.Context(), "provision-"+run.ID,
		metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
	if err != nil {
		t.Fatal(err)
	}
	run = platform.Wait(t, run.ID, nil)
	t.Logf("the run ended %s (%s): %s", run.Status, run.ErrorCode, run.Message)
	if run.Status != api.StatusFailed || run.ErrorCode == "" {
		t.Fatalf("the run ended %s (%s): %s", run.Status, run.ErrorCode, run.Message)
	}
	wantEnd(t, platform.Wait(t, platform.Start(t, request("job-deleted", 1)).ID, nil), api.StatusSucceeded)
	checkComplete(t, request("job-deleted", 1))
}

// TestConfigMapDeletedByHand: the pod cannot start any more.
func TestConfigMapDeletedByHand(t *testing.T) {
	platform.Reconfigure(t, map[string]string{"START_DEADLINE": "5s"})
	r := request("configmap-deleted", 1)
	removed := make(chan string, 1)
	platform.ClusterProvisioner.API.Add(faultproxy.Fault{
		Method: http.MethodPost, Path: jobsPath, When: faultproxy.Before,
		Do: removeConfigMap(t, r.Name, removed),
	})
	run := platform.Start(t, r)
	if problem := <-removed; problem != "" {
		t.Fatal(problem)
	}
	run = platform.Wait(t, run.ID, nil)
	wantEnd(t, run, api.StatusFailed, "configuration_missing")
	if !strings.Contains(run.Message, "provision-"+run.ID) {
		t.Errorf("the message does not name what is missing: %s", run.Message)
	}
}
