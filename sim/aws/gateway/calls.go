package gateway

import (
	"slices"
	"sync"
	"time"
)

// maxCalls bounds the record; a Terraform run makes some hundred calls.
const maxCalls = 50_000

// Call is the record of one call.
type Call struct {
	Time        time.Time     `json:"time"`
	RequestID   string        `json:"request_id"`
	Service     string        `json:"service"`
	Operation   string        `json:"operation"`
	Region      string        `json:"region"`
	AccessKeyID string        `json:"access_key_id"`
	Method      string        `json:"method"`
	Path        string        `json:"path"`
	Status      int           `json:"status"`               // 0: the connection was dropped before an answer
	ErrorCode   string        `json:"error_code,omitempty"` // as far as this process wrote the answer
	Fault       string        `json:"fault,omitempty"`      // id of the last fault that acted
	Duration    time.Duration `json:"duration_ns"`
}

// CallFilter selects recorded calls; empty fields match all.
type CallFilter struct {
	Service     string
	Operation   string
	AccessKeyID string
}

type callLog struct {
	mu    sync.Mutex
	calls []Call
}

func (l *callLog) add(c Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) >= maxCalls {
		l.calls = slices.Delete(l.calls, 0, maxCalls/10)
	}
	l.calls = append(l.calls, c)
}

// Calls returns the recorded calls that the filter selects, oldest first.
func (g *Gateway) Calls(f CallFilter) []Call {
	g.calls.mu.Lock()
	defer g.calls.mu.Unlock()
	out := []Call{}
	for _, c := range g.calls.calls {
		if (f.Service == "" || f.Service == c.Service) &&
			(f.Operation == "" || f.Operation == c.Operation) &&
			(f.AccessKeyID == "" || f.AccessKeyID == c.AccessKeyID) {
			out = append(out, c)
		}
	}
	return out
}

// ClearCalls forgets the recorded calls.
func (g *Gateway) ClearCalls() {
	g.calls.mu.Lock()
	defer g.calls.mu.Unlock()
	g.calls.calls = nil
}
