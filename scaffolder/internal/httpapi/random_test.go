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

// TestRandomRequests holds the service to its document: the real engine, with its
// runs in SQLite, in a cluster in memory where runs begin, report and end at
// random. KUBEOPERA_SEED repeats a run of the test.
func TestRandomRequests(t *testing.T) {
	t.Parallel()
	runapitest.Random(t, func(t *testing.T) (runapitest.API, map[string]func(*rand.Rand) any, func(*rand.Rand)) {
		t.Helper()
		w := newWorld(t, runapitest.SQLite(t, "scaffold_jobs"), 20*time.Second) // requests look as well
		return w.API, w.values(t), func(rng *rand.Rand) { w.live(t, rng) }
	})
}

// values are what the document's schemas leave to the service's rules.
func (w world) values(tb testing.TB) map[string]func(*rand.Rand) any {
	tb.Helper()
	of := func(choices ...any) func(*rand.Rand) any { return runapitest.Mostly(12, choices...) }
	// What a body is better without, mostly.
	rarely := func(choices ...any) func(*rand.Rand) any { return of(append([]any{""}, choices...)...) }
	kubeconfig := string(kubeconfigOf(tb, "token: x"))
	values := map[string]func(*rand.Rand) any{
		"domain":            of("acme.example.com", "localhost", "bücher.example"),
		"region":            of("eu-west-1", "mars"),
		"email":             of("ops@acme.example.com", "x"),
		"url":               of("https://git.example.com/acme/gitops.git", "git@git.example.com:x.git", "file:///etc"),
		"branch":            of("main", "a..b", "feature/x"),
		"provision_id":      of(provisionID, unknownID, "x"),
		"credential_id":     rarely(gitTokenID, awsKeyID, unknownID),
		"token":             rarely(canaryToken, "a b"),
		"username":          of("robot", "a:b"),
		"ssh_key":           rarely(sshKey, "x"),
		"signing_key":       rarely(sshKey, "x"),
		"known_hosts":       rarely(knownHosts, "x"),
		"kubeconfig":        rarely(kubeconfig, "x"),
		"certificate":       rarely("x"),
		"server":            of("registry.example.com:5000", "https://x"),
		"password":          of(canaryPassword, ""),
		"registry_password": of(canaryPassword, ""),
		"hostname":          of("", "x.acme.example.com", "x.other.example"),
		"mode":              of("push", "pull_request", "force"),
		"If-None-Match":     of(`"v5"`, "*", `"v1"`, `W/"v3", "v4"`),
		"services":          of(map[string]any{"gateway": map[string]any{}}, map[string]any{"nope": map[string]any{}}),
		"registry":          of(map[string]any{"server": "registry.example.com:5000", "username": "u", "password": "p"}, map[string]any{}),
		"target":            of(map[string]any{"provision_id": provisionID}, map[string]any{"kubeconfig": kubeconfig}, map[string]any{}),
		"repository": of(map[string]any{"url": "https://git.example.com/x.git", "credential_id": gitTokenID}, map[string]any{"url": "https://git.example.com/x.git", "token": "t"},
			map[string]any{"url": "git@git.example.com:x.git", "ssh_key": sshKey, "known_hosts": knownHosts}, map[string]any{"url": "x"}),
		"dry_run": of(true, false),
	}
	values["environment"] = func(rng *rand.Rand) any { return fmt.Sprint("acme-", rng.IntN(30)) }
	values["Idempotency-Key"] = func(rng *rand.Rand) any { return fmt.Sprint("key-", rng.IntN(300)) }
	values["id"] = w.ID(tb, runapitest.Live, runapitest.Succeeded(api.OperationDryRun), func(r runs.Run) bool { return r.Status == api.StatusFailed })
	values["cursor"] = func(*rand.Rand) any {
		return runapitest.Decode[api.ScaffoldList](tb, w.Do(http.MethodGet, "/api/v1/scaffolds?limit=1", "", nil)).NextCursor
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
		&success, &success, &success, &failure, &failure, nil,
		{Outcome: runcontract.OutcomeCancelled, ErrorCode: runcontract.CodeInterrupted, Phase: api.PhaseClone},
		{Outcome: runcontract.OutcomeFailed, ErrorCode: runcontract.CodeFluxFailed, Message: "\x00\xff refused", Scaffold: &api.ScaffoldOutput{GitOpsPath: "\x00"}},
	}
	switch rng.IntN(8) {
	case 0, 1:
		w.Cluster.Start(run.ID)
		w.Cluster.SetLog(run.ID, "one\ntwo\n")
	case 2:
		w.Cluster.Publish(run.ID, runcontract.KeyProgress, runcontract.Progress{
			Phase: api.PhaseSeal, Done: rng.IntN(9) - 1, Total: 7, Scaffold: &api.ScaffoldOutput{Commits: &api.ScaffoldCommits{Infrastructure: "1"}},
		})
	case 3:
		w.Cluster.Vanish(run.ID)
	default:
		result := results[rng.IntN(len(results))]
		if rng.IntN(4) > 0 {
			w.Cluster.Publish(run.ID, runcontract.KeyDiff, packed(tb, "--- a\n+++ b\n"))
		}
		code := runcontract.ExitCode(1)
		if result == &success {
			code = 0
		}
		w.Cluster.Finish(run.ID, code, result)
	}
	synctest.Wait()
}
