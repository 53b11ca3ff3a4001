package sessionmanager

import (
	"encoding/json"
	"net/http"
)

// AdminPath is the beginning of the paths that Admin answers.
const AdminPath = "/_sim/session-manager/"

// Admin lets the command line ask for faults and look at sessions:
//
//	GET, POST, DELETE  faults
//	DELETE             faults/{id}
//	GET                sessions
//	GET, DELETE        violations
//	POST               instances/{id}/{offline,online,cut,bye,end}
//
// Nobody has to sign that.
func (s *Service) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+AdminPath+"faults", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.faults.List()) })
	mux.HandleFunc("POST "+AdminPath+"faults", s.postFault)
	mux.HandleFunc("DELETE "+AdminPath+"faults", func(w http.ResponseWriter, _ *http.Request) {
		s.faults.Clear()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("DELETE "+AdminPath+"faults/{id}", func(w http.ResponseWriter, r *http.Request) {
		if !s.faults.Remove(r.PathValue("id")) {
			writeJSON(w, http.StatusNotFound, map[string]string{"error": "no such fault"})
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET "+AdminPath+"sessions", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.Sessions()) })
	mux.HandleFunc("GET "+AdminPath+"violations", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.Violations()) })
	mux.HandleFunc("DELETE "+AdminPath+"violations", func(w http.ResponseWriter, _ *http.Request) {
		s.ClearViolations()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST "+AdminPath+"instances/{id}/{action}", s.postInstance)
	return mux
}

func (s *Service) postFault(w http.ResponseWriter, r *http.Request) {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
	decoder.DisallowUnknownFields()
	var f Fault
	if err := decoder.Decode(&f); err != nil {
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	id, err := s.faults.Add(f)
	if err != nil {
		writeJSON(w, http.StatusUnprocessableEntity, map[string]string{"error": err.Error()})
		return
	}
	writeJSON(w, http.StatusCreated, map[string]string{"id": id})
}

func (s *Service) postInstance(w http.ResponseWriter, r *http.Request) {
	id, links := r.PathValue("id"), 0
	var err error
	switch r.PathValue("action") {
	case "offline":
		err = s.SetOnline(id, false)
	case "online":
		err = s.SetOnline(id, true)
	case "cut":
		links = s.Cut(id)
	case "bye":
		links = s.Bye(id)
	case "end":
		s.End(id, r.URL.Query().Get("reason"))
	default:
		writeJSON(w, http.StatusNotFound, map[string]string{"error": "actions are offline, online, cut, bye and end"})
		return
	}
	if err != nil {
		writeJSON(w, http.StatusNotFound, map[string]string{"error": err.Error()})
		return
	}
	writeJSON(w, http.StatusOK, map[string]int{"links": links})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone: there is nobody to tell
}
