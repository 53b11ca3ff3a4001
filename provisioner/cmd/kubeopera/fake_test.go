package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubeopera/platform/shared/api"
)

// What no output may have begins with canary.
const (
	apiKey           = "canary-key-0123456789"
	scaffolderAPIKey = "canary-scaffolder-key-0123456789"
)

// fakeService is a service of runs as far as a client can tell. Who asks with the
// ETag that a run has now makes the run go on, so that waits take no time; runs of
// the environment "stays" do not go on. What a run becomes is in its environment's
// name.
type fakeService[Run any] struct {
	path, key string // of its runs, such as provisions; its API key
	parts     func(*Run) parts
	// request makes a run of what is sent, or a problem.
	request func(body []byte) (Run, *api.Problem)
	// retry may refuse what is sent.
	retry func(body []byte) *api.Problem
	// course is what a run becomes.
	course func(Run) []Run
	page   func(runs []Run, next string) any
	// more answers what only this service has; false for what it does not have either.
	more func(w http.ResponseWriter, r *http.Request, what string, run *fakeRun[Run], body []byte) bool

	server *httptest.Server

	mu      sync.Mutex
	runs    []*fakeRun[Run]
	keys    map[string]string // idempotency key to run
	log     []string          // of what was asked, but for reads of runs
	changed chan struct{}     // closed when a run changes
}

type fakeRun[Run any] struct {
	run     Run
	version int
	ahead   []Run
}

// parts is what all runs have.
type parts struct {
	*api.RunStatus
	id, retryOf, by *string
	environment     string
	operation       api.Operation
}

func (f *fakeService[Run]) serve() {
	f.keys, f.changed = map[string]string{}, make(chan struct{})
	f.server = httptest.NewServer(f)
}

// add makes it have had a run.
func (f *fakeService[Run]) add(run Run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runs = append(f.runs, &fakeRun[Run]{run: run, version: 1})
}

func (f *fakeService[Run]) url() string { return f.server.URL }

// requests is what was asked so far.
func (f *fakeService[Run]) requests() string {
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

func (f *fakeService[Run]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Api-Key") != f.key {
		f.note("a wrong key: " + r.Header.Get("X-Api-Key"))
		problem(w, api.Problem{Status: 401, Code: "unauthorized", Detail: "the API key is not valid"})
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "/")
	if path[0] != f.path {
		problem(w, api.Problem{Status: 404, Code: "not_found", Detail: "there is no such path"})
		return
	}
	if r.Method != http.MethodGet || len(path) == 1 {
		f.note(strings.TrimSpace(r.Method + " " + r.URL.RequestURI() + " " + string(body)))
	}
	switch {
	case len(path) == 1 && r.Method == http.MethodPost:
		run, refused := f.request(body)
		if refused != nil {
			problem(w, *refused)
			return
		}
		f.accept(w, r, run)
	case len(path) == 1:
		f.list(w, r)
	default:
		f.one(w, r, path[1], strings.Join(path[2:], "/"), body)
	}
}

func (f *fakeService[Run]) note(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, text)
}

// accept begins a run.
func (f *fakeService[Run]) accept(w http.ResponseWriter, r *http.Request, run Run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	if id, ok := f.keys[key]; ok {
		w.Header().Set("Idempotent-Replayed", "true")
		answer(w, 202, f.find(id).run)
		return
	}
	p := f.parts(&run)
	for _, other := range f.runs {
		if o := f.parts(&other.run); o.environment == p.environment && o.FinishedAt == nil {
			problem(w, api.Problem{Status: 409, Code: "environment_busy", Detail: "the environment has a live run", Instance: "/api/v1/" + f.path + "/" + *o.id})
			return
		}
	}
	*p.id = fmt.Sprintf("019ae2c5-0000-7000-8000-%012d", len(f.runs)+1)
	*p.by = "ops"
	// Its clock is ahead: whatever the program shows of that is 0s, however slow
	// the machine is.
	now := time.Now().UTC().Truncate(time.Second).Add(time.Hour)
	*p.RunStatus = api.RunStatus{CreatedAt: now, UpdatedAt: now, Status: api.StatusQueued, Phase: api.PhaseWaitingForSlot, QueuePosition: 1}
	f.runs = append(f.runs, &fakeRun[Run]{run: run, version: 1, ahead: f.course(run)})
	f.keys[key] = *p.id
	answer(w, 202, run)
}

// running is the status of a run that is at work.
func running(s api.RunStatus, phase api.Phase) api.RunStatus {
	return api.RunStatus{Status: api.StatusRunning, Phase: phase, StartedAt: &s.CreatedAt, CreatedAt: s.CreatedAt, UpdatedAt: s.CreatedAt}
}

// ended is the status of a run that has ended.
func ended(s api.RunStatus, status api.Status, message, code string) api.RunStatus {
	s = running(s, api.PhaseDone)
	s.Status, s.Message, s.ErrorCode, s.FinishedAt = status, message, code, &s.CreatedAt
	return s
}

func (f *fakeService[Run]) find(id string) *fakeRun[Run] {
	for _, run := range f.runs {
		if *f.parts(&run.run).id == id {
			return run
		}
	}
	return nil
}

func (f *fakeService[Run]) become(run *fakeRun[Run], next Run) {
	run.run = next
	run.version++
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeService[Run]) list(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	runs, next := []Run{}, ""
	q := r.URL.Query()
	var limit int
	_, _ = fmt.Sscan(q.Get("limit"), &limit)
	for _, run := range slices.Backward(f.runs) {
		p := f.parts(&run.run)
		if *p.id >= q.Get("cursor") && q.Get("cursor") != "" || q.Get("environment") != "" && p.environment != q.Get("environment") || q.Get("status") != "" && string(p.Status) != q.Get("status") {
			continue
		}
		if len(runs) == limit {
			next = *f.parts(&runs[limit-1]).id
			break
		}
		runs = append(runs, run.run)
	}
	answer(w, 200, f.page(runs, next))
}

func (f *fakeService[Run]) one(w http.ResponseWriter, r *http.Request, id, what string, body []byte) {
	f.mu.Lock()
	run := f.find(id)
	f.mu.Unlock()
	if run == nil {
		problem(w, api.Problem{Status: 404, Code: "run_not_found", Detail: "there is no run of that id"})
		return
	}
	switch r.Method + " " + what {
	case "GET ":
		f.get(w, r, run)
	case "POST retry":
		if refused := f.retry(body); refused != nil {
			problem(w, *refused)
			return
		}
		again := f.copyOf(run)
		*f.parts(&again).retryOf = id
		f.accept(w, r, again)
	case "POST cancel":
		f.cancel(w, run, body)
	case "GET events":
		f.mu.Lock()
		begun := f.parts(&run.run).CreatedAt
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
	default:
		if !f.more(w, r, r.Method+" "+what, run, body) {
			problem(w, api.Problem{Status: 404, Code: "not_found", Detail: "there is no such path"})
		}
	}
}

// copyOf is a run as it is now.
func (f *fakeService[Run]) copyOf(run *fakeRun[Run]) Run {
	f.mu.Lock()
	defer f.mu.Unlock()
	return run.run
}

func (f *fakeService[Run]) get(w http.ResponseWriter, r *http.Request, run *fakeRun[Run]) {
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
	answer(w, 200, run.run)
}

func (f *fakeService[Run]) cancel(w http.ResponseWriter, run *fakeRun[Run], body []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := run.run
	p := f.parts(&next)
	switch {
	case p.FinishedAt != nil:
		problem(w, api.Problem{Status: 409, Code: "run_ended", Detail: "the run has ended"})
		return
	case strings.Contains(string(body), "true") && p.Status != api.StatusCancelling:
		problem(w, api.Problem{Status: 409, Code: "cancel_too_early", Detail: "ask without force first"})
		return
	}
	p.Status = api.StatusCancelling
	f.become(run, next)
	answer(w, 202, next)
	p.Status, p.FinishedAt, p.Message = api.StatusCancelled, new(p.CreatedAt), "cancelled by ops"
	run.ahead = []Run{next}
}
