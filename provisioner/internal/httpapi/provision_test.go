package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/provisioner/internal/provision"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/golden"
	"github.com/kubeopera/platform/shared/runapi"
	"github.com/kubeopera/platform/shared/runapi/runapitest"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runservice"
)

const smallest = `{"name":"acme-prod","topology":"eks","region":"eu-west-1","credential_id":"0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b","kubernetes_version":"1.35"}`

func (f fixture) start(tb testing.TB, body string) api.Provision {
	tb.Helper()
	w := f.Do(http.MethodPost, "/api/v1/provisions", body, nil)
	if w.Code != http.StatusAccepted {
		tb.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return runapitest.Decode[api.Provision](tb, w)
}

func TestStartAnswersWithTheNewRun(t *testing.T) {
	t.Parallel()
	f := setup(t)
	w := f.Do(http.MethodPost, "/api/v1/provisions", smallest, nil)
	got := runapitest.Decode[api.Provision](t, w)
	at := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	want := api.Provision{
		ID: "01938f3a-1c2d-7abc-8def-000000000001", Name: "acme-prod", TerraformEnvironment: "acme-prod", Topology: api.TopologyEKS,
		Region: "eu-west-1", CredentialID: "0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b", KubernetesVersion: "1.35",
		Operation: api.OperationApply, RequestedBy: "tester",
		RunStatus: api.RunStatus{Status: api.StatusQueued, Phase: api.PhaseWaitingForSlot, QueuePosition: 1, CreatedAt: at, UpdatedAt: at},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("run (-want +got):\n%s", diff)
	}
	if w.Code != http.StatusAccepted || w.Header().Get("Location") != "/api/v1/provisions/"+want.ID || w.Header().Get("Retry-After") == "" {
		t.Errorf("status %d, headers %v", w.Code, w.Header())
	}
	if f.credentials.calls != 1 {
		t.Errorf("the credential was resolved %d times, want once", f.credentials.calls)
	}
	started := f.runs.started[0]
	if len(started.Credential) == 0 {
		t.Error("the run has no credential files")
	}
	in, err := provision.ReadInputs(started.Inputs)
	if err != nil {
		t.Fatal(err)
	}
	if in.KubeconfigAuth != api.KubeconfigAuthEmbedded {
		t.Errorf("kubeconfig_auth %q, want the default of access keys", in.KubeconfigAuth)
	}
	if strings.Contains(string(started.Inputs), "AKIA") {
		t.Errorf("the stored inputs hold the credential: %s", started.Inputs)
	}
}

func TestUnknownFieldsGetASuggestion(t *testing.T) {
	t.Parallel()
	f := setup(t)
	w := f.Do(http.MethodPost, "/api/v1/provisions", strings.Replace(smallest, `{`, `{"worker_cuont":3,`, 1), nil)
	p := runapitest.Decode[api.Problem](t, w)
	if len(p.Errors) != 1 || !strings.Contains(p.Errors[0].Message, "worker_count") {
		t.Errorf("problems %+v, want one that suggests worker_count", p.Errors)
	}
}

// TestFormAndValuesTogether: a mistyped field does not hide what is wrong elsewhere.
func TestFormAndValuesTogether(t *testing.T) {
	t.Parallel()
	f := setup(t)
	body := strings.NewReplacer(`"eu-west-1"`, `"eu-mars-1"`, `{"name"`, `{"worker_count":"2","colour":"blue","name"`).Replace(smallest)
	p := runapitest.Decode[api.Problem](t, f.Do(http.MethodPost, "/api/v1/provisions", body, nil))
	var got []string
	for _, e := range p.Errors {
		got = append(got, e.Location)
	}
	if diff := cmp.Diff([]string{"body.colour", "body.region", "body.worker_count"}, got); diff != "" {
		t.Errorf("locations (-want +got):\n%s", diff)
	}
}

func TestABusyEnvironmentNamesItsRun(t *testing.T) {
	t.Parallel()
	f := setup(t)
	first := f.start(t, smallest)
	w := f.Do(http.MethodPost, "/api/v1/provisions", smallest, nil)
	p := runapitest.Decode[api.Problem](t, w)
	if w.Code != http.StatusConflict || p.Code != runapi.CodeEnvironmentBusy || p.Instance != "/api/v1/provisions/"+first.ID || !strings.Contains(p.Detail, first.ID) {
		t.Errorf("status %d, problem %+v", w.Code, p)
	}
}

func TestAnEnvironmentStaysWhereItWasBuilt(t *testing.T) {
	t.Parallel()
	elsewhere := strings.Replace(smallest, "eu-west-1", "us-east-1", 1)
	otherRange := strings.Replace(smallest, `{`, `{"vpc_cidr":"10.1.0.0/16",`, 1)
	ended := func(status api.Status, phase api.Phase, code runcontract.ErrorCode) func(*runs.Run) {
		return func(r *runs.Run) { r.Status, r.Phase, r.ErrorCode = status, phase, string(code) }
	}
	cases := []struct {
		name   string
		before func(*runs.Run)
		body   string
		want   string // the problem's code; empty: accepted
	}{
		{"another region", ended(api.StatusSucceeded, api.PhaseDone, ""), elsewhere, codeEnvironmentImmutable},
		{"another range of the VPC", ended(api.StatusSucceeded, api.PhaseDone, ""), otherRange, codeEnvironmentImmutable},
		{"the same request", ended(api.StatusSucceeded, api.PhaseDone, ""), smallest, ""},
		{"after an apply that failed", ended(api.StatusFailed, api.PhaseApply, runcontract.CodeTerraformApply), elsewhere, codeEnvironmentImmutable},
		{"after a plan that failed", ended(api.StatusFailed, api.PhasePlan, runcontract.CodeTerraformPlan), elsewhere, ""},
		{"after a run whose end nobody saw", ended(api.StatusFailed, api.PhasePlan, runs.CodeLost), elsewhere, codeEnvironmentImmutable},
		{"after a run whose pod was evicted", ended(api.StatusFailed, api.PhasePlan, runs.CodeEvicted), elsewhere, codeEnvironmentImmutable},
		{"while a run is live", ended(api.StatusRunning, api.PhaseInit, ""), elsewhere, codeEnvironmentImmutable},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			first := f.start(t, smallest)
			f.runs.change(c.before)
			w := f.Do(http.MethodPost, "/api/v1/provisions", c.body, nil)
			if c.want == "" {
				if w.Code != http.StatusAccepted {
					t.Errorf("status %d: %s", w.Code, w.Body)
				}
				return
			}
			p := runapitest.Decode[api.Problem](t, w)
			if w.Code != http.StatusConflict || p.Code != c.want || p.Instance != "/api/v1/provisions/"+first.ID {
				t.Errorf("status %d, problem %+v", w.Code, p)
			}
		})
	}
}

// TestAKubeadmClusterStaysWhatItIs changes what its nodes were made with.
func TestAKubeadmClusterStaysWhatItIs(t *testing.T) {
	t.Parallel()
	built := func(change string) string {
		return `{` + change + `"name":"acme","topology":"vanilla_kubeadm","region":"eu-west-1","credential_id":"0f8b7a52-2f3c-4b63-9a0e-0c1d2e3f4a5b"}`
	}
	three := built(`"kubernetes_version":"1.36.3","control_plane_count":3,`)
	cases := []struct {
		name, body string
		want       int
	}{
		{"the same request", three, http.StatusAccepted},
		{"five control planes in place of three", built(`"kubernetes_version":"1.36.3","control_plane_count":5,`), http.StatusAccepted},
		{"one in place of several", built(`"kubernetes_version":"1.36.3","control_plane_count":1,`), http.StatusConflict},
		{"another range of pods", built(`"kubernetes_version":"1.36.3","control_plane_count":3,"pod_cidr":"172.16.0.0/16",`), http.StatusConflict},
		{"another version, which nodes do not upgrade to", built(`"kubernetes_version":"1.35.7","control_plane_count":3,`), http.StatusConflict},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.start(t, three)
			f.runs.change(func(r *runs.Run) { r.Status, r.Phase = api.StatusSucceeded, api.PhaseDone })
			if w := f.Do(http.MethodPost, "/api/v1/provisions", c.body, nil); w.Code != c.want {
				t.Errorf("status %d, want %d: %s", w.Code, c.want, w.Body)
			}
		})
	}
}

// TestEveryEarlierRunIsLookedAt puts more runs that built nothing than a page
// holds after the one that did.
func TestEveryEarlierRunIsLookedAt(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.start(t, smallest)
	f.runs.change(func(r *runs.Run) { r.Status, r.Phase = api.StatusSucceeded, api.PhaseDone })
	for range runservice.MaxPage {
		f.start(t, smallest)
		f.runs.change(func(r *runs.Run) { r.Status, r.Phase = api.StatusFailed, api.PhasePlan })
	}
	w := f.Do(http.MethodPost, "/api/v1/provisions", strings.Replace(smallest, "eu-west-1", "us-east-1", 1), nil)
	if p := runapitest.Decode[api.Problem](t, w); p.Code != codeEnvironmentImmutable {
		t.Errorf("status %d, problem %+v", w.Code, p)
	}
}

func TestFailuresOfOthersHaveStableCodes(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		set    func(fixture)
		status int
		code   string
	}{
		{"auth-service is down", func(f fixture) { f.credentials.fail = fmt.Errorf("get: %w", cloudcred.ErrUnavailable) }, http.StatusBadGateway, runapi.CodeAuthServiceUnavailable},
		{"auth-service refuses our key", func(f fixture) { f.credentials.fail = fmt.Errorf("get: %w", cloudcred.ErrForbidden) }, http.StatusBadGateway, runapi.CodeAuthServiceForbidden},
		{"a kind of credential that does not work yet", func(f fixture) { f.credentials.fail = cloudcred.ErrUnsupported }, http.StatusUnprocessableEntity, "invalid_request"},
		{"a credential that AWS could not take", func(f fixture) { f.credentials.fail = cloudcred.ErrInvalid }, http.StatusUnprocessableEntity, "invalid_request"},
		{"a session that ends during the run", func(f fixture) { f.credentials.ends = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC) }, http.StatusUnprocessableEntity, "invalid_request"},
		{"a session that lasts", func(f fixture) { f.credentials.ends = time.Date(2026, 11, 30, 11, 0, 0, 0, time.UTC) }, http.StatusAccepted, ""},
		{"Kubernetes is down", func(f fixture) { f.runs.fail = fmt.Errorf("start: %w", runs.ErrKubernetes) }, http.StatusServiceUnavailable, runapi.CodeKubernetesUnavailable},
		{"the database is down", func(f fixture) { f.runs.fail = fmt.Errorf("start: %w", runs.ErrDatabase) }, http.StatusServiceUnavailable, runapi.CodeDatabaseUnavailable},
		{"another conflict", func(f fixture) { f.runs.fail = &runs.TransitionError{From: "a", To: "b"} }, http.StatusConflict, runapi.CodeConflict},
		{"an error nobody knows", func(f fixture) { f.runs.fail = errors.New("a secret detail") }, http.StatusInternalServerError, "internal"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			c.set(f)
			w := f.Do(http.MethodPost, "/api/v1/provisions", smallest, nil)
			code := ""
			if w.Code >= http.StatusBadRequest {
				code = runapitest.Decode[api.Problem](t, w).Code
			}
			if w.Code != c.status || code != c.code {
				t.Errorf("status %d, code %q, want %d %q", w.Code, code, c.status, c.code)
			}
			if strings.Contains(w.Body.String(), "a secret detail") {
				t.Errorf("the answer tells an internal error: %s", w.Body)
			}
		})
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	f := setup(t)
	id := f.start(t, smallest).ID
	at := time.Date(2026, 11, 30, 9, 5, 0, 0, time.FixedZone("elsewhere", 3600))
	f.runs.change(func(r *runs.Run) {
		r.Status, r.Phase, r.Message, r.QueuePosition = api.StatusRunning, api.PhaseApply, "applying", 0
		r.Progress = api.Progress{Done: 3, Total: 40, Current: "module.vpc.aws_vpc.this"}
		r.StartedAt, r.UpdatedAt = at, at
	})
	w := f.Do(http.MethodGet, "/api/v1/provisions/"+id, "", nil)
	p := runapitest.Decode[api.Provision](t, w)
	if w.Code != http.StatusOK || p.Progress == nil || p.Progress.Total != 40 || p.StartedAt == nil || p.StartedAt.Location() != time.UTC || w.Header().Get("Retry-After") == "" {
		t.Errorf("status %d, run %+v, headers %v", w.Code, p, w.Header())
	}
	f.runs.change(func(r *runs.Run) { r.Status, r.FinishedAt = api.StatusFailed, at })
	w = f.Do(http.MethodGet, "/api/v1/provisions/"+id, "", nil)
	if p := runapitest.Decode[api.Provision](t, w); p.FinishedAt == nil || w.Header().Get("Retry-After") != "" {
		t.Errorf("run %+v, headers %v", p, w.Header())
	}
}

func TestWhatIsNotThere(t *testing.T) {
	t.Parallel()
	f := setup(t)
	id := f.start(t, smallest).ID
	cases := []struct {
		name, path string
		status     int
		code       string
	}{
		{"another id", "/api/v1/provisions/01938f3a-1c2d-7abc-8def-000000000099", http.StatusNotFound, "provision_not_found"},
		{"no id at all", "/api/v1/provisions/acme-prod", http.StatusNotFound, "provision_not_found"},
		{"an id in upper case", "/api/v1/provisions/" + strings.ToUpper(id), http.StatusNotFound, "provision_not_found"},
		{"the kubeconfig of another id", "/api/v1/provisions/01938f3a-1c2d-7abc-8def-000000000099/kubeconfig", http.StatusNotFound, "provision_not_found"},
		{"the log of another id", "/api/v1/provisions/01938f3a-1c2d-7abc-8def-000000000099/logs", http.StatusNotFound, "provision_not_found"},
		{"a log that has not begun", "/api/v1/provisions/" + id + "/logs", http.StatusNotFound, runapi.CodeNoLog},
		{"the kubeconfig before success", "/api/v1/provisions/" + id + "/kubeconfig", http.StatusConflict, codeKubeconfigNotReady},
		{"another path", "/api/v1/provision", http.StatusNotFound, "not_found"},
		{"a cursor that is none", "/api/v1/provisions?cursor=abc", http.StatusUnprocessableEntity, "invalid_request"},
		{"a page too large", "/api/v1/provisions?limit=101", http.StatusUnprocessableEntity, "invalid_request"},
		{"a status that is none", "/api/v1/provisions?status=done", http.StatusUnprocessableEntity, "invalid_request"},
		{"an environment that cannot be", "/api/v1/provisions?environment=a%00", http.StatusUnprocessableEntity, "invalid_request"},
		{"a parameter that is none", "/api/v1/provisions?page=2", http.StatusUnprocessableEntity, "invalid_request"},
		{"a negative tail", "/api/v1/provisions/" + id + "/logs?tail=-1", http.StatusUnprocessableEntity, "invalid_request"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := f.Do(http.MethodGet, c.path, "", nil)
			if p := runapitest.Decode[api.Problem](t, w); w.Code != c.status || p.Code != c.code {
				t.Errorf("status %d, problem %+v, want %d %s", w.Code, p, c.status, c.code)
			}
		})
	}
}

func TestKubeconfig(t *testing.T) {
	t.Parallel()
	f := setup(t)
	id := f.start(t, smallest).ID
	path := "/api/v1/provisions/" + id + "/kubeconfig"
	for _, status := range []api.Status{api.StatusQueued, api.StatusRunning, api.StatusCancelling, api.StatusFailed, api.StatusCancelled} {
		f.runs.change(func(r *runs.Run) { r.Status = status })
		w := f.Do(http.MethodGet, path, "", nil)
		if p := runapitest.Decode[api.Problem](t, w); w.Code != http.StatusConflict || !strings.Contains(p.Detail, strings.TrimPrefix(string(status), "")) {
			t.Errorf("%s: status %d, problem %+v", status, w.Code, p)
		}
	}
	f.runs.change(func(r *runs.Run) { r.Status = api.StatusSucceeded })
	if w := f.Do(http.MethodGet, path, "", nil); w.Code != http.StatusNotFound || runapitest.Decode[api.Problem](t, w).Code != codeKubeconfigMissing {
		t.Errorf("without an outputs Secret: status %d: %s", w.Code, w.Body)
	}
	const kubeconfig = "apiVersion: v1\nkind: Config\n"
	f.runs.outputs[runs.ID(id)] = kubeconfig
	w := f.Do(http.MethodGet, path, "", nil)
	if w.Code != http.StatusOK || w.Body.String() != kubeconfig || w.Header().Get("Content-Type") != "application/yaml" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("status %d, headers %v, body %q", w.Code, w.Header(), w.Body)
	}
	f.runs.change(func(r *runs.Run) { r.Operation = api.OperationDestroy })
	if w := f.Do(http.MethodGet, path, "", nil); w.Code != http.StatusConflict {
		t.Errorf("after a destroy: status %d", w.Code)
	}
}

func TestKubeconfigOfAnIncompleteControlPlane(t *testing.T) {
	t.Parallel()
	f := setup(t)
	id := f.start(t, smallest).ID
	path := "/api/v1/provisions/" + id + "/kubeconfig"
	f.runs.change(func(r *runs.Run) {
		r.Status, r.ErrorCode = api.StatusFailed, string(runcontract.CodeControlPlaneIncomplete)
	})
	w := f.Do(http.MethodGet, path, "", nil)
	if p := runapitest.Decode[api.Problem](t, w); w.Code != http.StatusConflict || p.Code != codeKubeconfigNotReady {
		t.Errorf("before one is published: status %d, problem %+v", w.Code, p)
	}
	f.runs.outputs[runs.ID(id)] = "kind: Config\n"
	if w := f.Do(http.MethodGet, path, "", nil); w.Code != http.StatusOK || w.Body.String() != "kind: Config\n" {
		t.Errorf("status %d, body %q", w.Code, w.Body)
	}
	f.runs.change(func(r *runs.Run) { r.ErrorCode = string(runcontract.CodeTerraformApply) })
	if w := f.Do(http.MethodGet, path, "", nil); w.Code != http.StatusConflict {
		t.Errorf("of another failure: status %d", w.Code)
	}
}

func TestKubeconfigForTheInternalEndpoint(t *testing.T) {
	t.Parallel()
	private := strings.Replace(smallest, `{`, `{"api_access":"private",`, 1)
	cases := []struct {
		name, body, internal, query string
		status                      int
		want                        string // body, or the problem's code
	}{
		{"two endpoints, the default", smallest, "internal", "", http.StatusOK, "default"},
		{"two endpoints, the internal one", smallest, "internal", "?endpoint=internal", http.StatusOK, "internal"},
		{"one endpoint for all", smallest, "", "?endpoint=internal", http.StatusNotFound, codeNoInternalEndpoint},
		{"one endpoint, which is internal", private, "", "?endpoint=internal", http.StatusOK, "default"},
		{"an endpoint that is none", smallest, "internal", "?endpoint=external", http.StatusUnprocessableEntity, "invalid_request"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			id := f.start(t, c.body).ID
			f.runs.change(func(r *runs.Run) { r.Status = api.StatusSucceeded })
			f.runs.outputs[runs.ID(id)] = "default"
			if c.internal != "" {
				f.runs.internal[runs.ID(id)] = c.internal
			}
			w := f.Do(http.MethodGet, "/api/v1/provisions/"+id+"/kubeconfig"+c.query, "", nil)
			got := w.Body.String()
			if c.status != http.StatusOK {
				got = runapitest.Decode[api.Problem](t, w).Code
			}
			if w.Code != c.status || got != c.want {
				t.Errorf("status %d, %q, want %d, %q", w.Code, got, c.status, c.want)
			}
		})
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	f := setup(t)
	id := f.start(t, smallest).ID
	f.runs.logs[runs.ID(id)] = "one\ntwo\nthree\n"
	for query, want := range map[string]string{"": "one\ntwo\nthree\n", "?tail=2": "two\nthree\n", "?follow=true": "one\ntwo\nthree\n", "?follow=true&tail=1": "three\n"} {
		w := f.Do(http.MethodGet, "/api/v1/provisions/"+id+"/logs"+query, "", nil)
		if w.Code != http.StatusOK || w.Body.String() != want || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
			t.Errorf("logs%s: status %d, headers %v, body %q, want %q", query, w.Code, w.Header(), w.Body, want)
		}
		if follows := strings.Contains(query, "follow"); f.runs.follows != follows {
			t.Errorf("logs%s: follow is %t", query, f.runs.follows)
		}
	}
	if f.Do(http.MethodHead, "/api/v1/provisions/"+id+"/logs?follow=true", "", nil); f.runs.follows {
		t.Error("HEAD waits for the end of the log")
	}
}

func TestListPages(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var newest []string
	for i := range 5 {
		id := f.start(t, strings.Replace(smallest, "acme-prod", fmt.Sprint("acme-", i), 1)).ID
		newest = append([]string{id}, newest...)
	}
	var got []string
	query := "?limit=2"
	for range 3 {
		page := runapitest.Decode[api.ProvisionList](t, f.Do(http.MethodGet, "/api/v1/provisions"+query, "", nil))
		for _, p := range page.Provisions {
			got = append(got, p.ID)
		}
		query = "?limit=2&cursor=" + page.NextCursor
		if page.NextCursor == "" {
			break
		}
	}
	if diff := cmp.Diff(newest, got); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	page := runapitest.Decode[api.ProvisionList](t, f.Do(http.MethodGet, "/api/v1/provisions?environment=acme-3&status=queued", "", nil))
	if len(page.Provisions) != 1 || page.Provisions[0].Name != "acme-3" || page.NextCursor != "" {
		t.Errorf("filtered page %+v", page)
	}
	if w := f.Do(http.MethodGet, "/api/v1/provisions?environment=none", "", nil); !strings.Contains(w.Body.String(), `"provisions":[]`) {
		t.Errorf("an empty page is %s, want an empty list", w.Body)
	}
}

func TestOpenAPIDocumentIsTheCommittedOne(t *testing.T) {
	t.Parallel()
	doc, err := setup(t).Handler.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "../../../../docs/api/cluster-provisioner.json", doc)
}
