package httpapi

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/kubeopera/platform/shared/api"
)

const (
	// readyTimeout is below the default period of a Kubernetes probe.
	readyTimeout = 5 * time.Second
	// readyFor is how long an answer of Config.Ready is good. Anybody may ask, and
	// each look takes from what database and Kubernetes have for the service's work.
	readyFor = time.Second
)

// readiness is what Config.Ready has said last.
type readiness struct {
	mu      sync.Mutex // held while it is asked: the others want the same answer
	at      time.Time
	details map[string]string
	err     error
}

// ask gives an answer of check that is not older than readyFor.
func (r *readiness) ask(ctx context.Context, check func(context.Context) (map[string]string, error)) (map[string]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() || time.Since(r.at) >= readyFor {
		// Not the caller's own context: it may leave, and the answer is not its alone.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
		defer cancel()
		r.details, r.err = check(ctx)
		r.at = time.Now()
	}
	return r.details, r.err
}

// health says that the process answers. It asks nothing of others: restarting
// the service would not repair them.
func (a *API) health(w http.ResponseWriter, _ *http.Request) { writeOK(w, nil) }

func (a *API) ready(w http.ResponseWriter, r *http.Request) {
	var details map[string]string
	if a.config.Ready != nil {
		var err error
		if details, err = a.readiness.ask(r.Context(), a.config.Ready); err != nil {
			a.writeProblem(w, r, &api.Problem{Status: http.StatusServiceUnavailable, Code: CodeNotReady, Detail: "not ready: " + err.Error()})
			return
		}
	}
	writeOK(w, details)
}

// writeOK answers with the status and what else there is to say.
func writeOK(w http.ResponseWriter, details map[string]string) {
	answer := map[string]string{"status": "ok"}
	maps.Copy(answer, details)
	body, err := json.Marshal(answer)
	if err != nil {
		panic(err) // answered and logged like any other panic
	}
	w.Header().Set("Content-Type", jsonType)
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}
