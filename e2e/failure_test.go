package e2e

import (
	"context"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/uuid"

	"github.com/kubeopera/platform/e2e/harness"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/sim"
	"github.com/kubeopera/platform/sim/authservice"
	"github.com/kubeopera/platform/sim/aws/faults"
	"github.com/kubeopera/platform/sim/aws/protocol"
)

func TestFailingApplyTellsTerraformsDiagnostic(t *testing.T) {
	platform.Fail(t, faults.Fault{
		Service: "ec2", Operation: "CreateVpc", Kind: faults.KindError, Times: faults.Always,
		Error: &protocol.Error{Status: http.StatusBadRequest, Code: "VpcLimitExceeded", Message: "The maximum number of VPCs has been reached."},
	})
	run, err := platform.Provisioner(t).StartProvision(t.Context(), platform.Request("no-room"))
	if err != nil {
		t.Fatal(err)
	}
	run = platform.Wait(t, run.ID, nil)
	if run.Status != api.StatusFailed || run.ErrorCode != "terraform_apply_failed" {
		t.Fatalf("the run ended %s (%s): %s", run.Status, run.ErrorCode, run.Message)
	}
	for _, want := range []string{"aws_vpc", "VpcLimitExceeded", "The maximum number of VPCs has been reached."} {
		if !strings.Contains(run.Message, want) {
			t.Errorf("the message lacks %q: %s", want, run.Message)
		}
	}
	_, err = platform.Provisioner(t).Kubeconfig(t.Context(), run.ID)
	harness.WantProblem(t, err, http.StatusConflict, "kubeconfig_not_ready")
	keys, err := platform.AWS.S3().Keys("kubeopera-terraform-state-no-room", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if strings.HasSuffix(key, ".tflock") {
			t.Errorf("the failed run left its lock: %v", keys)
		}
	}

	t.Run("and the next run on the environment succeeds once there is room", func(t *testing.T) {
		platform.AWS.Faults().Clear()
		run, err := platform.Provisioner(t).StartProvision(t.Context(), platform.Request("no-room"))
		if err != nil {
			t.Fatal(err)
		}
		if run = platform.Wait(t, run.ID, nil); run.Status != api.StatusSucceeded {
			t.Errorf("the run ended %s (%s): %s", run.Status, run.ErrorCode, run.Message)
		}
	})
}

func TestUnknownImageEndsWithThePullReason(t *testing.T) {
	platform.Reconfigure(t, map[string]string{"START_DEADLINE": "5s"})
	platform.Node.RemoveImage(sim.RunnerImage)
	t.Cleanup(func() { platform.Node.AddImage(sim.RunnerImage, platform.Image) })

	run, err := platform.Provisioner(t).StartProvision(t.Context(), platform.Request("no-image"))
	if err != nil {
		t.Fatal(err)
	}
	said := false
	run = platform.Wait(t, run.ID, func(run api.Provision) {
		said = said || run.Status == api.StatusRunning && strings.Contains(run.Message, "image cannot be pulled")
	})
	if run.Status != api.StatusFailed || run.ErrorCode != "image_pull_failed" || !strings.Contains(run.Message, sim.RunnerImage) {
		t.Errorf("the run ended %s (%s): %s", run.Status, run.ErrorCode, run.Message)
	}
	if !said {
		t.Error("the message did not tell the reason while the pod was waiting")
	}
}

func TestCredentialsThatCannotBeUsed(t *testing.T) {
	unknown := platform.Request("no-credential")
	unknown.CredentialID = uuid.NewString()
	tests := []struct {
		name    string
		request api.ProvisionRequest
		fault   authservice.Fault
		status  int
		code    string
	}{
		{name: "auth-service does not know it", request: unknown, status: http.StatusUnprocessableEntity, code: "invalid_request"},
		{name: "auth-service is down", request: platform.Request("no-credential"), fault: authservice.Fault{Down: true}, status: http.StatusBadGateway, code: "auth_service_unavailable"},
		{name: "auth-service forbids it", request: platform.Request("no-credential"), fault: authservice.Fault{Status: http.StatusForbidden}, status: http.StatusBadGateway, code: "auth_service_forbidden"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			platform.AuthService.Fail(test.fault)
			t.Cleanup(func() { platform.AuthService.Fail(authservice.Fault{}) })
			_, err := platform.Provisioner(t).StartProvision(t.Context(), test.request)
			problem := harness.WantProblem(t, err, test.status, test.code)
			if test.status == http.StatusUnprocessableEntity && (len(problem.Errors) != 1 || problem.Errors[0].Location != "body.credential_id") {
				t.Errorf("the problem does not name the field: %+v", problem)
			}
		})
	}
	if left := platform.CredentialSecrets(t); len(left) != 0 {
		t.Errorf("refused requests left credential Secrets: %v", left)
	}
}

func TestEnvironmentThatTheModulesRepositoryHas(t *testing.T) {
	byHand := fstest.MapFS{"main.tf": {Data: []byte("# kept by hand\n")}}
	if err := platform.PublishModules(t.Context(), map[string]fs.FS{"environments/kept-by-hand": byHand}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := platform.PublishModules(context.Background(), nil); err != nil {
			t.Error(err)
		}
	})
	run, err := platform.Provisioner(t).StartProvision(t.Context(), platform.Request("kept-by-hand"))
	if err != nil {
		t.Fatal(err)
	}
	run = platform.Wait(t, run.ID, nil)
	if run.Status != api.StatusFailed || run.ErrorCode != "environment_exists" {
		t.Errorf("the run ended %s (%s): %s", run.Status, run.ErrorCode, run.Message)
	}
	if !strings.Contains(run.Message, "kept-by-hand") {
		t.Errorf("the message does not name the environment: %s", run.Message)
	}
	if _, ok := platform.AWS.S3().Bucket("kubeopera-terraform-state-kept-by-hand"); ok {
		t.Error("the run went on to make a state bucket")
	}
}
