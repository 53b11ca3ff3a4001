package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// errDraining is why requests end that are still open when the service stops.
var errDraining = errors.New("the service is shutting down")

// server's times fit into Kubernetes' default of 30 s between TERM and KILL.
type server struct {
	drain time.Duration // requests may end by themselves for that long, then their contexts are cancelled
	grace time.Duration // connections are closed after that long, counted from the start of the stop
	body  time.Duration // a body that no handler reads may take that long to arrive; 0: for ever
	write time.Duration // an answer may take that long from the request to its last byte, streams excepted; 0: for ever
}

// Serve answers requests until ctx ends; then it takes no new ones, waits for
// those that run and returns. Long polls and log streams are told by their
// contexts to end after a few seconds. The error is nil for such a stop.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger) error {
	// The longest poll takes a minute.
	return server{drain: 5 * time.Second, grace: 20 * time.Second, body: bodyTimeout, write: 2 * time.Minute}.serve(ctx, listener, handler, log)
}

// limitBody bounds how long a body may take that no handler reads, such as that
// of a request without a valid key: net/http reads it to its end before it sends
// the answer, and has no time limit of its own that would not end handlers too.
func (s server) limitBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 && s.body > 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.body)) // every connection has deadlines
		}
		next.ServeHTTP(w, r)
	})
}

func (s server) serve(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger) error {
	requests, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(errDraining)
	srv := &http.Server{
		Handler:           s.limitBody(handler),
		ReadHeaderTimeout: 10 * time.Second,
		WriteTimeout:      s.write,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return requests },
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve http: %w", err)
	case <-ctx.Done():
	}
	log.InfoContext(ctx, "draining requests")
	drained := time.AfterFunc(s.drain, func() { cancel(errDraining) })
	defer drained.Stop()
	stop, cancelStop := context.WithTimeout(context.WithoutCancel(ctx), s.grace)
	defer cancelStop()
	err := srv.Shutdown(stop)
	if serr := <-served; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	if err != nil {
		_ = srv.Close() // the error that counts is Shutdown's
		return fmt.Errorf("drain requests: %w", err)
	}
	return nil
}
