package crash

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/kubeopera/platform/e2e/harness"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
	"github.com/kubeopera/platform/shared/database/pgtest"
	"github.com/kubeopera/platform/sim/faultproxy"
)

// TestServiceKilled kills the service around each request that a start and the
// end of a run make of Kubernetes. The client repeats its request under the same
// key, as any client of ours does.
func TestServiceKilled(t *testing.T) {
	tests := []struct {
		name         string
		when         faultproxy.When
		method, path string
		rare         bool
	}{
		{"before the credential Secret", faultproxy.Before, http.MethodPost, `/secrets$`, true},
		// The row comes between the credential Secret and the ConfigMap.
		{"after the credential Secret", faultproxy.After, http.MethodPost, `/secrets$`, false},
		{"before the ConfigMap", faultproxy.Before, http.MethodPost, `/configmaps$`, true},
		{"after the ConfigMap", faultproxy.After, http.MethodPost, `/configmaps$`, true},
		{"before the Job", faultproxy.Before, http.MethodPost, `/jobs$`, true},
		{"after the Job", faultproxy.After, http.MethodPost, `/jobs$`, false},
		{"before it owns the ConfigMap", faultproxy.Before, http.MethodPut, `/configmaps/`, true},
		{"after it owns the ConfigMap", faultproxy.After, http.MethodPut, `/configmaps/`, true},
		{"before the log is read", faultproxy.Before, http.MethodGet, `/log$`, true},
		{"after the log is read", faultproxy.After, http.MethodGet, `/log$`, true},
		{"before the credential goes", faultproxy.Before, http.MethodDelete, `-credential$`, true},
		{"after the credential is gone", faultproxy.After, http.MethodDelete, `-credential$`, false},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			rare(t, test.rare)
			r := request("service-"+string(rune('a'+i)), 1)
			crashed := platform.CrashAt(t, test.when, test.method, test.path)
			started := make(chan api.Provision, 1)
			go func() {
				defer close(started)
				// It holds out over the restart below.
				run, err := platform.Provisioner(t).StartProvision(t.Context(), r)
				if err != nil {
					t.Errorf("start: %v", err)
					return
				}
				started <- run
			}()
			select {
			case <-crashed:
			case <-time.After(2 * time.Minute):
				t.Fatal("the service was not killed: it makes no such request")
			}
			platform.Restart(t)
			run, ok := <-started
			if !ok {
				return
			}
			run = platform.Wait(t, run.ID, nil)
			wantEnd(t, run, api.StatusSucceeded)
			checkOneRun(t, r.Name, run.ID)
			if log := platform.Logs(t, run.ID); log == "" {
				t.Error("the run has no log")
			}
			checkUnlocked(t, r.Name)
		})
	}
}

// TestOrphanedCredential: the service dies between the credential Secret and the
// row, and nobody asks again.
func TestOrphanedCredential(t *testing.T) {
	const environment = "orphan"
	// Cases above have left orphans, too, whose run was started under another id.
	before := platform.CredentialSecrets(t)
	crashed := platform.CrashAt(t, faultproxy.After, http.MethodPost, `/secrets$`)
	if run, err := platform.Provisioner(t).StartProvision(t.Context(), request(environment, 0)); err == nil {
		t.Fatalf("the service answered %+v", run)
	}
	<-crashed
	platform.ClusterProvisioner.Kill()
	orphans := slices.DeleteFunc(platform.CredentialSecrets(t), func(name string) bool { return slices.Contains(before, name) })
	if len(orphans) != 1 {
		t.Errorf("new credential Secrets after the crash: %v, want one", orphans)
	}
	// Old enough at once, so that the test need not wait ten minutes.
	if err := platform.ClusterProvisioner.Start(t.Context(), map[string]string{"CREDENTIAL_ORPHAN_AGE": "1s"}); err != nil {
		t.Fatal(err)
	}
	harness.Until(t, "the orphaned Secret is swept", func() (bool, error) { return len(platform.CredentialSecrets(t)) == 0, nil })
	list, err := platform.Provisioner(t).Provisions(t.Context(), client.ListOptions{Environment: environment})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Provisions) != 0 || len(platform.Jobs(t, environment)) != 0 {
		t.Errorf("a start that was never answered left runs %v and %d Jobs", list.Provisions, len(platform.Jobs(t, environment)))
	}
	platform.Reconfigure(t, nil)
	run := platform.Wait(t, platform.Start(t, request(environment, 0)).ID, nil)
	wantEnd(t, run, api.StatusSucceeded)
	checkOneRun(t, environment, run.ID)
}

func TestServiceKilledInMidApply(t *testing.T) {
	r := request("mid-apply", 4)
	run := platform.Start(t, r)
	platform.Reaches(t, run.ID, api.PhaseApply)
	platform.Restart(t)
	run = platform.Wait(t, run.ID, nil)
	wantEnd(t, run, api.StatusSucceeded)
	checkOneRun(t, r.Name, run.ID)
}

func TestAPIServerRestarted(t *testing.T) {
	r := request("api-server", 5)
	run := platform.Start(t, r)
	platform.Reaches(t, run.ID, api.PhaseApply)
	if err := platform.Host.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantEnd(t, platform.Wait(t, run.ID, nil), api.StatusSucceeded)
	checkOneRun(t, r.Name, run.ID)
	checkUnlocked(t, r.Name)
}

func TestTwoReplicas(t *testing.T) {
	// SQLite serves one process.
	database := map[string]string{"DATABASE_URL": pgtest.Start(t).Database(t)}
	platform.Reconfigure(t, database)
	replica, err := platform.ClusterProvisioner.Replica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := replica.Start(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(replica.Kill)
	var ids []string
	for i := range 6 {
		ids = append(ids, platform.Start(t, request("replicas-"+string(rune('a'+i)), 2)).ID)
	}
	platform.Reaches(t, ids[0], api.PhaseApply)
	// The other one goes on alone for a while.
	platform.ClusterProvisioner.Kill()
	if err := platform.ClusterProvisioner.Start(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		run := platform.Wait(t, id, nil)
		wantEnd(t, run, api.StatusSucceeded)
		checkOneRun(t, "replicas-"+string(rune('a'+i)), id)
	}
}
