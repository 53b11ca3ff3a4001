package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// serve answers kube-apiserver as a kubelet does, as far as logs and forwarded
// ports go, until ctx ends.
func (n *Node) serve(ctx context.Context, listener net.Listener) error {
	routes := http.NewServeMux()
	routes.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	routes.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", n.serveLogs)
	routes.HandleFunc("/portForward/{namespace}/{pod}", n.serveForward)
	for _, path := range []string{"/exec/", "/attach/", "/run/"} {
		routes.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusNotImplemented, "the simulator's node does not do that")
		})
	}
	server := &http.Server{
		Handler:           n.pause.cutOff(routes),
		ReadHeaderTimeout: 10 * time.Second,
		// A log that is followed ends with the node.
		BaseContext: func(net.Listener) context.Context { return ctx },
		// Nor does a connection that a forwarded port has taken over outlive it.
		ConnState: func(connection net.Conn, state http.ConnState) {
			if state == http.StateHijacked {
				context.AfterFunc(ctx, func() { _ = connection.Close() })
			}
		},
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		_ = server.Close()
	})
	err := server.Serve(tls.NewListener(listener, n.config.TLS))
	if !stop() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return ctx.Err()
	}
	return fmt.Errorf("serve logs: %w", err)
}

// refuse answers with a text that kube-apiserver hands on to its own client.
func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) //nolint:gosec // plain text, read by kube-apiserver
}

// serveLogs sends a container's log.
func (n *Node) serveLogs(w http.ResponseWriter, r *http.Request) {
	options, err := parseLogOptions(r.URL.Query(), time.Now())
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	namespace, pod, name := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")
	worker, err := n.worker(namespace, pod)
	if err != nil {
		refuse(w, http.StatusNotFound, fmt.Sprintf("pod %q does not exist", pod))
		return
	}
	log, err := worker.containerLog(name, r.URL.Query().Get("previous") == "true")
	switch {
	case errors.Is(err, ErrNotFound):
		refuse(w, http.StatusNotFound, fmt.Sprintf("container %q not found in pod %q", name, pod))
		return
	case err != nil:
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	controller := http.NewResponseController(w)
	flush := func() { _ = controller.Flush() } // the next write shows that the reader has gone
	if err := log.stream(r.Context(), w, flush, options); err != nil && r.Context().Err() == nil {
		n.config.Log.WarnContext(r.Context(), "log not sent", "pod", pod, "container", name, "error", err)
	}
}

// containerLog finds a log, or says in the kubelet's words why there is none.
func (w *worker) containerLog(name string, previous bool) (*logFile, error) {
	c, err := w.container(name)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	log := c.log
	if previous {
		log = c.previous
	}
	switch {
	case log != nil:
		return log, nil
	case previous:
		return nil, fmt.Errorf("previous terminated container %q in pod %q not found", name, w.name)
	case c.waiting.Reason == "ErrImagePull" || c.waiting.Reason == "ImagePullBackOff":
		return nil, fmt.Errorf("container %q in pod %q is waiting to start: trying and failing to pull image", name, w.name)
	default:
		return nil, fmt.Errorf("container %q in pod %q is waiting to start: %s", name, w.name, c.waiting.Reason)
	}
}

// parseLogOptions reads the parameters that kube-apiserver passes on.
func parseLogOptions(query url.Values, now time.Time) (logOptions, error) {
	options := logOptions{tail: -1, follow: query.Get("follow") == "true", timestamps: query.Get("timestamps") == "true"}
	number := func(name string, least int64) (int64, bool, error) {
		value := query.Get(name)
		if value == "" {
			return 0, false, nil
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < least {
			return 0, false, fmt.Errorf("%s: %q is not a number of at least %d", name, value, least)
		}
		return n, true, nil
	}
	tail, set, err := number("tailLines", 0)
	if err != nil {
		return options, err
	}
	if set {
		options.tail = int(tail)
	}
	if options.limit, _, err = number("limitBytes", 1); err != nil {
		return options, err
	}
	seconds, set, err := number("sinceSeconds", 1)
	if err != nil {
		return options, err
	}
	if set {
		options.since = now.Add(-time.Duration(seconds) * time.Second)
	}
	if value := query.Get("sinceTime"); value != "" {
		if options.since, err = time.Parse(time.RFC3339, value); err != nil {
			return options, fmt.Errorf("sinceTime: %w", err)
		}
	}
	return options, nil
}
