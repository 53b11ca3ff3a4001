// Package git is the simulator's Git server: real smart HTTPS, by git's own
// http-backend, over bare repositories below one directory, with a certificate
// authority of its own.
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
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/kubeopera/platform/sim/pki"
)

// Server serves the repositories below its directory.
type Server struct {
	dir  string
	git  string
	ca   *pki.Authority
	url  string
	http *http.Server
	done chan error
}

// Start serves on a free port of 127.0.0.1 until Close. It needs the git binary.
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
		dir:  dir,
		git:  git,
		ca:   ca,
		url:  "https://" + listener.Addr().String(),
		done: make(chan error, 1),
	}
	s.http = &http.Server{
		Handler: &cgi.Handler{
			Path:   backend,
			Env:    []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + dir},
			Logger: slogLogger(log),
		},
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slogLogger(log),
	}
	go func() { s.done <- s.http.ServeTLS(listener, "", "") }()
	return s, nil
}

// CA is the certificate (PEM) that clients must trust.
func (s *Server) CA() []byte { return s.ca.PEM() }

// Close stops the server; requests that are under way are cut.
func (s *Server) Close() error {
	err := s.http.Close()
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		return errors.Join(err, served)
	}
	return err
}

func slogLogger(l *slog.Logger) *log.Logger {
	return slog.NewLogLogger(l.Handler(), slog.LevelDebug)
}
