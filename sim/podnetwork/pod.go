package podnetwork

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"

	"github.com/kubeopera/platform/sim/network"
)

// Pod is a pod's network.
type Pod struct {
	of      *Network
	network *network.Network
	ip      netip.Addr
	server  net.Listener // in the pod, in kube-apiserver's place

	accepting sync.WaitGroup
	mu        sync.Mutex
	carried   map[net.Conn]bool // ends of connections from kube-apiserver
}

// Join makes a pod's network. Connections from inside to apiServer, an IP address
// with its port, lead to that address of this machine.
func (n *Network) Join(ctx context.Context, apiServer string) (*Pod, error) {
	namespace, err := network.New()
	if err != nil {
		return nil, fmt.Errorf("network of a pod: %w", err)
	}
	listener, err := namespace.Listen(ctx, "tcp4", apiServer)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("network of a pod: %w", err), namespace.Close())
	}
	pod := &Pod{of: n, network: namespace, server: listener, carried: map[net.Conn]bool{}}
	n.take(pod)
	pod.accepting.Go(func() { pod.accept(apiServer) })
	return pod, nil
}

// IP is the pod's address.
func (p *Pod) IP() netip.Addr { return p.ip }

// Do calls f on a thread of the pod's network: processes that f starts belong to it.
func (p *Pod) Do(f func() error) error { return p.network.Do(f) }

// Dial connects to a port of the pod.
func (p *Pod) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	return p.network.Dial(ctx, "tcp4", net.JoinHostPort(address, strconv.Itoa(int(port))))
}

// Leave ends the pod's connections and gives its address up.
func (p *Pod) Leave() error {
	p.of.release(p)
	err := p.server.Close()
	p.accepting.Wait()
	p.cut()
	return errors.Join(err, p.network.Close())
}

// accept carries the pod's connections to kube-apiserver.
func (p *Pod) accept(apiServer string) {
	for {
		connection, err := p.server.Accept()
		if err != nil {
			return
		}
		if !p.of.begin() {
			_ = connection.Close()
			return
		}
		go func() {
			defer p.of.connections.Done()
			other, err := new(net.Dialer).Dial("tcp4", apiServer)
			if err != nil {
				_ = connection.Close()
				return
			}
			carry(p.of.closing, nil, connection, other)
		}()
	}
}

// cut ends the connections from kube-apiserver.
func (p *Pod) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for connection := range p.carried {
		_ = connection.Close()
	}
}

func (p *Pod) note(connection net.Conn, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if open {
		p.carried[connection] = true
	} else {
		delete(p.carried, connection)
	}
}

// carry copies both ways until both sides are through or the network closes. A
// connection to a pod can be cut.
func carry(closing <-chan struct{}, pod *Pod, one, other net.Conn) {
	if pod != nil {
		pod.note(other, true)
		defer pod.note(other, false)
	}
	var both sync.WaitGroup
	both.Go(func() { copyHalf(one, other) })
	both.Go(func() { copyHalf(other, one) })
	through := make(chan struct{})
	go func() {
		both.Wait()
		close(through)
	}()
	select {
	case <-through:
	case <-closing:
	}
	_ = errors.Join(one.Close(), other.Close())
	<-through
}

// copyHalf copies one way and passes the end on. A broken side breaks the other.
func copyHalf(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		_ = errors.Join(to.Close(), from.Close())
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
