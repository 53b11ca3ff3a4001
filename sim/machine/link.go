package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
)

// link is a machine's SSH port as the world reaches it: it listens while sshd
// does, and every byte goes through it, so that it can fail like a network.
type link struct {
	address netip.AddrPort
	dial    func(context.Context) (net.Conn, error) // to sshd
	ctx     context.Context                         //nolint:containedctx // the machine's life
	wait    *sync.WaitGroup

	mu          sync.Mutex
	listener    net.Listener // nil: connections are refused
	connections map[*linked]bool
	sshd        bool          // sshd listens
	refusing    bool          // although sshd listens
	hole        chan struct{} // not nil: bytes stay until it closes
	budget      int64         // of bytes until all connections break; 0: no limit
}

// linked is a connection, both of its halves.
type linked struct{ outer, inner net.Conn }

func newLink(ctx context.Context, address netip.AddrPort, wait *sync.WaitGroup, dial func(context.Context) (net.Conn, error)) *link {
	l := &link{address: address, dial: dial, ctx: ctx, wait: wait, connections: map[*linked]bool{}}
	context.AfterFunc(ctx, func() { _ = l.set(func() { l.sshd = false }) })
	return l
}

// set changes the link's state and opens or closes its listener accordingly.
func (l *link) set(change func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	open := l.sshd && !l.refusing && l.ctx.Err() == nil
	switch {
	case !open && l.listener != nil:
		_ = l.listener.Close()
		l.listener = nil
		l.breakAll()
	case open && l.listener == nil:
		listener, err := new(net.ListenConfig).Listen(l.ctx, "tcp4", l.address.String())
		if err != nil {
			return fmt.Errorf("listen for the machine's SSH port: %w", err)
		}
		l.listener = listener
		l.wait.Go(func() { l.accept(listener) })
	}
	return nil
}

func (l *link) open() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.listener != nil
}

func (l *link) accept(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		l.wait.Go(func() { l.carry(connection) })
	}
}

// carry carries a connection to sshd and back.
func (l *link) carry(outer net.Conn) {
	inner, err := l.dial(l.ctx)
	if err != nil {
		refuse(outer)
		return
	}
	c := &linked{outer: outer, inner: inner}
	l.mu.Lock()
	if l.listener == nil {
		l.mu.Unlock()
		c.reset()
		return
	}
	l.connections[c] = true
	l.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { l.pass(c, inner, outer) })
	both.Go(func() { l.pass(c, outer, inner) })
	both.Wait()
	l.mu.Lock()
	delete(l.connections, c)
	l.mu.Unlock()
	_ = errors.Join(outer.Close(), inner.Close())
}

// pass copies one way, as the link lets it.
func (l *link) pass(c *linked, to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if n = l.admit(n); n > 0 {
				if _, err := to.Write(buffer[:n]); err != nil {
					c.reset()
					return
				}
			}
			l.spend(n)
		}
		if err != nil {
			if tcp, ok := to.(*net.TCPConn); ok && errors.Is(err, io.EOF) {
				_ = tcp.CloseWrite()
				return
			}
			c.reset()
			return
		}
	}
}

// admit waits while the link is a hole, and says how many of n bytes may pass.
func (l *link) admit(n int) int {
	for {
		l.mu.Lock()
		hole, budget := l.hole, l.budget
		l.mu.Unlock()
		if hole == nil {
			if budget > 0 {
				return int(min(int64(n), budget))
			}
			return n
		}
		select {
		case <-hole:
		case <-l.ctx.Done():
			return 0
		}
	}
}

// spend takes bytes that passed from the budget; when it is used up, all
// connections break.
func (l *link) spend(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.budget == 0 {
		return
	}
	if l.budget -= int64(n); l.budget <= 0 {
		l.budget = 0
		l.breakAll()
	}
}

// breakAll resets all connections. mu is held.
func (l *link) breakAll() {
	for c := range l.connections {
		c.reset()
	}
}

// reset ends both halves at once, with a reset where TCP has one.
func (c *linked) reset() {
	refuse(c.outer)
	refuse(c.inner)
}

// cut resets all connections. New ones are as before.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.breakAll()
}

// cutAfter resets all connections once n more bytes have passed, both ways and
// all connections counted together.
func (l *link) cutAfter(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.budget = n
}

// blackhole lets no byte pass any more. Nobody is told: what is sent waits, as in
// TCP, and arrives after restore.
func (l *link) blackhole() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hole == nil {
		l.hole = make(chan struct{})
	}
}

// refuse resets all connections and refuses new ones.
func (l *link) refuse() { _ = l.set(func() { l.refusing = true }) }

// restore ends all faults.
func (l *link) restore() error {
	return l.set(func() {
		l.refusing, l.budget = false, 0
		if l.hole != nil {
			close(l.hole)
			l.hole = nil
		}
	})
}
