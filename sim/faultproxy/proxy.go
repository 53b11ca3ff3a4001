// Package faultproxy stands between a client and an API server and does
// something at a chosen request: kill the client's process, answer an error,
// wait. It is how tests stop a service "right after it created the Secret"
// without a line for tests in the service.
package faultproxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"sync"
	"time"

	"github.com/kubeopera/platform/sim/pki"
)

// When says on which side of the API server a fault happens.
type When int

const (
	// Before is when the request has come and the API server has not seen it.
	Before When = iota
	// After is when the API server has answered and the client has not seen it.
	After
)

// Fault happens once, at the first request that it matches.
type Fault struct {
	Method string         // HTTP method
	Path   *regexp.Regexp // of the URL's path
	When   When
	// Do runs with the request held. If it gives a status other than 0, that is
	// the answer, and with Before the API server never sees the request.
	Do func(context.Context) (status int)
}

// Proxy is a running proxy.
type Proxy struct {
	url  string
	ca   *pki.Authority
	http *http.Server
	done chan error

	mu     sync.Mutex
	faults []Fault
}

// Start proxies to the API server at target, whose certificate caPEM signed,
// until Close.
func Start(ctx context.Context, target string, caPEM []byte, log *slog.Logger) (*Proxy, error) {
	upstream, err := url.Parse(target)
	if err != nil {
		return nil, fmt.Errorf("fault proxy: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(caPEM) {
		return nil, errors.New("fault proxy: the API server's CA has no certificate")
	}
	ca, err := pki.New("kubeopera simulator fault proxy CA")
	if err != nil {
		return nil, err
	}
	cert, err := ca.Issue("fault proxy", []string{"127.0.0.1", "localhost"})
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("fault proxy: %w", err)
	}
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}
	p := &Proxy{url: "https://" + listener.Addr().String(), ca: ca, done: make(chan error, 1)}
	errorLog := slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	forward := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		Transport:      transport,
		FlushInterval:  -1, // watches and followed logs are streams
		ErrorLog:       errorLog,
		ModifyResponse: p.after,
	}
	p.http = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if fault, ok := p.take(r, Before); ok {
				if status := fault.Do(r.Context()); status != 0 {
					http.Error(w, "injected fault", status)
					return
				}
			}
			forward.ServeHTTP(w, r)
		}),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          errorLog,
	}
	go func() {
		err := p.http.ServeTLS(listener, "", "")
		transport.CloseIdleConnections()
		p.done <- err
	}()
	return p, nil
}

// URL is where clients reach the API server through the proxy.
func (p *Proxy) URL() string { return p.url }

// CA is the certificate (PEM) that clients of the proxy must trust.
func (p *Proxy) CA() []byte { return p.ca.PEM() }

// Add arms a fault.
func (p *Proxy) Add(fault Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fault)
}

// Clear disarms all faults and gives how many had not happened.
func (p *Proxy) Clear() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.faults)
	p.faults = nil
	return n
}

// Close stops the proxy and cuts what is under way.
func (p *Proxy) Close() error {
	err := p.http.Close()
	if served := <-p.done; !errors.Is(served, http.ErrServerClosed) {
		return errors.Join(err, served)
	}
	return err
}

func (p *Proxy) after(response *http.Response) error {
	fault, ok := p.take(response.Request, After)
	if !ok {
		return nil
	}
	if status := fault.Do(response.Request.Context()); status != 0 {
		return fmt.Errorf("injected fault with status %d", status) // ReverseProxy answers 502
	}
	return nil
}

// take removes and gives the first armed fault that the request matches.
func (p *Proxy) take(r *http.Request, when When) (Fault, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, fault := range p.faults {
		if fault.When == when && fault.Method == r.Method && fault.Path.MatchString(r.URL.Path) {
			p.faults = append(p.faults[:i:i], p.faults[i+1:]...)
			return fault, true
		}
	}
	return Fault{}, false
}
