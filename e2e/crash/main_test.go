package crash

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/e2e/harness"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/skip"
	"github.com/kubeopera/platform/sim"
)

var platform *harness.Platform

func TestMain(m *testing.M) {
	harness.Main(m, func(c *sim.Config) { c.Program = "minimalprovisioner" }, func(p *harness.Platform) { platform = p })
}

// request asks for a minimal cluster whose apply takes that many seconds.
func request(name string, seconds int) api.ProvisionRequest {
	r := platform.Request(name)
	r.Tags = map[string]string{"seconds": fmt.Sprint(seconds)}
	return r
}

// wantEnd fails the test unless the run ended so; code is empty for success.
func wantEnd(t *testing.T, run api.Provision, status api.Status, codes ...string) {
	t.Helper()
	if run.Status != status || len(codes) > 0 && !slices.Contains(codes, run.ErrorCode) {
		t.Fatalf("the run ended %s (%s), want %s %v: %s\n%s", run.Status, run.ErrorCode, status, codes, run.Message, logs(t, run.ID))
	}
	if run.Message == "" {
		t.Error("the run ended without a word")
	}
}

// logs is a run's log for the reader of a failed test; a run that never began has
// none.
func logs(t *testing.T, id string) string {
	t.Helper()
	var text strings.Builder
	if err := platform.Provisioner(t).FollowLogs(t.Context(), id, 0, &text); err != nil {
		return "no log: " + err.Error()
	}
	return text.String()
}

// bucket is where an environment's state is.
func bucket(environment string) string { return "kubeopera-terraform-state-" + environment }

// instance is one object in a Terraform state.
type instance struct{ address, id string }

// resources are what the stored state of an environment holds.
func resources(t *testing.T, environment string) []instance {
	t.Helper()
	data, err := platform.AWS.S3().Object(bucket(environment), "terraform.tfstate")
	if err != nil {
		t.Fatal(err)
	}
	var state struct {
		Resources []struct {
			Type, Name string
			Instances  []struct {
				IndexKey   any `json:"index_key"`
				Status     string
				Attributes struct{ ID string }
			}
		}
	}
	if err := json.Unmarshal(data, &state); err != nil {
		t.Fatal(err)
	}
	var list []instance
	for _, r := range state.Resources {
		for _, i := range r.Instances {
			list = append(list, instance{fmt.Sprintf("%s.%s[%v]%s", r.Type, r.Name, i.IndexKey, i.Status), i.Attributes.ID})
		}
	}
	return list
}

// checkComplete checks that the environment is whole: all its resources are in the
// state, nobody holds the lock, and another apply has nothing to do.
func checkComplete(t *testing.T, r api.ProvisionRequest) {
	t.Helper()
	// A network, a cluster, and its nodes.
	if got, want := len(resources(t, r.Name)), 2+*r.WorkerCount; got != want {
		t.Errorf("the state holds %d resources, want %d: %v", got, want, resources(t, r.Name))
	}
	checkUnlocked(t, r.Name)
	again := platform.Wait(t, platform.Start(t, r).ID, nil)
	wantEnd(t, again, api.StatusSucceeded)
	if again.Changes == nil || *again.Changes != (api.Changes{}) {
		t.Errorf("another apply changed %+v", again.Changes)
	}
}

// lock is the lock that is on the state of an environment.
func lock(t *testing.T, environment string) api.StateLock {
	t.Helper()
	data, err := platform.AWS.S3().Object(bucket(environment), "terraform.tfstate.tflock")
	if err != nil {
		t.Fatal(err)
	}
	var held struct{ ID, Who string }
	if err := json.Unmarshal(data, &held); err != nil {
		t.Fatal(err)
	}
	return api.StateLock{ID: held.ID, Who: held.Who}
}

// checkUnlocked checks that no lock and no rescued state is left of an environment.
func checkUnlocked(t *testing.T, environment string) {
	t.Helper()
	keys, err := platform.AWS.S3().Keys(bucket(environment), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if strings.HasSuffix(key, ".tflock") || strings.HasPrefix(key, "rescue/") {
			t.Errorf("the bucket of %s still holds %s", environment, key)
		}
	}
}

// checkOneRun checks that the environment has exactly this run, with one Job and
// one pod, and that its credential is gone.
func checkOneRun(t *testing.T, environment, id string) {
	t.Helper()
	list, err := platform.Provisioner(t).Provisions(t.Context(), client.ListOptions{Environment: environment})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Provisions) != 1 || list.Provisions[0].ID != id {
		t.Errorf("the environment has runs %+v, want %s alone", list.Provisions, id)
	}
	jobs := platform.Jobs(t, environment)
	if len(jobs) != 1 || jobs[0].Name != "provision-"+id {
		t.Fatalf("the environment has %d Jobs, want one", len(jobs))
	}
	if ended := jobs[0].Status.Failed + jobs[0].Status.Succeeded; ended != 1 {
		t.Errorf("the Job has had %d pods, want one", ended)
	}
	configMap, err := platform.Kubernetes.CoreV1().ConfigMaps(sim.RunNamespace).Get(t.Context(), "provision-"+id, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if owners := configMap.OwnerReferences; len(owners) != 1 || owners[0].UID != jobs[0].UID {
		t.Errorf("the ConfigMap is owned by %v, want the Job", owners)
	}
	harness.Until(t, "the credential Secret is deleted", func() (bool, error) {
		return !slices.Contains(platform.CredentialSecrets(t), "provision-"+id+"-credential"), nil
	})
}

// outputs is the outputs Secret of a run; nil if there is none.
func outputs(t *testing.T, id string) *corev1.Secret {
	t.Helper()
	name := runcontract.OutputsSecretName(runcontract.KindProvision, id)
	secret, err := platform.Kubernetes.CoreV1().Secrets(sim.RunNamespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// pods are a run's.
func pods(t *testing.T, id string) []corev1.Pod {
	t.Helper()
	list, err := platform.Kubernetes.CoreV1().Pods(sim.RunNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: runcontract.LabelRunID + "=" + id})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// rare marks a case of the matrix that only make soak runs.
func rare(t *testing.T, yes bool) {
	t.Helper()
	if yes {
		skip.Soak(t)
	}
}
