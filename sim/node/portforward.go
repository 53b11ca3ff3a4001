package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

const (
	// Of the kubelet.
	forwardIdleTimeout     = 4 * time.Hour
	forwardCreationTimeout = 30 * time.Second
)

// serveForward forwards ports of a pod, for as long as the client stays.
func (n *Node) serveForward(w http.ResponseWriter, r *http.Request) {
	pod := r.PathValue("pod")
	worker, err := n.worker(r.PathValue("namespace"), pod)
	if err != nil {
		refuse(w, http.StatusNotFound, fmt.Sprintf("pod %q does not exist", pod))
		return
	}
	options, err := portforward.NewV4Options(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	portforward.ServePortForward(w, r, forwarder{worker}, pod, string(worker.uid), options,
		forwardIdleTimeout, forwardCreationTimeout, []string{portforward.ProtocolV1Name})
}

// forwarder forwards connections to one pod.
type forwarder struct{ worker *worker }

// PortForward implements portforward.PortForwarder.
func (f forwarder) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	connection, err := f.worker.dial(ctx, uint16(port)) //nolint:gosec // checked by the caller
	if err != nil {
		return fmt.Errorf("failed to connect to localhost:%d inside the pod: %w", port, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = errors.Join(connection.Close(), stream.Close()) })
	defer stop()
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(connection, stream)
		if half, ok := connection.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	})
	both.Go(func() {
		_, _ = io.Copy(stream, connection)
		_ = stream.Close() // what the client still has to say, nobody reads
	})
	both.Wait()
	_ = connection.Close()
	return nil
}
