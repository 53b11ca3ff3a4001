package git

import (
	"net/http"
	"net/http/cgi"
	"strings"
)

// The services of Git's protocols, as clients name them.
const (
	uploadPack  = "git-upload-pack"
	receivePack = "git-receive-pack"
)

// serveHTTP lets git's own backend answer, for those who may.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	path, service, begins := splitRequest(r)
	repository, ok := s.repository(path)
	if !ok {
		http.Error(w, "Repository not found.", http.StatusNotFound)
		return
	}
	user := ""
	if !repository.open() {
		username, password, given := r.BasicAuth()
		grant, allowed := repository.byPassword(username, password)
		switch {
		case !allowed:
			w.Header().Set("WWW-Authenticate", `Basic realm="Git"`)
			text := "Authentication required."
			if given {
				text = "Invalid username or token. Password authentication is not supported for Git operations."
			}
			http.Error(w, text, http.StatusUnauthorized)
			return
		case grant.ReadOnly && service == receivePack:
			http.Error(w, "Permission to "+repository.name+".git denied to "+username+".", http.StatusForbidden)
			return
		}
		user = username
		if user == "" {
			user = "token" // the backend lets nobody push who has no name
		}
	}
	if begins {
		operation := Fetch
		if service == receivePack {
			operation = Push
		}
		if err := repository.strike(r.Context(), operation); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	env := []string{
		"GIT_PROJECT_ROOT=" + s.dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + s.dir,
		"GIT_PROTOCOL=" + r.Header.Get("Git-Protocol"),
	}
	if user != "" {
		env = append(env, "REMOTE_USER="+user)
	}
	(&cgi.Handler{Path: s.backend, Env: env, Logger: slogLogger(s.log)}).ServeHTTP(w, r)
}

// splitRequest is the repository that a request is for, the service if it is of
// one, and whether it is the first of a client's operation.
func splitRequest(r *http.Request) (path, service string, begins bool) {
	if path, found := strings.CutSuffix(r.URL.Path, "/info/refs"); found {
		return path, r.URL.Query().Get("service"), true
	}
	for _, service := range []string{uploadPack, receivePack} {
		if path, found := strings.CutSuffix(r.URL.Path, "/"+service); found {
			return path, service, false
		}
	}
	path, _, _ = strings.Cut(r.URL.Path, ".git/")
	return path, "", false
}
