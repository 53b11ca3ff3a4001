// Package podnetwork gives pods addresses of their own, as a pod network does,
// on one machine and without any device of it.
//
// Each pod has a network namespace (package network), so its ports are its own.
// Nothing routes to it: kube-apiserver, which reaches pods for its service and
// pod proxies, is told by an egress configuration to connect through this
// program, which dials in the pod's namespace. From inside, a pod reaches
// kube-apiserver at the address that the node gives it, and nothing else.
//
// What a firewall between control plane and nodes does is thus one switch away:
// see Block.
//
// Not modelled: connections between pods, Service addresses, DNS, the world.
package podnetwork

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/kubeopera/platform/sim/pki"
)

// firstAddress is the first pod's; the next ones follow, and none is used twice.
var firstAddress = netip.AddrFrom4([4]byte{10, 244, 0, 2})

// Network is the pod network of one cluster.
type Network struct {
	dir  string
	log  *slog.Logger
	http *http.Server
	done chan error

	closing     chan struct{}
	connections sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	pods    map[netip.Addr]*Pod
	next    netip.Addr
	blocked bool
	timeout time.Duration // after which a blocked connection fails
}

// Start makes a network until Close. Its files go to dir, which is made if need be.
func Start(ctx context.Context, dir string, log *slog.Logger) (*Network, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	authority, err := pki.New("kubeopera simulator pod network CA")
	if err != nil {
		return nil, err
	}
	server, err := authority.Issue("pod network", []string{address})
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return nil, fmt.Errorf("pod network: %w", err)
	}
	n := &Network{
		dir: dir, log: log, done: make(chan error, 1), closing: make(chan struct{}),
		pods: map[netip.Addr]*Pod{}, next: firstAddress,
	}
	if err := n.writeEgress(authority, listener.Addr().String()); err != nil {
		return nil, errors.Join(fmt.Errorf("pod network: %w", err), listener.Close())
	}
	n.http = &http.Server{
		Handler: http.HandlerFunc(n.serve),
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{server},
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool(),
		},
		// HTTP/2 has no connection to take over.
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() { n.done <- n.http.ServeTLS(listener, "", "") }()
	return n, nil
}

// Close cuts all connections. Pods must have left before.
func (n *Network) Close() error {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	close(n.closing)
	err := n.http.Close()
	if served := <-n.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	n.connections.Wait()
	return err
}

// Block drops what kube-apiserver sends to pods from now on, as a security group
// does that lets it reach nodes at their kubelets' port only: connecting fails
// after the given time, and connections that are open are cut. Port-forwarding,
// which goes through the kubelet, is not touched.
func (n *Network) Block(timeout time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.blocked, n.timeout = true, timeout
	for _, pod := range n.pods {
		pod.cut()
	}
}

// Unblock ends Block.
func (n *Network) Unblock() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.blocked = false
}

// serve answers a CONNECT request of kube-apiserver's.
func (n *Network) serve(w http.ResponseWriter, r *http.Request) {
	if !n.begin() {
		return
	}
	defer n.connections.Done()
	if r.Method != http.MethodConnect {
		http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
		return
	}
	target, err := netip.ParseAddrPort(r.Host)
	if err != nil {
		http.Error(w, "no IP address and port: "+r.Host, http.StatusBadRequest)
		return
	}
	other, pod, err := n.dial(r.Context(), target)
	if err != nil {
		n.log.DebugContext(r.Context(), "API server does not reach a pod", "target", r.Host, "error", err)
		status := http.StatusBadGateway
		if errors.Is(err, context.DeadlineExceeded) {
			status = http.StatusGatewayTimeout
		}
		http.Error(w, err.Error(), status)
		return
	}
	connection, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = other.Close()
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if _, err := io.WriteString(connection, "HTTP/1.1 200 OK\r\n\r\n"); err != nil || buffered.Reader.Buffered() > 0 {
		_ = errors.Join(connection.Close(), other.Close()) // a client speaks only after the answer
		return
	}
	carry(n.closing, pod, connection, other)
}

// begin counts a connection, unless the network is closed. connections.Done must
// follow.
func (n *Network) begin() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.connections.Add(1)
	}
	return !n.closed
}

// dial connects to a pod, or to a kubelet of this machine.
func (n *Network) dial(ctx context.Context, target netip.AddrPort) (net.Conn, *Pod, error) {
	if target.Addr().IsLoopback() {
		connection, err := new(net.Dialer).DialContext(ctx, "tcp", target.String())
		return connection, nil, err
	}
	n.mu.Lock()
	pod, known := n.pods[target.Addr()]
	blocked, timeout := n.blocked, n.timeout
	n.mu.Unlock()
	switch {
	case blocked:
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		<-ctx.Done()
		return nil, nil, fmt.Errorf("dial tcp %s: i/o timeout: %w", target, ctx.Err())
	case !known:
		return nil, nil, fmt.Errorf("dial tcp %s: no route to host", target)
	}
	connection, err := pod.Dial(ctx, target.Port())
	return connection, pod, err
}

// take gives a new pod an address.
func (n *Network) take(pod *Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	pod.ip = n.next
	bytes := n.next.As4()
	next := binary.BigEndian.Uint32(bytes[:]) + 1
	n.next = netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, next)))
	n.pods[pod.ip] = pod
}

func (n *Network) release(pod *Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.pods, pod.ip)
}
