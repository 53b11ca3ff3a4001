// Package authservice is a stand-in for auth-service: it keeps the contract of
// docs/api/auth-service.yaml for credentials that Go code puts into it, and
// fails on demand.
package authservice

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/kubeopera/platform/shared/cloudcred"
)

// Fault is something that goes wrong for requests with a valid API key. The zero
// value is no fault.
type Fault struct {
	// Down closes the connection without an answer.
	Down bool
	// Delay is how long an answer takes.
	Delay time.Duration
	// Status answers with that status and nothing else: 403, 404, 500 ...
	Status int
	// Times is how many requests it hits; 0 means all until the next Fail.
	Times int
}

// Server is an auth-service. It is an http.Handler and safe for concurrent use.
type Server struct {
	key string

	mu       sync.Mutex
	stored   map[string]document
	fault    Fault
	requests int
}

// document is a credential as it is answered.
type document struct {
	ID         string      `json:"id"`
	Name       string      `json:"name"`
	Kind       string      `json:"kind"`
	AccessKey  *accessKey  `json:"access_key,omitempty"`
	AssumeRole *assumeRole `json:"assume_role,omitempty"`
	GitToken   *gitToken   `json:"git_token,omitempty"`
	GitSSHKey  *gitSSHKey  `json:"git_ssh_key,omitempty"`
	SSHKey     *sshKey     `json:"ssh_key,omitempty"`
}

type sshKey struct {
	PrivateKey  string `json:"private_key"`
	Passphrase  string `json:"passphrase,omitempty"`
	Certificate string `json:"certificate,omitempty"`
}

type gitToken struct {
	Username string `json:"username,omitempty"`
	Token    string `json:"token"`
}

type gitSSHKey struct {
	PrivateKey string `json:"private_key"`
	KnownHosts string `json:"known_hosts,omitempty"`
}

type accessKey struct {
	ID           string     `json:"access_key_id"`
	Secret       string     `json:"secret_access_key"`
	SessionToken string     `json:"session_token,omitempty"`
	ExpiresAt    *time.Time `json:"expires_at,omitempty"`
}

type assumeRole struct {
	RoleARN         string `json:"role_arn"`
	ExternalID      string `json:"external_id,omitempty"`
	SessionName     string `json:"session_name,omitempty"`
	DurationSeconds int    `json:"duration_seconds,omitempty"`
	Base            string `json:"base"`
}

// New is a server without credentials that takes one API key.
func New(apiKey string) *Server {
	return &Server{key: apiKey, stored: make(map[string]document)}
}

// PutAccessKey stores an access key, in place of what was stored under its id.
func (s *Server) PutAccessKey(id, name string, key cloudcred.AccessKey) {
	d := document{ID: id, Name: name, Kind: string(cloudcred.KindAccessKey), AccessKey: &accessKey{
		ID: key.ID, Secret: key.Secret.Reveal(), SessionToken: key.SessionToken.Reveal(),
	}}
	if !key.ExpiresAt.IsZero() {
		d.AccessKey.ExpiresAt = new(key.ExpiresAt.UTC())
	}
	s.put(d)
}

// PutAssumeRole stores a role. Of its base the id is kept, whether there is such
// a credential or not.
func (s *Server) PutAssumeRole(id, name string, role cloudcred.AssumeRole) {
	s.put(document{ID: id, Name: name, Kind: string(cloudcred.KindAssumeRole), AssumeRole: &assumeRole{
		RoleARN: role.RoleARN, ExternalID: role.ExternalID.Reveal(), SessionName: role.SessionName,
		DurationSeconds: int(role.Duration.Seconds()), Base: role.Base.ID,
	}})
}

// PutGit stores a Git credential.
func (s *Server) PutGit(c cloudcred.GitCredential) {
	d := document{ID: c.ID, Name: c.Name, Kind: string(c.Kind)}
	if c.Kind == cloudcred.KindGitToken {
		d.GitToken = &gitToken{Username: c.Username, Token: c.Token.Reveal()}
	} else {
		d.GitSSHKey = &gitSSHKey{PrivateKey: c.PrivateKey.Reveal(), KnownHosts: c.KnownHosts}
	}
	s.put(d)
}

// PutSSH stores a key for machines.
func (s *Server) PutSSH(c cloudcred.SSHCredential) {
	s.put(document{ID: c.ID, Name: c.Name, Kind: string(cloudcred.KindSSHKey), SSHKey: &sshKey{
		PrivateKey: c.PrivateKey.Reveal(), Passphrase: c.Passphrase.Reveal(), Certificate: c.Certificate,
	}})
}

func (s *Server) put(d document) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored[d.ID] = d
}

// Delete forgets a credential.
func (s *Server) Delete(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stored, id)
}

// Fail sets what goes wrong from now on, in place of what did before.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Requests counts the requests so far, those that were refused or failed included.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	routes := http.NewServeMux()
	routes.HandleFunc("GET /api/v1/cloud-credentials/{id}", s.get)
	routes.ServeHTTP(w, r)
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	valid := subtle.ConstantTimeCompare([]byte(r.Header.Get("X-Api-Key")), []byte(s.key)) == 1
	fault := s.next(valid)
	if !valid {
		http.Error(w, "the API key is missing or not valid", http.StatusUnauthorized)
		return
	}
	if fault.Delay > 0 {
		timer := time.NewTimer(fault.Delay)
		defer timer.Stop()
		select {
		case <-r.Context().Done():
		case <-timer.C:
		}
	}
	if fault.Down {
		panic(http.ErrAbortHandler)
	}
	if fault.Status != 0 {
		http.Error(w, http.StatusText(fault.Status), fault.Status)
		return
	}
	s.mu.Lock()
	d, ok := s.stored[r.PathValue("id")]
	s.mu.Unlock()
	if !ok {
		http.Error(w, "there is no such credential", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(d) // the client may be gone
}

// next counts a request and takes the fault that hits it.
func (s *Server) next(valid bool) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if !valid {
		return Fault{}
	}
	f := s.fault
	if f.Times == 1 {
		s.fault = Fault{}
	} else if f.Times > 1 {
		s.fault.Times--
	}
	return f
}

// Serve answers on listener until ctx ends, and closes it.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	srv := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("auth-service: %w", err)
	}
	return nil
}
