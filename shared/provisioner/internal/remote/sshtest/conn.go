//go:build unix

package sshtest

import (
	"net"
	"sync"
	"sync/atomic"
)

// faultyConn is a connection that is cut after some bytes, or frozen.
type faultyConn struct {
	net.Conn
	left   atomic.Int64 // bytes until the cut
	cuts   bool
	frozen atomic.Bool
	once   sync.Once
	closed chan struct{}
}

func newFaultyConn(c net.Conn, cutAfter int64) *faultyConn {
	f := &faultyConn{Conn: c, cuts: cutAfter > 0, closed: make(chan struct{})}
	f.left.Store(cutAfter)
	return f
}

func (f *faultyConn) freeze() { f.frozen.Store(true) }

func (f *faultyConn) Close() error {
	f.once.Do(func() { close(f.closed) })
	return f.Conn.Close()
}

func (f *faultyConn) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if f.frozen.Load() {
		if err == nil {
			<-f.closed
		}
		return 0, net.ErrClosed
	}
	return f.count(n), err
}

func (f *faultyConn) Write(p []byte) (int, error) {
	if f.frozen.Load() {
		return len(p), nil // as into the kernel's buffer
	}
	n := f.count(len(p))
	written, err := f.Conn.Write(p[:n])
	if err == nil && n < len(p) {
		err = net.ErrClosed
	}
	return written, err
}

// count is how many of n bytes still pass; the connection is closed with the last.
func (f *faultyConn) count(n int) int {
	if !f.cuts {
		return n
	}
	left := f.left.Add(-int64(n))
	if left > 0 {
		return n
	}
	defer func() { go func() { _ = f.Close() }() }()
	return max(0, n+int(left))
}
