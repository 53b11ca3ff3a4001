package gateway

import (
	"encoding/json"
	"net/http"

	"github.com/kubeopera/platform/sim/aws/faults"
)

const adminPrefix = "/_sim/"

func (g *Gateway) adminRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_sim/health", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /_sim/faults", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, g.faults.List())
	})
	mux.HandleFunc("POST /_sim/faults", g.postFault)
	mux.HandleFunc("DELETE /_sim/faults", func(w http.ResponseWriter, _ *http.Request) {
		g.faults.Clear()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("DELETE /_sim/faults/{id}", func(w http.ResponseWriter, r *http.Request) {
		if !g.faults.Remove(r.PathValue("id")) {
			writeJSON(w, http.StatusNotFound, map[string]string{"error": "no such fault"})
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /_sim/calls", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		writeJSON(w, http.StatusOK, g.Calls(CallFilter{
			Service: q.Get("service"), Operation: q.Get("operation"), AccessKeyID: q.Get("access_key_id"),
		}))
	})
	mux.HandleFunc("POST /_sim/keys/{id}/expire", func(w http.ResponseWriter, r *http.Request) {
		if err := g.cfg.Keys.Expire(r.PathValue("id"), g.cfg.Now()); err != nil {
			writeJSON(w, http.StatusNotFound, map[string]string{"error": "no such key"})
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /_sim/sessions/expire", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, map[string]int{"expired": g.cfg.Keys.ExpireSessions(r.URL.Query().Get("role_arn"), g.cfg.Now())})
	})
	mux.HandleFunc("DELETE /_sim/calls", func(w http.ResponseWriter, _ *http.Request) {
		g.ClearCalls()
		w.WriteHeader(http.StatusNoContent)
	})
	if g.cfg.Admin != nil {
		mux.Handle(adminPrefix, g.cfg.Admin)
	}
	return mux
}

func (g *Gateway) postFault(w http.ResponseWriter, r *http.Request) {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
	decoder.DisallowUnknownFields()
	var f faults.Fault
	if err := decoder.Decode(&f); err != nil {
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	id, err := g.faults.Add(f)
	if err != nil {
		writeJSON(w, http.StatusUnprocessableEntity, map[string]string{"error": err.Error()})
		return
	}
	writeJSON(w, http.StatusCreated, map[string]string{"id": id})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone: there is nobody to tell
}
