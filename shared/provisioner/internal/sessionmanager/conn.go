package sessionmanager

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

// Conn is a session: a connection to a port on an instance. Its methods may be
// called concurrently. It is ended by Close, and by itself on an error, which
// Read and Write then give.
type Conn struct {
	client    *Client
	target    string
	port      int
	session   string // id
	streamURL string
	log       *slog.Logger
	cancel    context.CancelFunc // ends run, which closes done
	ready     chan struct{}      // closed when data may flow
	flushed   chan struct{}      // closed when the agent knows that this side has closed
	done      chan struct{}
	wake      chan struct{} // holds one: there is something to send

	writing sync.Mutex // one Write at a time, so that none is interleaved

	mu                          sync.Mutex
	readable, writable          sync.Cond
	readDeadline, writeDeadline deadline
	in                          receiver
	out                         sender
	err                         error // why it ended by itself
	closing, asked              bool
	parting                     error // will end it once the agent knows why
	trouble                     error // of the latest websocket
	over                        bool  // for the service; nothing to terminate
	closed                      *ClosedError
	ponged                      bool      // the service has answered a ping
	received                    int64     // messages of any kind
	active                      time.Time // when data last moved
	timers                      []*time.Timer
	terminateErr                error // set before done is closed
}

func newConn(client *Client, target string, port int, session, streamURL string) *Conn {
	c := &Conn{
		client: client, target: target, port: port, session: session, streamURL: streamURL,
		log:   client.config.Log.With("session", session, "target", target),
		ready: make(chan struct{}), flushed: make(chan struct{}), done: make(chan struct{}),
		wake: make(chan struct{}, 1),
		out:  newSender(), active: time.Now(),
	}
	c.readable.L, c.writable.L = &c.mu, &c.mu
	return c
}

// Read reads data from the instance. It gives io.EOF once the instance has
// closed the connection and all has been read.
func (c *Conn) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.closing:
			return 0, net.ErrClosed
		case c.readDeadline.passed():
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case len(c.in.unread) > 0:
			n := c.in.read(b)
			c.signal() // acknowledgements, perhaps
			return n, nil
		case c.err != nil:
			if closed, ok := errors.AsType[*ClosedError](c.err); ok && closed.Reason == "" && !closed.Truncated {
				return 0, io.EOF
			}
			return 0, c.err
		}
		c.readable.Wait()
	}
}

// Write queues b to be sent to the instance, and blocks while Window messages are
// on their way.
func (c *Conn) Write(b []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for {
		switch {
		case c.closing:
			return n, net.ErrClosed
		case c.err != nil:
			return n, c.err
		case c.writeDeadline.passed():
			return n, os.ErrDeadlineExceeded
		case n == len(b):
			return n, nil
		case c.out.room():
			n += c.out.data(b[n:])
			c.active = time.Now()
			c.signal()
			if n == len(b) {
				return n, nil
			}
		default:
			c.writable.Wait()
		}
	}
}

// Close ends the session. Reads and writes end at once; what has been written is
// delivered as long as the peer goes on taking it. Close takes some seconds at
// most, by Config, and gives an error only if the session may live on.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		<-c.done
		return nil
	}
	c.closing = true
	c.in.discard()
	c.part()
	c.readDeadline.stop()
	c.writeDeadline.stop()
	c.readable.Broadcast()
	c.writable.Broadcast()
	c.mu.Unlock()
	c.signal()
	c.linger()
	c.cancel()
	<-c.done
	c.client.forget(c)
	select {
	case <-c.flushed: // the agent has ended the session by itself
		return nil
	default:
		return c.terminateErr
	}
}

// part asks the agent to end the session once it has everything, and then notes
// that it is about to. An agent acknowledges what comes out of order before it
// has acted on it, so the question goes alone.
func (c *Conn) part() {
	switch {
	case !c.closing || c.err != nil || len(c.out.queue) > 0:
	case !c.asked:
		c.asked = true
		c.out.put(payloadFlag, []byte{0, 0, 0, byte(flagTerminate)})
	default:
		closeOnce(c.flushed)
	}
}

// linger waits until all is delivered, the session is over, or nothing has moved
// for LingerTimeout.
func (c *Conn) linger() {
	limit := time.NewTimer(c.client.config.MaxLinger)
	defer limit.Stop()
	idle := time.NewTicker(c.client.config.LingerTimeout)
	defer idle.Stop()
	before := c.progress()
	for {
		select {
		case <-c.flushed:
			return
		case <-c.done:
			return
		case <-limit.C:
			return
		case <-idle.C:
			now := c.progress()
			if now == before {
				return
			}
			before = now
		}
	}
}

// progress grows with every message that the two sides have exchanged for good.
func (c *Conn) progress() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.in.expected + c.out.acked
}

// fail ends the session by itself, with the first reason that there is.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failLocked(err)
}

func (c *Conn) failLocked(err error) {
	if c.err == nil {
		// What has been refused explains what the agent makes of it.
		c.err = cmp.Or(c.parting, err)
	}
	c.readable.Broadcast()
	c.writable.Broadcast()
	c.cancel()
}

// broken notes why a websocket ended, and says whether the session has ended, too.
func (c *Conn) broken(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble = err
	if final, ok := errors.AsType[*finalError](err); ok {
		c.failLocked(final.err)
	}
	c.endIfClosed(true) // nothing comes any more
	return c.err != nil
}

// failure is why the session ended by itself, nil if it has not.
func (c *Conn) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *Conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline ends pending and later reads at t.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.setDeadline(&c.readDeadline, &c.readable, t)
}

// SetWriteDeadline ends pending and later writes at t.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadline(&c.writeDeadline, &c.writable, t)
}

func (c *Conn) setDeadline(d *deadline, waiting *sync.Cond, t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return net.ErrClosed
	}
	d.set(t, waiting)
	return nil
}

// LocalAddr names the session.
func (c *Conn) LocalAddr() net.Addr { return address(net.JoinHostPort(c.session, "0")) }

// RemoteAddr names the instance and the port.
func (c *Conn) RemoteAddr() net.Addr {
	return address(net.JoinHostPort(c.target, strconv.Itoa(c.port)))
}

// address has the form host:port, which packages of SSH expect.
type address string

func (a address) Network() string { return "ssm" }
func (a address) String() string  { return string(a) }
