package node

import (
	"context"
	"net"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubeopera/platform/sim/sandbox"
)

// join gives the pod its address, however often that fails, and tells whether
// the pod is to go on.
func (w *worker) join(ctx context.Context) bool {
	if w.node.config.Network == nil || w.pod.Spec.HostNetwork {
		w.setAddress(address)
		return !w.stopping(ctx)
	}
	for {
		if w.stopping(ctx) {
			return false
		}
		network, err := w.node.config.Network.Join(ctx, w.node.server.Host)
		if err == nil {
			w.mu.Lock()
			w.network = network
			w.mu.Unlock()
			w.setAddress(network.IP().String())
			return true
		}
		w.event(corev1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: "+err.Error())
		if !w.pause(ctx, mountRetry) {
			return false
		}
	}
}

func (w *worker) setAddress(ip string) {
	w.mu.Lock()
	w.ip = ip
	w.mu.Unlock()
	w.touch()
}

// leave gives the pod's network up. No container runs any more.
func (w *worker) leave(ctx context.Context) {
	w.mu.Lock()
	network := w.network
	w.network = nil
	w.mu.Unlock()
	if network == nil {
		return
	}
	if err := network.Leave(); err != nil {
		w.node.config.Log.WarnContext(ctx, "network of a pod not closed", "pod", w.name, "error", err)
	}
}

// start starts a container in the pod's network.
func (w *worker) start(plan sandbox.Container, stdout, stderr *os.File) (*sandbox.Process, error) {
	w.mu.Lock()
	network := w.network
	w.mu.Unlock()
	if network == nil {
		return plan.Start(stdout, stderr)
	}
	var process *sandbox.Process
	err := network.Do(func() (err error) {
		process, err = plan.Start(stdout, stderr)
		return err
	})
	return process, err
}

// dial connects to a port of the pod as from inside of it.
func (w *worker) dial(ctx context.Context, port uint16) (net.Conn, error) {
	w.mu.Lock()
	network := w.network
	w.mu.Unlock()
	if network == nil {
		return new(net.Dialer).DialContext(ctx, "tcp4", net.JoinHostPort(address, strconv.Itoa(int(port))))
	}
	return network.Dial(ctx, port)
}
