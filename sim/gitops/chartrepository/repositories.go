// Package chartrepository stands in for the Helm repositories on the internet:
// whatever host a client asks for through this proxy answers with an index. So
// the real source-controller finds the repositories of a tree there, or learns
// from their real answers that they have moved.
//
// An index lists no charts: the simulator's stand-in for helm-controller does
// not download any.
package chartrepository

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/kubeopera/platform/sim/pki"
)

const index = "apiVersion: v1\nentries: {}\ngenerated: \"2026-01-01T00:00:00Z\"\n"

// gone are hosts of repositories that have moved: they answer 404 in the real
// world too.
var gone = []string{"bitnami-labs.github.io"}

// Repositories is an HTTPS proxy behind which every host is a Helm repository.
type Repositories struct {
	ca   *pki.Authority
	url  string
	http *http.Server
	done chan error

	tunnels  sync.WaitGroup
	mu       sync.Mutex
	statuses map[string]int // by host, where it is not 200
	asked    map[string]int // how often an index was asked for, by host
	hosts    map[string]tls.Certificate
	open     map[net.Conn]bool
	closed   bool
}

// Start serves on a free port of 127.0.0.1 until Close.
func Start(ctx context.Context, log *slog.Logger) (*Repositories, error) {
	ca, err := pki.New("kubeopera simulator chart repositories CA")
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("chart repositories: %w", err)
	}
	r := &Repositories{
		ca: ca, url: "http://" + listener.Addr().String(), done: make(chan error, 1),
		statuses: map[string]int{}, asked: map[string]int{}, hosts: map[string]tls.Certificate{}, open: map[net.Conn]bool{},
	}
	for _, host := range gone {
		r.statuses[host] = http.StatusNotFound
	}
	r.http = &http.Server{
		Handler:           http.HandlerFunc(r.serve),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() { r.done <- r.http.Serve(listener) }()
	return r, nil
}

// ProxyURL is what clients must have as HTTPS_PROXY.
func (r *Repositories) ProxyURL() string { return r.url }

// CA is the certificate (PEM) that clients must trust.
func (r *Repositories) CA() []byte { return r.ca.PEM() }

// Answer makes a host answer with a status from now on; 200 is an index again.
func (r *Repositories) Answer(host string, status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statuses[host] = status
}

// Asked is how often a host was asked for its index.
func (r *Repositories) Asked(host string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[host]
}

// Close cuts all connections.
func (r *Repositories) Close() error {
	r.mu.Lock()
	r.closed = true
	for connection := range r.open {
		_ = connection.Close()
	}
	r.mu.Unlock()
	err := r.http.Close()
	if served := <-r.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	r.tunnels.Wait()
	return err
}

// serve answers CONNECT by being the host itself.
func (r *Repositories) serve(w http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodConnect {
		http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
		return
	}
	host, _, err := net.SplitHostPort(request.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	certificate, err := r.certificate(host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = connection.Close() }()
	if !r.begin(connection) {
		return
	}
	defer r.end(connection)
	if _, err := io.WriteString(connection, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	r.speak(tls.Server(connection, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}), host)
}

// speak answers the requests of one connection to a host.
func (r *Repositories) speak(connection io.ReadWriter, host string) {
	reader := bufio.NewReader(connection)
	for {
		request, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		_ = request.Body.Close()
		status, body := r.respond(host, request.URL.Path)
		response := http.Response{
			StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Request: request,
			Header:        http.Header{"Content-Type": {"text/yaml"}},
			ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)),
		}
		if err := response.Write(connection); err != nil {
			return
		}
	}
}

func (r *Repositories) respond(host, file string) (status int, body string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if path.Base(file) != "index.yaml" {
		return http.StatusNotFound, "not found\n"
	}
	r.asked[host]++
	if status := r.statuses[host]; status != 0 && status != http.StatusOK {
		return status, http.StatusText(status) + "\n"
	}
	return http.StatusOK, index
}

func (r *Repositories) certificate(host string) (tls.Certificate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if certificate, ok := r.hosts[host]; ok {
		return certificate, nil
	}
	certificate, err := r.ca.Issue(host, []string{host})
	if err != nil {
		return tls.Certificate{}, err
	}
	r.hosts[host] = certificate
	return certificate, nil
}

// begin counts a connection, unless all are to be closed.
func (r *Repositories) begin(connection net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.open[connection] = true
	r.tunnels.Add(1)
	return true
}

func (r *Repositories) end(connection net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, connection)
	r.tunnels.Done()
}
