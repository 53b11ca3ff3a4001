package httpapi

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runapi/runapitest"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
)

// TestRandomRequests holds the service to its document: the real engine, with
// its runs in SQLite, in a cluster in memory where runs begin, report and end at
// random. KUBEOPERA_SEED repeats a run of the test.
func TestRandomRequests(t *testing.T) {
	t.Parallel()
	runapitest.Random(t, func(t *testing.T) (runapitest.API, map[string]func(*rand.Rand) any, func(*rand.Rand)) {
		t.Helper()
		w := newWorld(t, runapitest.SQLite(t, "provision_jobs"), 20*time.Second) // requests look as well
		return w.API, w.values(t), func(rng *rand.Rand) { w.live(t, rng) }
	}, "region", "credential_id") // only some existing machines do without
}

// values are what the document's schemas leave to the service's rules.
func (w world) values(tb testing.TB) map[string]func(*rand.Rand) any {
	tb.Helper()
	of := func(choices ...any) func(*rand.Rand) any { return runapitest.Mostly(8, choices...) }
	values := map[string]func(*rand.Rand) any{
		"topology":           of("eks", "vanilla_kubeadm", "existing_machines"),
		"region":             of("eu-west-1", "us-east-1", "eu-mars-1"),
		"credential_id":      of("0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b", unknownCredential),
		"kubernetes_version": of("1.35", "1.36.3", "v1.34"),
		"worker_count":       of(2, 1, 3, 0, 101),
		"worker_min":         of(1, 3),
		"worker_max":         of(3, 9),
		"vpc_cidr":           of("10.0.0.0/16", "172.16.0.0/20", "8.8.8.0/24"),
		"operation":          of("apply", "plan", "destroy"),
		"lock_id":            of("6f1d5c1e-7c1b-4a53-9d3e-0f5f3f6b2a10", "x"),
		"If-None-Match":      of(`"v5"`, "*", `"v1"`, `W/"v3", "v4"`),
		"api_access":         of("public", "private"),
		"kubeconfig_auth":    of("exec_only", "embedded_credential", "service_account_token"),
	}
	values["name"] = func(rng *rand.Rand) any { return fmt.Sprint("acme-", rng.IntN(30)) }
	values["environment"] = values["name"]
	values["Idempotency-Key"] = func(rng *rand.Rand) any { return fmt.Sprint("key-", rng.IntN(300)) }
	values["id"] = w.ID(tb, runapitest.Live, runapitest.Succeeded(api.OperationApply), runapitest.Succeeded(api.OperationApply))
	values["cursor"] = func(*rand.Rand) any {
		page := runapitest.Decode[api.ProvisionList](tb, w.Do(http.MethodGet, "/api/v1/provisions?limit=1", "", nil))
		return page.NextCursor
	}
	return values
}

// live makes something happen to the runs that are at work.
func (w world) live(tb testing.TB, rng *rand.Rand) {
	tb.Helper()
	list := w.Recent(tb, w.AtWork)
	if len(list) == 0 {
		return
	}
	run := list[rng.IntN(len(list))]
	results := []*runcontract.Result{
		&success, &success, &success, &success, &success, &success, &failApply, &failRescue, nil,
		{Outcome: runcontract.OutcomeCancelled, ErrorCode: runcontract.CodeInterrupted, Phase: api.PhaseInit},
		{Outcome: runcontract.OutcomeFailed, ErrorCode: runcontract.CodeStateLocked, Message: "\x00\xff locked", Lock: &api.StateLock{ID: "6f1d5c1e-7c1b-4a53-9d3e-0f5f3f6b2a10"}},
		{Outcome: runcontract.OutcomeFailed, ErrorCode: runcontract.CodeControlPlaneIncomplete, Changes: &api.Changes{Add: 1}},
	}
	switch rng.IntN(10) {
	case 0, 1, 2:
		w.Cluster.Start(run.ID)
		w.Cluster.SetLog(run.ID, "one\ntwo\n")
	case 3, 4:
		w.Cluster.Publish(run.ID, runcontract.KeyProgress, runcontract.Progress{
			Phase: api.PhaseApply, Done: rng.IntN(9) - 1, Total: 8, Current: "x", Nodes: []api.Node{{Name: "control-plane-0", State: api.NodeJoining}},
		})
	case 5:
		w.Cluster.Publish(run.ID, runcontract.KeyProgress, []byte(`{"phase":1}`))
	case 6:
		w.Cluster.SetProblems(run.ID, runs.StartProblem{Reason: "FailedScheduling", Message: "0/3 nodes"})
	case 7:
		w.Cluster.Vanish(run.ID)
	default:
		result := results[rng.IntN(len(results))]
		w.Cluster.Publish(run.ID, runcontract.KeyKubeconfig, []byte("kind: Config\n"))
		code := runcontract.ExitCode(1)
		if result == &success {
			code = 0
		}
		w.Cluster.Finish(run.ID, code, result)
	}
	synctest.Wait()
}
