// Package git is the simulator's Git server: real smart HTTPS, by git's own
// http-backend with a certificate authority of its own, and SSH, over bare
// repositories below one directory.
//
// A repository that nobody was given access to (Repository.Allow) can be read by
// everybody over HTTPS and written only here. What goes wrong on demand: see Fault
// and Repository.Protect.
package git

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/kubeopera/platform/sim/pki"
)

// Server serves the repositories below its directory.
type Server struct {
	dir     string
	git     string
	backend string // git's http-backend
	ca      *pki.Authority
	url     string
	log     *slog.Logger
	http    *http.Server
	done    chan error
	ssh     *sshServer

	mu           sync.Mutex
	repositories map[string]*Repository
}

// Start serves on free ports of 127.0.0.1 until Close. It needs the git binary.
func Start(ctx context.Context, dir string, log *slog.Logger) (*Server, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, fmt.Errorf("git server: %w", err)
	}
	out, err := exec.CommandContext(ctx, git, "--exec-path").Output()
	if err != nil {
		return nil, fmt.Errorf("git --exec-path: %w", err)
	}
	backend := filepath.Join(strings.TrimSpace(string(out)), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		return nil, fmt.Errorf("git's http-backend, which Debian's package git has: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	ca, err := pki.New("kubeopera simulator Git CA")
	if err != nil {
		return nil, err
	}
	cert, err := ca.Issue("git", []string{"127.0.0.1", "localhost"})
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("git server: %w", err)
	}
	s := &Server{
		dir:          dir,
		git:          git,
		backend:      backend,
		ca:           ca,
		url:          "https://" + listener.Addr().String(),
		log:          log,
		done:         make(chan error, 1),
		repositories: map[string]*Repository{},
	}
	if s.ssh, err = s.startSSH(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("git server: %w", err), listener.Close())
	}
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.serveHTTP),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slogLogger(log),
	}
	go func() { s.done <- s.http.ServeTLS(listener, "", "") }()
	return s, nil
}

// CA is the certificate (PEM) that clients must trust.
func (s *Server) CA() []byte { return s.ca.PEM() }

// Close stops the server; what is under way is cut.
func (s *Server) Close() error {
	err := errors.Join(s.http.Close(), s.ssh.close())
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		return errors.Join(err, served)
	}
	return err
}

// repository finds a repository by the path that a client asks for.
func (s *Server) repository(path string) (*Repository, bool) {
	name := strings.TrimSuffix(strings.Trim(path, "/"), ".git")
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.repositories[name]
	return r, ok
}

func slogLogger(l *slog.Logger) *log.Logger {
	return slog.NewLogLogger(l.Handler(), slog.LevelDebug)
}
