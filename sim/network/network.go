// Package network gives a machine or a pod a network namespace of its own in which
// every IPv4 address leads back to this program.
//
// The namespace has a loopback device and one route that makes all addresses
// local. A listener on 0.0.0.0:6443 in there thus gets every connection to port
// 6443 of any address, and sees in the connection's local address for whom it
// was meant. A socket belongs to the namespace in which it was made, whoever
// uses it: this program accepts in the machine's namespace and dials in its
// own, with no process or socket file in between. Ports on which nobody listens
// refuse connections, as on a machine.
//
// It works for root and in a user namespace alike (sandbox.Enter).
package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Network is a network namespace.
type Network struct{ namespace *os.File }

// New makes a namespace.
func New() (*Network, error) {
	n := &Network{}
	err := onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make network namespace: %w", err)
		}
		var err error
		if n.namespace, err = os.Open(threadNamespace); err != nil {
			return fmt.Errorf("open network namespace: %w", err)
		}
		if err := makeAllLocal(); err != nil {
			return errors.Join(err, n.namespace.Close())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return n, nil
}

// Do calls f on a thread in the namespace. Sockets that f makes and processes
// that it starts itself belong to the namespace; goroutines that it starts do not.
func (n *Network) Do(f func() error) error {
	namespace, err := n.namespace.SyscallConn()
	if err != nil {
		return fmt.Errorf("enter network namespace: %w", err)
	}
	return onOwnThread(func() error {
		var entering error
		// Control holds Close off; after it, it fails.
		err := namespace.Control(func(fd uintptr) { entering = unix.Setns(int(fd), unix.CLONE_NEWNET) })
		if err := errors.Join(err, entering); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return f()
	})
}

// Listen listens in the namespace; address holds an IP address, not a name.
func (n *Network) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	var listener net.Listener
	err := n.Do(func() (err error) {
		listener, err = new(net.ListenConfig).Listen(ctx, network, address)
		return err
	})
	return listener, err
}

// Dial connects from within the namespace; address holds an IP address, not a name.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var connection net.Conn
	err := n.Do(func() (err error) {
		connection, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return connection, err
}

// ListenPacket listens for datagrams in the namespace.
func (n *Network) ListenPacket(ctx context.Context, network, address string) (net.PacketConn, error) {
	var connection net.PacketConn
	err := n.Do(func() (err error) {
		connection, err = new(net.ListenConfig).ListenPacket(ctx, network, address)
		return err
	})
	return connection, err
}

// Close gives the namespace up. It ends with the last process and socket in it.
func (n *Network) Close() error { return n.namespace.Close() }

const threadNamespace = "/proc/thread-self/ns/net"

// onOwnThread calls f, which may change its thread's namespace, on a thread that
// ends with it: an ordinary user's thread could not go back, since the namespace
// that it came from is not the user's own.
func onOwnThread(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: so the runtime ends the thread
		result <- f()
	}()
	return <-result
}
