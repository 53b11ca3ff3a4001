package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubeopera/platform/provisioner/internal/kube"
	"github.com/kubeopera/platform/provisioner/internal/launch"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/runapi"
	"github.com/kubeopera/platform/shared/runapi/runapitest"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runs/runstest"
	"github.com/kubeopera/platform/shared/runservice"
)

const (
	gracePeriod = 20 * time.Minute
	sweep       = runapitest.Sweep
)

// world is the API over the real engine, with everything beyond in memory.
type world struct {
	fixture
	runapitest.World
}

// newWorld is one whose engine looks at its runs every interval.
func newWorld(tb testing.TB, store runs.Store, interval time.Duration) world {
	tb.Helper()
	w := world{World: runapitest.NewWorld(tb, runs.Config{
		Kind: runcontract.KindProvision, Store: store,
		Render: launch.Renderer(launch.Config{
			Namespace: "kubeopera-provisioning", ManagedBy: "cluster-provisioner", Modules: kube.Modules{RepositoryURL: "https://git.example.com/x.git", RepositoryRef: "v1"},
			Timeout: 90 * time.Minute, GracePeriod: gracePeriod, StartDeadline: 10 * time.Minute,
		}),
		MaxConcurrent: 3, GracePeriod: gracePeriod, SweepInterval: interval,
	})}
	w.fixture = serve(tb, w.Engine, time.Now)
	return w
}

// post sends a request that starts something and gives the new run.
func (w world) post(tb testing.TB, path, body string, headers map[string]string) api.Provision {
	tb.Helper()
	return runapitest.Post[api.Provision](tb, w.API, "/provisions"+path, body, headers)
}

func (w world) get(tb testing.TB, id string) api.Provision {
	tb.Helper()
	return runapitest.Decode[api.Provision](tb, w.Do(http.MethodGet, "/api/v1/provisions/"+id, "", nil))
}

var (
	success    = runcontract.Result{Outcome: runcontract.OutcomeSucceeded, Phase: api.PhaseDone}
	failApply  = runcontract.Result{Outcome: runcontract.OutcomeFailed, Phase: api.PhaseApply, ErrorCode: runcontract.CodeTerraformApply, Message: "no"}
	failRescue = runcontract.Result{Outcome: runcontract.OutcomeFailed, Phase: api.PhaseApply, ErrorCode: runcontract.CodeStateNotSaved, Message: "no"}
)

// build provisions a cluster: a run that succeeds.
func (w world) build(tb testing.TB, body string) api.Provision {
	tb.Helper()
	run := w.post(tb, "", body, nil)
	w.Begin(tb, run.ID)
	w.Cluster.Publish(runs.ID(run.ID), runcontract.KeyKubeconfig, []byte("kind: Config\n"))
	w.Finish(tb, run.ID, success)
	return run
}

// evict ends a run as a node does that needs the room: without a result.
func (w world) evict(id string) {
	w.Cluster.Finish(runs.ID(id), 128+runcontract.ExitCode(syscall.SIGKILL), nil)
	pod := runstest.Pod(corev1.PodFailed, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 128 + int32(syscall.SIGKILL)}})
	pod.Status.Reason = "Evicted"
	w.Cluster.SetPod(runs.ID(id), pod)
}

func (w world) spec(tb testing.TB, id string) runcontract.Spec {
	tb.Helper()
	runapitest.Pass(2 * sweep)
	spec, err := runcontract.ReadSpec([]byte(w.Cluster.Files(runs.ID(id))[runcontract.SpecFile]))
	if err != nil {
		tb.Fatal(err)
	}
	return spec
}

func TestTheSameKeyGivesTheSameRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runstest.NewStore(), sweep)
		key := map[string]string{"Idempotency-Key": "one"}
		first := w.Do(http.MethodPost, "/api/v1/provisions", smallest, key)
		if first.Code != http.StatusAccepted || first.Header().Get("Idempotent-Replayed") != "" {
			t.Fatalf("status %d, headers %v", first.Code, first.Header())
		}
		run := runapitest.Decode[api.Provision](t, first)
		w.credentials.fail = cloudcred.ErrUnavailable // a repetition needs no credential
		var fields map[string]any
		if err := json.Unmarshal([]byte(smallest), &fields); err != nil {
			t.Fatal(err)
		}
		indented, err := json.MarshalIndent(fields, "", "  ") // in another order too
		if err != nil {
			t.Fatal(err)
		}
		for name, r := range map[string]struct{ key, body string }{
			"the same bytes": {"one", smallest}, "the same in other bytes": {"one", string(indented)}, "a key in quotes": {`"one"`, smallest},
		} {
			again := w.Do(http.MethodPost, "/api/v1/provisions", r.body, map[string]string{"Idempotency-Key": r.key})
			if again.Code != http.StatusAccepted || again.Header().Get("Idempotent-Replayed") != "true" || again.Header().Get("Location") != first.Header().Get("Location") {
				t.Errorf("%s: status %d, headers %v, body %s", name, again.Code, again.Header(), again.Body)
			}
		}
		runapitest.Refused(t, w.Do(http.MethodPost, "/api/v1/provisions", strings.Replace(smallest, "acme", "acne", 1), key), http.StatusUnprocessableEntity, runapi.CodeIdempotencyKeyReused)
		runapitest.Refused(t, w.Do(http.MethodDelete, "/api/v1/provisions/"+run.ID, "", key), http.StatusUnprocessableEntity, runapi.CodeIdempotencyKeyReused)
		runapitest.Refused(t, w.Do(http.MethodPost, "/api/v1/provisions", smallest, map[string]string{"Idempotency-Key": "one", "X-Api-Key": runapitest.OtherKey}),
			http.StatusBadGateway, runapi.CodeAuthServiceUnavailable) // a caller's keys are its own

		w.Begin(t, run.ID)
		w.Finish(t, run.ID, success)
		if again := runapitest.Decode[api.Provision](t, w.Do(http.MethodPost, "/api/v1/provisions", smallest, key)); again.ID != run.ID || again.Status != api.StatusSucceeded {
			t.Errorf("after the run has ended: %+v", again)
		}
	})
}

// TestARepetitionIsNotJudgedAnew: what was accepted stays accepted, by whatever
// rules the service has now.
func TestARepetitionIsNotJudgedAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runstest.NewStore(), sweep)
		key := map[string]string{"Idempotency-Key": "one"}
		run := w.post(t, "", smallest, key)
		stricter := serve(t, w.Engine, time.Now, "acme-prod") // a reserved environment now
		runapitest.Refused(t, stricter.Do(http.MethodPost, "/api/v1/provisions", smallest, nil), http.StatusUnprocessableEntity, "invalid_request")
		if again := stricter.Do(http.MethodPost, "/api/v1/provisions", smallest, key); again.Code != http.StatusAccepted || runapitest.Decode[api.Provision](t, again).ID != run.ID {
			t.Errorf("status %d: %s", again.Code, again.Body)
		}
		misspelt := strings.Replace(smallest, `{`, `{"colour":"blue",`, 1) // what it is without that field
		runapitest.Refused(t, stricter.Do(http.MethodPost, "/api/v1/provisions", misspelt, key), http.StatusUnprocessableEntity, "invalid_request")
	})
}

func TestWatchingARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runstest.NewStore(), sweep)
		run := w.post(t, "", smallest, nil)
		w.Begin(t, run.ID)
		path := "/api/v1/provisions/" + run.ID
		first := w.Do(http.MethodGet, path, "", nil)
		tag := first.Header().Get("ETag")
		if !strings.HasPrefix(tag, `"v`) {
			t.Fatalf("ETag %q", tag)
		}
		ask := func(query, tags string) (answer *httptest.ResponseRecorder, took time.Duration) {
			start := time.Now()
			answer = w.Do(http.MethodGet, path+query, "", map[string]string{"If-None-Match": tags})
			return answer, time.Since(start)
		}
		for _, tags := range []string{tag, `W/` + tag, `"v0", ` + tag, "*"} {
			if answer, _ := ask("", tags); answer.Code != http.StatusNotModified || answer.Body.Len() > 0 || answer.Header().Get("ETag") != tag {
				t.Errorf("If-None-Match %s: status %d, headers %v, body %s", tags, answer.Code, answer.Header(), answer.Body)
			}
		}
		if answer, _ := ask("", `"v0"`); answer.Code != http.StatusOK {
			t.Errorf("another revision: status %d", answer.Code)
		}
		if answer, took := ask("?wait=30s", `"v0"`); answer.Code != http.StatusOK || took != 0 {
			t.Errorf("a revision that has passed: status %d after %s", answer.Code, took)
		}
		if answer, took := ask("?wait=10s", tag); answer.Code != http.StatusNotModified || took != 10*time.Second {
			t.Errorf("without a change: status %d after %s", answer.Code, took)
		}
		go func() {
			runapitest.Pass(5 * time.Second)
			w.Cluster.Publish(runs.ID(run.ID), runcontract.KeyProgress, runcontract.Progress{Phase: api.PhaseApply, Done: 1, Total: 3})
		}()
		answer, took := ask("?wait=60s", tag)
		if got := runapitest.Decode[api.Provision](t, answer); answer.Code != http.StatusOK || got.Progress == nil || took < 5*time.Second || took > 15*time.Second {
			t.Errorf("a change: status %d after %s: %+v", answer.Code, took, got)
		}
		w.Finish(t, run.ID, success)
		last, _ := ask("", "")
		if answer, took := ask("?wait=60s", last.Header().Get("ETag")); answer.Code != http.StatusNotModified || took != 0 {
			t.Errorf("of a run that has ended: status %d after %s", answer.Code, took)
		}
		runapitest.Refused(t, w.Do(http.MethodGet, path+"?wait=61s", "", nil), http.StatusUnprocessableEntity, "invalid_request")
	})
}

// TestTheETagKnowsTheQueue: a place in the queue changes without the run.
func TestTheETagKnowsTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runstest.NewStore(), sweep)
		var list []api.Provision
		for _, name := range []string{"one", "two", "three", "four", "five"} {
			list = append(list, w.post(t, "", strings.Replace(smallest, "acme-prod", name, 1), nil))
		}
		runapitest.Pass(2 * sweep)
		path := "/api/v1/provisions/" + list[4].ID
		first := w.Do(http.MethodGet, path, "", nil)
		if got := runapitest.Decode[api.Provision](t, first); got.QueuePosition != 2 {
			t.Fatalf("position %d, want 2", got.QueuePosition)
		}
		w.post(t, "/"+list[3].ID+"/cancel", "", nil)
		second := w.Do(http.MethodGet, path, "", map[string]string{"If-None-Match": first.Header().Get("ETag")})
		if second.Code != http.StatusOK || runapitest.Decode[api.Provision](t, second).QueuePosition != 1 {
			t.Errorf("status %d: %s", second.Code, second.Body)
		}
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runstest.NewStore(), sweep)
		run := w.post(t, "", smallest, nil)
		w.Begin(t, run.ID)
		path := "/api/v1/provisions/" + run.ID + "/cancel"
		const force = `{"force":true}`
		runapitest.Refused(t, w.Do(http.MethodPost, path, force, nil), http.StatusConflict, runapi.CodeCancelTooEarly)
		answer := w.Do(http.MethodPost, path, "", map[string]string{"Content-Type": ""})
		if got := runapitest.Decode[api.Provision](t, answer); answer.Code != http.StatusAccepted || got.Status != api.StatusCancelling || answer.Header().Get("Location") != "/api/v1/provisions/"+run.ID {
			t.Errorf("status %d: %+v", answer.Code, got)
		}
		if again := w.post(t, "/"+run.ID+"/cancel", `{}`, nil); again.Status != api.StatusCancelling {
			t.Errorf("cancelled again: %+v", again)
		}
		if p := runapitest.Refused(t, w.Do(http.MethodPost, path, force, nil), http.StatusConflict, runapi.CodeCancelTooEarly); !strings.Contains(p.Detail, "until 20") {
			t.Errorf("it does not say from when on: %s", p.Detail)
		}
		runapitest.Pass(gracePeriod)
		if w.post(t, "/"+run.ID+"/cancel", force, nil); w.Cluster.Killed(runs.ID(run.ID)) != 1 {
			t.Error("the pod was not killed")
		}
		w.Finish(t, run.ID, runcontract.Result{Outcome: runcontract.OutcomeCancelled, ErrorCode: runcontract.CodeInterrupted})
		if got := w.get(t, run.ID); got.Status != api.StatusCancelled {
			t.Errorf("it has ended as %+v", got)
		}
		runapitest.Refused(t, w.Do(http.MethodPost, path, "", nil), http.StatusConflict, runapi.CodeRunEnded)
	})
}

func TestEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runstest.NewStore(), sweep)
		run := w.post(t, "", smallest, nil)
		w.Begin(t, run.ID)
		w.post(t, "/"+run.ID+"/cancel", "", map[string]string{"X-Api-Key": runapitest.OtherKey})
		list := runapitest.Decode[api.EventList](t, w.Do(http.MethodGet, "/api/v1/provisions/"+run.ID+"/events", "", nil)).Events
		var got []string
		for _, e := range list {
			if e.By != "" {
				got = append(got, string(e.Status)+" by "+e.By)
			}
		}
		if diff := cmp.Diff([]string{"queued by tester", "cancelling by other"}, got); diff != "" || len(list) < 3 {
			t.Errorf("%d events; what was asked for (-want +got):\n%s", len(list), diff)
		}
		runapitest.Refused(t, w.Do(http.MethodGet, "/api/v1/provisions/01938f3a-1c2d-7abc-8def-000000000099/events", "", nil), http.StatusNotFound, "provision_not_found")
	})
}

func TestRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runstest.NewStore(), sweep)
		first := w.post(t, "", strings.Replace(smallest, `{`, `{"tags":{"team":"a"},`, 1), nil)
		runapitest.Refused(t, w.Do(http.MethodPost, "/api/v1/provisions/"+first.ID+"/retry", "", nil), http.StatusConflict, runapi.CodeRunNotEnded)
		w.Begin(t, first.ID)
		w.Finish(t, first.ID, failApply)

		second := w.post(t, "/"+first.ID+"/retry", "", map[string]string{"Idempotency-Key": "retry"})
		if second.RetryOf != first.ID || second.Operation != api.OperationApply || second.Name != first.Name {
			t.Errorf("the retry is %+v", second)
		}
		if again := w.post(t, "/"+first.ID+"/retry", "", map[string]string{"Idempotency-Key": "retry"}); again.ID != second.ID {
			t.Errorf("the same request again started %s", again.ID)
		}
		spec := w.spec(t, second.ID)
		if diff := cmp.Diff([]string{first.ID}, spec.EndedRuns); diff != "" || spec.Tags["team"] != "a" {
			t.Errorf("spec %+v, ended runs (-want +got):\n%s", spec, diff)
		}
		w.Begin(t, second.ID)
		w.Finish(t, second.ID, success)
		runapitest.Refused(t, w.Do(http.MethodPost, "/api/v1/provisions/"+second.ID+"/retry", "", nil), http.StatusConflict, runapi.CodeRunSucceeded)

		third := w.post(t, "/"+first.ID+"/retry", "", nil)
		if spec := w.spec(t, third.ID); len(spec.EndedRuns) > 0 {
			t.Errorf("runs before the newest success are told of: %v", spec.EndedRuns)
		}
		w.post(t, "/"+third.ID+"/cancel", "", nil)
	})
}

// TestARetryMovesNothing: what a run was to build may have been built elsewhere since.
func TestARetryMovesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runstest.NewStore(), sweep)
		first := w.post(t, "", strings.Replace(smallest, `"eu-west-1"`, `"us-east-1"`, 1), nil)
		w.Begin(t, first.ID)
		w.Finish(t, first.ID, runcontract.Result{Outcome: runcontract.OutcomeFailed, Phase: api.PhaseInit, ErrorCode: runcontract.CodeTerraformInit})
		w.build(t, smallest)
		runapitest.Refused(t, w.Do(http.MethodPost, "/api/v1/provisions/"+first.ID+"/retry", "", nil), http.StatusConflict, codeEnvironmentImmutable)
	})
}

// TestMachinesOfAnEnvironment may be added to, and left out only on purpose; there
// is no state to unlock.
func TestMachinesOfAnEnvironment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runstest.NewStore(), sweep)
		machine := func(last, role string) string {
			return `{"address":"192.0.2.` + last + `","role":"` + role + `","user":"ubuntu","host_key":"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBqi3w9OQDkG1aG4dQG3ohUoyWlJsKvfMTeWyrK9y1bS"}`
		}
		request := func(rest string, machines ...string) string {
			return `{"name":"metal","topology":"existing_machines","kubernetes_version":"1.36.3","ssh_credential_id":"3f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b","machines":[` +
				strings.Join(machines, ",") + `]` + rest + `}`
		}
		controlPlane, worker := machine("10", "control-plane"), machine("11", "worker")
		w.build(t, request("", controlPlane, worker))
		refused := func(body string) {
			t.Helper()
			runapitest.Refused(t, w.Do(http.MethodPost, "/api/v1/provisions", body, nil), http.StatusConflict, codeEnvironmentImmutable)
		}
		refused(request("", controlPlane))
		refused(request("", machine("11", "control-plane"), machine("10", "worker")))
		refused(request(`,"control_plane_endpoint":"api.example.com"`, controlPlane, worker))
		refused(request(`,"allow_replacement":true,"control_plane_endpoint":"192.0.2.10"`, machine("12", "control-plane"), worker))
		built := w.build(t, request("", controlPlane, worker, machine("12", "worker")))
		if spec := w.spec(t, built.ID); len(spec.Machines) != 3 || spec.State.Bucket != "" {
			t.Errorf("spec %+v", spec)
		}
		last := w.build(t, request(`,"allow_replacement":true`, controlPlane))
		runapitest.Refused(t, w.Do(http.MethodPost, "/api/v1/provisions/"+last.ID+"/unlock", `{"lock_id":"6f1d5c1e-7c1b-4a53-9d3e-0f5f3f6b2a10"}`, nil), http.StatusConflict, codeNoState)
		destroy := runapitest.Decode[api.Provision](t, w.Do(http.MethodDelete, "/api/v1/provisions/"+built.ID, "", nil))
		if spec := w.spec(t, destroy.ID); len(spec.Machines) != 1 || spec.Operation != api.OperationDestroy {
			t.Errorf("spec of the destroy %+v", spec)
		}
	})
}

// TestWhatEarlierRunsMean: only a run that was seen to end left a lock that
// nobody holds, and only one that could not save its state left one.
func TestWhatEarlierRunsMean(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runstest.NewStore(), sweep)
		lost := w.post(t, "", smallest, nil)
		w.Begin(t, lost.ID)
		w.Cluster.Vanish(runs.ID(lost.ID))
		runapitest.Pass(2 * sweep)
		evicted := w.post(t, "", smallest, nil)
		w.Begin(t, evicted.ID)
		w.evict(evicted.ID)
		runapitest.Pass(2 * sweep)
		if got := w.get(t, evicted.ID); got.ErrorCode != string(runs.CodeEvicted) {
			t.Fatalf("the evicted run is %+v", got)
		}
		never := w.post(t, "", smallest, nil)
		w.post(t, "/"+never.ID+"/cancel", "", nil) // if it was launched, nothing has begun
		runapitest.Pass(2 * sweep)
		unsaved := w.post(t, "", smallest, nil)
		w.Begin(t, unsaved.ID)
		w.Finish(t, unsaved.ID, failRescue)
		failed := w.post(t, "", smallest, nil)
		w.Begin(t, failed.ID)
		w.Finish(t, failed.ID, failApply)

		next := w.post(t, "", smallest, nil)
		spec := w.spec(t, next.ID)
		for _, id := range []string{failed.ID, unsaved.ID} {
			if !strings.Contains(strings.Join(spec.EndedRuns, " "), id) {
				t.Errorf("ended runs %v lack %s", spec.EndedRuns, id)
			}
		}
		for _, id := range []string{lost.ID, evicted.ID} {
			if strings.Contains(strings.Join(spec.EndedRuns, " "), id) {
				t.Errorf("ended runs %v have %s, of which nobody knows", spec.EndedRuns, id)
			}
		}
		if spec.RescuedRun != unsaved.ID {
			t.Errorf("the state is that of run %q, want %s", spec.RescuedRun, unsaved.ID)
		}
		mounted := false
		for _, v := range w.Cluster.Job(runs.ID(next.ID)).Spec.Template.Spec.Volumes {
			mounted = mounted || v.Secret != nil && v.Secret.SecretName == runcontract.OutputsSecretName(runcontract.KindProvision, unsaved.ID)
		}
		if !mounted {
			t.Error("the rescued state is not mounted")
		}
	})
}

func TestDestroy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runstest.NewStore(), sweep)
		elsewhere := strings.Replace(smallest, "eu-west-1", "us-east-1", 1)
		planned := w.post(t, "", strings.Replace(smallest, `{`, `{"operation":"plan",`, 1), nil)
		w.Begin(t, planned.ID)
		w.Finish(t, planned.ID, success)
		runapitest.Refused(t, w.Do(http.MethodDelete, "/api/v1/provisions/"+planned.ID, "", nil), http.StatusConflict, codeNothingToDestroy)

		built := w.build(t, smallest)
		runapitest.Refused(t, w.Do(http.MethodPost, "/api/v1/provisions", elsewhere, nil), http.StatusConflict, codeEnvironmentImmutable)
		destroy := func(id string) api.Provision {
			answer := w.Do(http.MethodDelete, "/api/v1/provisions/"+id, "", nil)
			if answer.Code != http.StatusAccepted {
				t.Fatalf("status %d: %s", answer.Code, answer.Body)
			}
			return runapitest.Decode[api.Provision](t, answer)
		}
		first := destroy(planned.ID) // any run of the environment names it
		if first.Operation != api.OperationDestroy || first.ID == built.ID || first.Region != "eu-west-1" {
			t.Errorf("the destroy is %+v", first)
		}
		runapitest.Refused(t, w.Do(http.MethodDelete, "/api/v1/provisions/"+built.ID, "", nil), http.StatusConflict, runapi.CodeEnvironmentBusy)
		w.Begin(t, first.ID)
		w.Finish(t, first.ID, runcontract.Result{Outcome: runcontract.OutcomeFailed, Phase: api.PhaseDestroy, ErrorCode: runcontract.CodeTerraformApply, Message: "no"})
		kubeconfig := "/api/v1/provisions/" + built.ID + "/kubeconfig"
		if answer := w.Do(http.MethodGet, kubeconfig, "", nil); answer.Code != http.StatusOK {
			t.Errorf("after a destroy that failed: status %d", answer.Code)
		}
		runapitest.Refused(t, w.Do(http.MethodPost, "/api/v1/provisions", elsewhere, nil), http.StatusConflict, codeEnvironmentImmutable)

		second := w.post(t, "/"+first.ID+"/retry", "", nil)
		if second.Operation != api.OperationDestroy || second.RetryOf != first.ID {
			t.Errorf("the retry is %+v", second)
		}
		w.Begin(t, second.ID)
		w.Finish(t, second.ID, success)
		if p := runapitest.Refused(t, w.Do(http.MethodGet, kubeconfig, "", nil), http.StatusGone, codeKubeconfigGone); p.Instance != "/api/v1/provisions/"+second.ID {
			t.Errorf("the problem does not name the destroy: %+v", p)
		}
		runapitest.Refused(t, w.Do(http.MethodDelete, "/api/v1/provisions/"+built.ID, "", nil), http.StatusConflict, codeNothingToDestroy)
		anew := w.build(t, elsewhere)
		if answer := w.Do(http.MethodGet, "/api/v1/provisions/"+anew.ID+"/kubeconfig", "", nil); answer.Code != http.StatusOK {
			t.Errorf("built anew: status %d", answer.Code)
		}
	})
}

// TestDestroyTakesTheNewestApply, that is the inputs and the credential of it.
func TestDestroyTakesTheNewestApply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runstest.NewStore(), sweep)
		first := w.build(t, smallest)
		const newer = "0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5c"
		w.build(t, strings.Replace(smallest, "0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b", newer, 1))
		run := runapitest.Decode[api.Provision](t, w.Do(http.MethodDelete, "/api/v1/provisions/"+first.ID, "", nil))
		if run.CredentialID != newer {
			t.Errorf("the destroy uses credential %s", run.CredentialID)
		}
	})
}

func TestACredentialThatIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runstest.NewStore(), sweep)
		built := w.build(t, smallest)
		w.credentials.fail = cloudcred.ErrNotFound
		runapitest.Refused(t, w.Do(http.MethodDelete, "/api/v1/provisions/"+built.ID, "", nil), http.StatusConflict, runapi.CodeCredentialUnusable)
	})
}

func TestUnlock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runstest.NewStore(), sweep)
		const body = `{"lock_id":"6F1D5C1E-7c1b-4a53-9d3e-0f5f3f6b2a10"}`
		run := w.post(t, "", smallest, nil)
		w.Begin(t, run.ID)
		path := "/api/v1/provisions/" + run.ID + "/unlock"
		if p := runapitest.Refused(t, w.Do(http.MethodPost, path, body, nil), http.StatusConflict, codeEnvironmentOccupied); !strings.Contains(p.Detail, "provision-"+run.ID) {
			t.Errorf("the problem does not name the pod: %s", p.Detail)
		}
		locked := runcontract.Result{
			Outcome: runcontract.OutcomeFailed, Phase: api.PhasePlan, ErrorCode: runcontract.CodeStateLocked, Message: "locked",
			Lock: &api.StateLock{ID: "6f1d5c1e-7c1b-4a53-9d3e-0f5f3f6b2a10", Who: "root@elsewhere"},
		}
		w.Finish(t, run.ID, locked)
		if got := w.get(t, run.ID); got.Lock == nil || got.Lock.ID != locked.Lock.ID {
			t.Errorf("the run does not show the lock: %+v", got)
		}
		for _, wrong := range []string{`{"lock_id":"x"}`, `{}`, `{"lock_id":""}`} {
			runapitest.Refused(t, w.Do(http.MethodPost, path, wrong, nil), http.StatusUnprocessableEntity, "invalid_request")
		}
		unlock := w.post(t, "/"+run.ID+"/unlock", body, nil)
		if spec := w.spec(t, unlock.ID); unlock.Operation != api.OperationUnlock || spec.LockID != "6f1d5c1e-7c1b-4a53-9d3e-0f5f3f6b2a10" || spec.Operation != api.OperationUnlock {
			t.Errorf("run %+v, spec %+v", unlock, spec)
		}
		w.Begin(t, unlock.ID)
		w.Finish(t, unlock.ID, runcontract.Result{Outcome: runcontract.OutcomeFailed, Phase: api.PhaseUnlock, ErrorCode: runcontract.CodeUnlockRefused, Message: "no"})
		again := w.post(t, "/"+unlock.ID+"/retry", "", nil)
		if spec := w.spec(t, again.ID); spec.LockID != "6f1d5c1e-7c1b-4a53-9d3e-0f5f3f6b2a10" {
			t.Errorf("the retry has lost the lock: %+v", spec)
		}
	})
}

func TestAPlanSettlesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runstest.NewStore(), sweep)
		plan := w.post(t, "", strings.Replace(smallest, `{`, `{"operation":"plan",`, 1), nil)
		w.Begin(t, plan.ID)
		w.Finish(t, plan.ID, runcontract.Result{Outcome: runcontract.OutcomeSucceeded, Message: "plan: 3 to add, 1 to change, 0 to destroy", Changes: &api.Changes{Add: 3, Change: 1}})
		got := w.get(t, plan.ID)
		if diff := cmp.Diff(&api.Changes{Add: 3, Change: 1}, got.Changes); diff != "" || got.Operation != api.OperationPlan {
			t.Errorf("run %+v, changes (-want +got):\n%s", got, diff)
		}
		runapitest.Refused(t, w.Do(http.MethodGet, "/api/v1/provisions/"+plan.ID+"/kubeconfig", "", nil), http.StatusConflict, codeKubeconfigNotReady)
		w.build(t, strings.Replace(smallest, "eu-west-1", "us-east-1", 1))
	})
}

func TestACredentialThatIsARole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runstest.NewStore(), sweep)
		w.credentials.role = true
		runapitest.Refused(t, w.Do(http.MethodPost, "/api/v1/provisions", strings.Replace(smallest, `{`, `{"kubeconfig_auth":"embedded_credential",`, 1), nil),
			http.StatusUnprocessableEntity, "invalid_request")
		run := w.post(t, "", smallest, nil)
		if spec := w.spec(t, run.ID); spec.KubeconfigAuth != api.KubeconfigAuthExecOnly {
			t.Errorf("kubeconfig_auth %s", spec.KubeconfigAuth)
		}
		w.post(t, "/"+run.ID+"/cancel", "", nil)
		w.credentials.ends = time.Now().Add(time.Hour) // its base's session, shorter than a run
		runapitest.Refused(t, w.Do(http.MethodPost, "/api/v1/provisions", strings.Replace(smallest, "acme-prod", "other", 1), nil), http.StatusUnprocessableEntity, "invalid_request")
	})
}

// TestTheListIsFiltered, and a cursor belongs to its filter.
func TestTheListIsFiltered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runstest.NewStore(), sweep)
		first := w.build(t, smallest)
		runapitest.Pass(time.Hour)
		then := time.Now().UTC().Format(time.RFC3339)
		w.build(t, smallest)
		destroy := runapitest.Decode[api.Provision](t, w.Do(http.MethodDelete, "/api/v1/provisions/"+first.ID, "", nil))
		ids := func(query string) (ids []string, next string) {
			list := runapitest.Decode[api.ProvisionList](t, w.Do(http.MethodGet, "/api/v1/provisions"+query, "", nil))
			for _, p := range list.Provisions {
				ids = append(ids, p.ID)
			}
			return ids, list.NextCursor
		}
		if got, _ := ids("?operation=destroy"); len(got) != 1 || got[0] != destroy.ID {
			t.Errorf("destroys %v", got)
		}
		if got, _ := ids("?created_after=" + then); len(got) != 2 {
			t.Errorf("after: %v", got)
		}
		if got, _ := ids("?created_before=" + then); len(got) != 1 || got[0] != first.ID {
			t.Errorf("before: %v", got)
		}
		_, next := ids("?limit=1&environment=acme-prod")
		if got, _ := ids("?limit=2&environment=acme-prod&cursor=" + next); len(got) != 2 {
			t.Errorf("next page %v", got)
		}
		runapitest.Refused(t, w.Do(http.MethodGet, "/api/v1/provisions?cursor="+next, "", nil), http.StatusUnprocessableEntity, "invalid_request")
		runapitest.Refused(t, w.Do(http.MethodGet, "/api/v1/provisions?created_after=yesterday", "", nil), http.StatusUnprocessableEntity, "invalid_request")
	})
}

var _ runservice.Runs = (*runs.Engine)(nil)
