package httpapi

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"time"

	"github.com/kubeopera/platform/shared/api"
)

// readyTimeout is below the default period of a Kubernetes probe.
const readyTimeout = 5 * time.Second

// health says that the process answers. It asks nothing of others: restarting
// the service would not repair them.
func (a *API) health(w http.ResponseWriter, _ *http.Request) { writeOK(w, nil) }

func (a *API) ready(w http.ResponseWriter, r *http.Request) {
	var details map[string]string
	if a.config.Ready != nil {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		var err error
		if details, err = a.config.Ready(ctx); err != nil {
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
