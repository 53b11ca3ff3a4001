package httpapi

import (
	"net/http"

	"github.com/kubeopera/platform/shared/api"
)

// keyHeader carries the API key.
const keyHeader = "X-Api-Key"

// authenticate refuses requests without a valid API key and notes whose it is.
func (a *API) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// What is below is private; handlers may say otherwise.
		w.Header().Set("Cache-Control", "no-store")
		values := r.Header.Values(keyHeader)
		if len(values) != 1 || values[0] == "" {
			a.refuse(w, r, "missing", "send an API key in the header "+keyHeader)
			return
		}
		name, ok := a.config.Keys.Lookup(r.Context(), values[0])
		if !ok {
			a.refuse(w, r, "unknown", "the API key is not valid; it may have been rotated")
			return
		}
		requestFrom(r.Context()).caller = name
		next.ServeHTTP(w, r)
	})
}

func (a *API) refuse(w http.ResponseWriter, r *http.Request, reason, detail string) {
	a.metrics.refused.WithLabelValues(reason).Inc()
	w.Header().Set("WWW-Authenticate", "ApiKey")
	a.writeProblem(w, r, &api.Problem{Status: http.StatusUnauthorized, Code: CodeUnauthorized, Detail: detail})
}
