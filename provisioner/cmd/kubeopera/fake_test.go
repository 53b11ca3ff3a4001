package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	kube "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubeopera/platform/shared/api"
)

const apiKey = "canary-key-0123456789"

// fakeAPI is cluster-provisioner as far as a client can tell. Who asks with the
// ETag that a run has now makes the run go on, so that waits take no time; runs of
// the environment "stays" do not go on. What a run becomes is in its environment's
// name.
type fakeAPI struct {
	preamble string // of every kubeconfig

	server *httptest.Server
	ca     []byte

	mu      sync.Mutex
	runs    []*fakeRun
	keys    map[string]string // idempotency key to run
	log     []string          // of what was asked, but for reads of runs
	changed chan struct{}     // closed when a run changes
}

type fakeRun struct {
	api.Provision
	version int
	ahead   []state
}

func newFakeAPI(tb testing.TB) *fakeAPI {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	f := &fakeAPI{ca: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keys: map[string]string{}, changed: make(chan struct{})}
	f.server = httptest.NewServer(f)
	return f
}

// add makes it have had a run.
func (f *fakeAPI) add(p api.Provision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runs = append(f.runs, &fakeRun{Provision: p, version: 1})
}

func (f *fakeAPI) url() string { return f.server.URL }

// requests is what was asked so far.
func (f *fakeAPI) requests() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.log, "\n") + "\n"
}

func problem(w http.ResponseWriter, p api.Problem) {
	p.RequestID = "request-7"
	w.Header().Set("Content-Type", api.ProblemContentType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Api-Key") != apiKey {
		problem(w, api.Problem{Status: 401, Code: "unauthorized", Detail: "the API key is not valid"})
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "/")
	if path[0] != "provisions" {
		problem(w, api.Problem{Status: 404, Code: "not_found", Detail: "there is no such path"})
		return
	}
	if r.Method != http.MethodGet || len(path) == 1 {
		f.mu.Lock()
		f.log = append(f.log, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
		f.mu.Unlock()
	}
	switch {
	case len(path) == 1 && r.Method == http.MethodPost:
		f.start(w, r, body)
	case len(path) == 1:
		f.list(w, r)
	default:
		f.one(w, r, path[1], strings.Join(path[2:], "/"), body)
	}
}

func (f *fakeAPI) start(w http.ResponseWriter, r *http.Request, body []byte) {
	var q api.ProvisionRequest
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil || q.Name == "" || q.Topology == "" {
		problem(w, api.Problem{Status: 422, Code: "invalid_request", Detail: "the request is not valid", Errors: []api.FieldProblem{
			{Location: "body.name", Message: "is required"}, {Location: "body.topology", Message: "must be eks or vanilla_kubeadm"},
		}})
		return
	}
	if q.Operation == "" {
		q.Operation = api.OperationApply
	}
	if q.TerraformEnvironment == "" {
		q.TerraformEnvironment = q.Name
	}
	f.accept(w, r, api.Provision{
		Name: q.Name, TerraformEnvironment: q.TerraformEnvironment, Topology: q.Topology, Region: q.Region, KubernetesVersion: q.KubernetesVersion, Operation: q.Operation,
	})
}

// accept begins a run.
func (f *fakeAPI) accept(w http.ResponseWriter, r *http.Request, p api.Provision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	if id, ok := f.keys[key]; ok {
		w.Header().Set("Idempotent-Replayed", "true")
		answer(w, 202, f.find(id).Provision)
		return
	}
	for _, other := range f.runs {
		if other.TerraformEnvironment == p.TerraformEnvironment && other.FinishedAt == nil {
			problem(w, api.Problem{Status: 409, Code: "environment_busy", Detail: "the environment has a live run", Instance: "/api/v1/provisions/" + other.ID})
			return
		}
	}
	p.ID = fmt.Sprintf("019ae2c5-0000-7000-8000-%012d", len(f.runs)+1)
	p.RequestedBy = "ops"
	// Its clock is ahead: whatever the program shows of that is 0s, however slow
	// the machine is.
	p.CreatedAt = time.Now().UTC().Truncate(time.Second).Add(time.Hour)
	p.UpdatedAt, p.Status, p.Phase, p.QueuePosition = p.CreatedAt, api.StatusQueued, api.PhaseWaitingForSlot, 1
	run := &fakeRun{Provision: p, version: 1, ahead: course(p)}
	f.runs = append(f.runs, run)
	f.keys[key] = p.ID
	answer(w, 202, run.Provision)
}

// state is what of a run changes.
type state struct {
	api.RunStatus
	api.ProvisionDetails
}

// course is what a run becomes.
func course(p api.Provision) []state {
	running := func(phase api.Phase, change func(*state)) state {
		s := state{RunStatus: api.RunStatus{Status: api.StatusRunning, Phase: phase, StartedAt: &p.CreatedAt, CreatedAt: p.CreatedAt, UpdatedAt: p.CreatedAt}}
		if change != nil {
			change(&s)
		}
		return s
	}
	end := func(status api.Status, message, code string) state {
		return running(api.PhaseDone, func(s *state) {
			s.Status, s.Message, s.ErrorCode, s.FinishedAt = status, message, code, &p.CreatedAt
		})
	}
	if p.Operation == api.OperationPlan {
		last := end(api.StatusSucceeded, "plan: 3 to add, 1 to change, 0 to destroy", "")
		last.Changes = &api.Changes{Add: 3, Change: 1}
		return []state{running(api.PhasePlan, nil), last}
	}
	states := []state{
		running(api.PhaseStarting, nil),
		running(api.PhaseInit, nil),
		running(api.PhaseApply, func(s *state) {
			s.Progress = &api.Progress{Done: 2, Total: 4, Current: "module.vpc.aws_vpc.this"}
		}),
		running(api.PhaseWaitingForNodes, func(s *state) {
			s.Nodes = []api.Node{{Name: "control-plane-0", State: api.NodeJoined}, {Name: "worker-0", State: api.NodeJoining, Message: "kubeadm join"}}
		}),
	}
	switch p.TerraformEnvironment {
	case "stays":
		return states[:1]
	case "breaks":
		return append(states[:3], end(api.StatusFailed, "Error: no more addresses \x1b[31min the subnet", "terraform_failed"))
	case "locked":
		last := end(api.StatusFailed, "the state is locked", "state_locked")
		last.Lock = &api.StateLock{ID: "lock-1", Who: "me@laptop", Created: p.CreatedAt}
		return append(states[:2], last)
	}
	return append(states, end(api.StatusSucceeded, "applied: 4 added, 0 changed, 0 removed", ""))
}

func (f *fakeAPI) find(id string) *fakeRun {
	for _, run := range f.runs {
		if run.ID == id {
			return run
		}
	}
	return nil
}

func (f *fakeAPI) become(run *fakeRun, s state) {
	run.RunStatus, run.ProvisionDetails = s.RunStatus, s.ProvisionDetails
	run.version++
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeAPI) list(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := api.ProvisionList{Provisions: []api.Provision{}}
	q := r.URL.Query()
	var limit int
	_, _ = fmt.Sscan(q.Get("limit"), &limit)
	for _, r := range slices.Backward(f.runs) {
		run := r.Provision
		if run.ID >= q.Get("cursor") && q.Get("cursor") != "" || q.Get("environment") != "" && run.TerraformEnvironment != q.Get("environment") || q.Get("status") != "" && string(run.Status) != q.Get("status") {
			continue
		}
		if len(list.Provisions) == limit {
			list.NextCursor = list.Provisions[limit-1].ID
			break
		}
		list.Provisions = append(list.Provisions, run)
	}
	answer(w, 200, list)
}

func (f *fakeAPI) one(w http.ResponseWriter, r *http.Request, id, what string, body []byte) {
	f.mu.Lock()
	run := f.find(id)
	f.mu.Unlock()
	if run == nil {
		problem(w, api.Problem{Status: 404, Code: "provision_not_found", Detail: "there is no run of that id"})
		return
	}
	again := func(operation api.Operation) {
		f.mu.Lock()
		p := run.Provision
		f.mu.Unlock()
		p.RunStatus, p.ProvisionDetails, p.Operation = api.RunStatus{}, api.ProvisionDetails{}, operation
		if operation == api.OperationApply {
			p.RetryOf = id
		}
		f.accept(w, r, p)
	}
	switch r.Method + " " + what {
	case "GET ":
		f.get(w, r, run)
	case "DELETE ":
		again(api.OperationDestroy)
	case "POST retry":
		again(api.OperationApply)
	case "POST unlock":
		again(api.OperationUnlock)
	case "POST cancel":
		f.cancel(w, run, body)
	case "GET events":
		f.mu.Lock()
		begun := run.CreatedAt
		f.mu.Unlock()
		answer(w, 200, api.EventList{Events: []api.Event{
			{At: begun, Status: api.StatusQueued, Phase: api.PhaseWaitingForSlot, By: "ops"},
			{At: begun.Add(2 * time.Second), Status: api.StatusRunning, Phase: api.PhaseStarting, Message: "pod is being created"},
		}})
	case "GET logs":
		text := "one\ntwo\nthree\n"
		if r.URL.Query().Get("tail") == "1" {
			text = "three\n"
		}
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, text)
	case "GET kubeconfig":
		f.kubeconfig(w, run)
	default:
		problem(w, api.Problem{Status: 404, Code: "not_found", Detail: "there is no such path"})
	}
}

func (f *fakeAPI) get(w http.ResponseWriter, r *http.Request, run *fakeRun) {
	f.mu.Lock()
	defer f.mu.Unlock()
	tag := func() string { return fmt.Sprintf(`"v%d"`, run.version) }
	if r.Header.Get("If-None-Match") == tag() {
		switch {
		case len(run.ahead) > 0:
			next := run.ahead[0]
			run.ahead = run.ahead[1:]
			f.become(run, next)
		case r.URL.Query().Get("wait") != "":
			changed := f.changed
			f.mu.Unlock()
			select {
			case <-changed:
			case <-r.Context().Done():
			}
			f.mu.Lock()
		}
	}
	w.Header().Set("ETag", tag())
	if r.Header.Get("If-None-Match") == tag() {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	answer(w, 200, run.Provision)
}

func (f *fakeAPI) cancel(w http.ResponseWriter, run *fakeRun, body []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case run.FinishedAt != nil:
		problem(w, api.Problem{Status: 409, Code: "run_ended", Detail: "the run has ended"})
		return
	case strings.Contains(string(body), "true") && run.Status != api.StatusCancelling:
		problem(w, api.Problem{Status: 409, Code: "cancel_too_early", Detail: "ask without force first"})
		return
	}
	s := state{run.RunStatus, run.ProvisionDetails}
	s.Status = api.StatusCancelling
	f.become(run, s)
	s.Status, s.FinishedAt, s.Message = api.StatusCancelled, &s.CreatedAt, "cancelled by ops"
	run.ahead = []state{s}
	answer(w, 202, run.Provision)
}

func (f *fakeAPI) kubeconfig(w http.ResponseWriter, run *fakeRun) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if run.Status != api.StatusSucceeded {
		problem(w, api.Problem{Status: 409, Code: "kubeconfig_not_ready", Detail: "the run has not succeeded"})
		return
	}
	name := run.Name
	c := kube.NewConfig()
	c.CurrentContext = name
	c.Contexts[name] = &kube.Context{Cluster: name, AuthInfo: name}
	c.Clusters[name] = &kube.Cluster{Server: "https://" + run.TerraformEnvironment + ".example.com:6443", CertificateAuthorityData: f.ca}
	c.AuthInfos[name] = &kube.AuthInfo{Token: "token-of-" + run.ID}
	data, err := clientcmd.Write(*c)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(append([]byte(f.preamble), data...))
}
