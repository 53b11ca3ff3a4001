package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runs"
)

func TestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := func(status api.Status, done int) api.Provision {
			return api.Provision{ID: "run-1", RunStatus: api.RunStatus{Status: status, Progress: &api.Progress{Done: done}}}
		}
		answers := []func(http.ResponseWriter){
			func(w http.ResponseWriter) { reply(w, 200, at(api.StatusQueued, 0)) },
			func(w http.ResponseWriter) { reply(w, 200, at(api.StatusQueued, 0)) }, // no change, no call
			func(w http.ResponseWriter) {
				w.Header().Set("Retry-After", "7")
				reply(w, 200, at(api.StatusRunning, 1))
			},
			func(w http.ResponseWriter) { reply(w, 200, at(api.StatusRunning, 2)) },
			func(w http.ResponseWriter) { reply(w, 500, &api.Problem{Status: 500, Code: "internal", Detail: "x"}) },
			func(w http.ResponseWriter) { reply(w, 200, at(api.StatusFailed, 2)) },
		}
		n := 0
		c, _ := newClient(t, func(w http.ResponseWriter, _ *http.Request) { answers[n](w); n++ })
		begin := time.Now()
		var seen []string
		run, err := c.Wait(t.Context(), "run-1", func(p api.Provision) {
			seen = append(seen, fmt.Sprintf("%s %d after %s", p.Status, p.Progress.Done, time.Since(begin)))
		})
		if err != nil || run.Status != api.StatusFailed {
			t.Fatalf("got %s, %v", run.Status, err)
		}
		want := []string{"queued 0 after 0s", "running 1 after 2s", "running 2 after 9s", "failed 2 after 11s"}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("progress (-want +got):\n%s", diff)
		}
	})
}

func TestWaitGoesOnWhileTheServiceRestarts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		away time.Duration
		ok   bool
	}{"a restart": {time.Minute, true}, "for ever": {time.Hour, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				c, _ := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
					switch since := time.Since(begin); {
					case since == 0:
						reply(w, 200, api.Provision{ID: "run-1", RunStatus: api.RunStatus{Status: api.StatusRunning}})
					case since < tt.away:
						refuse(w)
					default:
						reply(w, 200, api.Provision{ID: "run-1", RunStatus: api.RunStatus{Status: api.StatusSucceeded}})
					}
				})
				run, err := c.Wait(t.Context(), "run-1", nil)
				if tt.ok && (err != nil || run.Status != api.StatusSucceeded) || !tt.ok && (!errors.Is(err, errRefused) || run.Status != api.StatusRunning) {
					t.Errorf("got %s, %v", run.Status, err)
				}
				if took := time.Since(begin); took > 3*time.Minute {
					t.Errorf("took %s", took)
				}
			})
		})
	}
}

func TestWaitEndsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, f := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
			reply(w, 404, &api.Problem{Status: 404, Code: "provision_not_found", Detail: "x"})
		})
		if _, err := c.Wait(t.Context(), "x", nil); err == nil || len(f.requests) != 1 {
			t.Errorf("unknown run: %v after %d requests", err, len(f.requests))
		}
		for _, status := range []api.Status{api.StatusQueued, api.StatusRunning, api.StatusCancelling, api.StatusSucceeded, api.StatusFailed, api.StatusCancelled} {
			c, _ := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
				reply(w, 200, api.Provision{RunStatus: api.RunStatus{Status: status}})
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			run, err := c.Wait(ctx, "x", nil)
			cancel()
			if run.Status != status || (err == nil) != runs.Final(status) {
				t.Errorf("%s: got %s, %v", status, run.Status, err)
			}
		}
	})
}

// versions is a service with ETags and, unless it is old, long poll: the run
// becomes version n after n*step.
type versions struct {
	begin    time.Time
	step     time.Duration
	last     int  // version at which the run succeeds
	old      bool // answers at once
	strict   bool // refuses to be asked to wait
	full     int  // so many waits are refused
	requests int
}

func (v *versions) handle(w http.ResponseWriter, r *http.Request) {
	v.requests++
	at := func() int { return min(int(time.Since(v.begin)/v.step), v.last) }
	tag := func(n int) string { return fmt.Sprintf(`"v%d"`, n) }
	most, err := time.ParseDuration(r.URL.Query().Get("wait"))
	waits := err == nil
	switch {
	case waits && v.strict:
		reply(w, 422, &api.Problem{Status: 422, Code: "invalid_request", Detail: "x"})
		return
	case waits && v.full > 0:
		v.full--
		reply(w, 503, &api.Problem{Status: 503, Code: "too_many_waiters", Detail: "x"})
		return
	case waits && !v.old:
		// In a bubble the clock stands still until all wait.
		for deadline := time.Now().Add(most); time.Now().Before(deadline) && tag(at()) == r.Header.Get("If-None-Match"); {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(time.Second / 10):
			}
		}
	}
	n := at()
	w.Header().Set("ETag", tag(n))
	w.Header().Set("Retry-After", "2")
	if tag(n) == r.Header.Get("If-None-Match") {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	run := api.Provision{ID: "run-1", RunStatus: api.RunStatus{Status: api.StatusRunning, Progress: &api.Progress{Done: n}}}
	if n == v.last {
		run.Status = api.StatusSucceeded
	}
	reply(w, 200, run)
}

func TestWaitByLongPoll(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name         string
		service      versions
		within       time.Duration // after a change
		mostRequests int
	}{
		{"a minute between changes", versions{step: time.Minute, last: 3}, 0, 1 + 3*3},
		{"changes in quick succession", versions{step: time.Second, last: 20}, 0, 22},
		{"no long poll", versions{step: time.Minute, last: 2, old: true}, 2 * time.Second, 64},
		{"long poll refused", versions{step: time.Minute, last: 2, strict: true}, 2 * time.Second, 63},
		{"changes within the pause of a poll", versions{step: 700 * time.Millisecond, last: 20}, 100 * time.Millisecond, 22},
		{"too many waiters", versions{step: time.Minute, last: 2, full: 1 << 20}, 8 * time.Second, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := tt.service
				v.begin = time.Now()
				c, _ := newClient(t, v.handle)
				seen := 0
				run, err := c.Wait(t.Context(), "run-1", func(p api.Provision) {
					if p.Progress.Done != seen {
						t.Errorf("version %d after %d changes", p.Progress.Done, seen)
					}
					if late := time.Since(v.begin) - time.Duration(seen)*v.step; late > tt.within {
						t.Errorf("version %d came %s late", seen, late)
					}
					seen++
				})
				if err != nil || run.Status != api.StatusSucceeded || seen != v.last+1 {
					t.Errorf("got %s after %d versions, %v", run.Status, seen, err)
				}
				if v.requests > tt.mostRequests {
					t.Errorf("%d requests, want at most %d", v.requests, tt.mostRequests)
				}
			})
		})
	}
}
