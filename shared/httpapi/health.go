package httpapi

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/kubeopera/platform/shared/api"
)

// readyTimeout is below the default period of a Kubernetes probe.
const readyTimeout = 5 * time.Second

// health says that the process answers. It asks nothing of others: restarting
// the service would not repair them.
func (a *API) health(w http.ResponseWriter, _ *http.Request) { writeOK(w) }

func (a *API) ready(w http.ResponseWriter, r *http.Request) {
	if a.config.Ready != nil {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		if err := a.config.Ready(ctx); err != nil {
			a.writeProblem(w, r, &api.Problem{Status: http.StatusServiceUnavailable, Code: CodeNotReady, Detail: "not ready: " + err.Error()})
			return
		}
	}
	writeOK(w)
}

func writeOK(w http.ResponseWriter) {
	w.Header().Set("Content-Type", jsonType)
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, `{"status":"ok"}`+"\n") // the client may be gone
}
