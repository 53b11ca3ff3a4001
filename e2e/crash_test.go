package e2e

import (
	"context"
	"net/http"
	"regexp"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
	"github.com/kubeopera/platform/sim"
	"github.com/kubeopera/platform/sim/aws/faults"
	"github.com/kubeopera/platform/sim/aws/protocol"
	"github.com/kubeopera/platform/sim/faultproxy"
)

// crashAt arms a SIGKILL of the service at a request of its to the API server,
// and gives a channel that closes when it has happened.
func crashAt(t *testing.T, when faultproxy.When, method, path string) <-chan struct{} {
	t.Helper()
	crashed := make(chan struct{})
	platform.APIProxy.Add(faultproxy.Fault{
		Method: method, Path: regexp.MustCompile(path), When: when,
		Do: func(context.Context) int {
			platform.Service.Crash()
			close(crashed)
			return http.StatusServiceUnavailable // nobody is there to see it
		},
	})
	t.Cleanup(func() {
		if left := platform.APIProxy.Clear(); left > 0 {
			t.Errorf("the crash has not happened")
		}
	})
	return crashed
}

// refuseCredential lets AWS refuse the credential at a run's first call, so that
// a run which is only about its start ends within seconds, and always the same way.
func refuseCredential(t *testing.T) {
	t.Helper()
	fail(t, faults.Fault{
		Service: "sts", Operation: "GetCallerIdentity", Kind: faults.KindError, Times: faults.Always,
		Error: &protocol.Error{Status: http.StatusForbidden, Code: "InvalidClientTokenId", Message: "The security token included in the request is invalid."},
	})
}

func TestServiceKilledInTheMiddleOfAStart(t *testing.T) {
	refuseCredential(t)
	tests := []struct {
		name, environment string
		when              faultproxy.When
		path              string
	}{
		// The row comes between the credential Secret and the ConfigMap.
		{"after the row", "crash-row", faultproxy.Before, `/configmaps$`},
		{"after the ConfigMap", "crash-configmap", faultproxy.After, `/configmaps$`},
		{"after the Job", "crash-job", faultproxy.After, `/jobs$`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			crashed := crashAt(t, test.when, http.MethodPost, test.path)
			run, err := provisioner(t).StartProvision(t.Context(), request(test.environment))
			if err != nil {
				t.Fatal(err)
			}
			<-crashed
			platform.Service.Kill()
			if err := platform.Service.Start(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			run = wait(t, run.ID, nil)
			if run.Status != api.StatusFailed || run.ErrorCode != "credential_refused" {
				t.Errorf("the run ended %s (%s): %s", run.Status, run.ErrorCode, run.Message)
			}
			checkOneRun(t, test.environment, run.ID)
		})
	}
}

func TestServiceKilledBeforeTheRow(t *testing.T) {
	refuseCredential(t)
	const environment = "crash-secret"
	crashed := crashAt(t, faultproxy.After, http.MethodPost, `/secrets$`)
	if run, err := provisioner(t).StartProvision(t.Context(), request(environment)); err == nil {
		t.Fatalf("the service answered %+v", run)
	}
	<-crashed
	platform.Service.Kill()
	orphans := credentialSecrets(t)
	if len(orphans) != 1 {
		t.Fatalf("credential Secrets after the crash: %v, want one", orphans)
	}

	// Old enough at once, so that the test need not wait ten minutes.
	if err := platform.Service.Start(t.Context(), map[string]string{"CREDENTIAL_ORPHAN_AGE": "1s"}); err != nil {
		t.Fatal(err)
	}
	until(t, "the orphaned Secret is swept", func() (bool, error) { return len(credentialSecrets(t)) == 0, nil })
	list, err := provisioner(t).Provisions(t.Context(), client.ListOptions{Environment: environment})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Provisions) != 0 || len(jobs(t, environment)) != 0 {
		t.Errorf("a start that was never answered left runs %v and %d Jobs", list.Provisions, len(jobs(t, environment)))
	}
	restart(t, nil)

	run, err := provisioner(t).StartProvision(t.Context(), request(environment))
	if err != nil {
		t.Fatal(err)
	}
	if run = wait(t, run.ID, nil); run.ErrorCode != "credential_refused" {
		t.Errorf("the run ended %s (%s): %s", run.Status, run.ErrorCode, run.Message)
	}
	checkOneRun(t, environment, run.ID)
}

// checkOneRun checks that the environment has exactly this run, with one Job
// and one pod, and no credential any more.
func checkOneRun(t *testing.T, environment, id string) {
	t.Helper()
	list, err := provisioner(t).Provisions(t.Context(), client.ListOptions{Environment: environment})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Provisions) != 1 || list.Provisions[0].ID != id {
		t.Errorf("the environment has runs %+v, want %s alone", list.Provisions, id)
	}
	found := jobs(t, environment)
	if len(found) != 1 || found[0].Name != "provision-"+id {
		t.Fatalf("the environment has %d Jobs, want one", len(found))
	}
	if failed := found[0].Status.Failed + found[0].Status.Succeeded; failed != 1 {
		t.Errorf("the Job has had %d pods, want one", failed)
	}
	configMap, err := platform.Kubernetes.CoreV1().ConfigMaps(sim.RunNamespace).Get(t.Context(), "provision-"+id, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if owners := configMap.OwnerReferences; len(owners) != 1 || owners[0].UID != found[0].UID {
		t.Errorf("the ConfigMap is owned by %v, want the Job", owners)
	}
	until(t, "the credential Secret is deleted", func() (bool, error) { return len(credentialSecrets(t)) == 0, nil })
}

func TestRunSurvivesTheServicesRestart(t *testing.T) {
	run, err := provisioner(t).StartProvision(t.Context(), request("restart"))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "Terraform applies", func() (bool, error) {
		now, err := provisioner(t).Provision(t.Context(), run.ID)
		return now.Phase == api.PhaseApply, err
	})
	platform.Service.Kill()
	if err := platform.Service.Start(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if run = wait(t, run.ID, nil); run.Status != api.StatusSucceeded {
		t.Errorf("the run ended %s (%s): %s", run.Status, run.ErrorCode, run.Message)
	}
	if took := run.FinishedAt.Sub(*run.StartedAt); took <= 0 || took > 10*time.Minute {
		t.Errorf("the run took %s", took)
	}
	checkOneRun(t, "restart", run.ID)
}
