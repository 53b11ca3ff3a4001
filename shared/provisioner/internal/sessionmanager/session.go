package sessionmanager

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sync/errgroup"
)

const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 10 * time.Second
	// settled is how long a websocket must have lasted to count as a success, if
	// nothing moved on it.
	settled = 30 * time.Second
	// closeGrace is how long messages that are missing may come after the service
	// has announced the session's end.
	closeGrace = 2 * time.Second
)

// run keeps the session going on one websocket after the other until it ends, and
// then terminates it.
func (c *Conn) run(ctx context.Context, token string) {
	defer close(c.done)
	c.startTimers()
	c.keepConnected(ctx, token)
	c.mu.Lock()
	for _, t := range c.timers {
		t.Stop()
	}
	over := c.over
	c.mu.Unlock()
	c.cancel()
	if !over {
		c.terminateErr = c.client.terminate(ctx, c.session)
	}
}

func (c *Conn) keepConnected(ctx context.Context, token string) {
	lost, attempt := time.Now(), 0
	for {
		began, before := time.Now(), c.progress()
		err := c.connect(ctx, token)
		if ctx.Err() != nil || c.broken(err) {
			return
		}
		if c.progress() != before || time.Since(began) > settled {
			lost, attempt = time.Now(), 0
		}
		if since := time.Since(lost); since >= c.client.config.ResumeTimeout {
			c.fail(&LostError{Session: c.session, After: since, Err: err})
			return
		}
		c.log.DebugContext(ctx, "session lost its websocket", "attempt", attempt, "error", err)
		token = "" // it was for one connection
		select {
		case <-time.After(backoff(attempt)):
		case <-ctx.Done():
			return
		}
		attempt++
	}
}

// backoff is how long to wait before an attempt, the first of which is made at
// once.
func backoff(attempt int) time.Duration {
	if attempt == 0 {
		return 0
	}
	limit := min(firstBackoff<<min(attempt-1, 10), lastBackoff)
	return limit/2 + rand.N(limit/2) //nolint:gosec // jitter
}

// finalError is one that no further attempt can mend.
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

// connect serves one websocket, and says why it ended.
func (c *Conn) connect(ctx context.Context, token string) error {
	attempt, cancel := context.WithTimeout(ctx, c.client.config.ConnectTimeout)
	defer cancel()
	if token == "" {
		var err error
		if token, err = c.client.resume(attempt, c); err != nil {
			return err
		}
	}
	ws, err := c.client.open(attempt, c, token)
	if err != nil {
		return err
	}
	cancel()
	c.mu.Lock()
	c.out.restart()
	c.mu.Unlock()
	return c.serve(ctx, ws)
}

// serve exchanges messages until the websocket breaks or ctx ends.
func (c *Conn) serve(ctx context.Context, ws *websocket.Conn) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { // unblocks the other three
		<-ctx.Done()
		_ = ws.CloseNow()
		return nil
	})
	group.Go(func() error { return c.receive(ctx, ws) })
	group.Go(func() error { return c.transmit(ctx, ws) })
	group.Go(func() error { return c.ping(ctx, ws) })
	return group.Wait()
}

// receive handles what comes. Nothing in it waits for a reader or a writer, so
// that acknowledgements are always heard.
func (c *Conn) receive(ctx context.Context, ws *websocket.Conn) error {
	ws.SetReadLimit(maxFrame)
	buffer := make([]byte, maxFrame+1)
	for {
		kind, r, err := ws.Reader(context.WithoutCancel(ctx))
		if err != nil {
			return fmt.Errorf("read from the data channel: %w", err)
		}
		n, err := io.ReadFull(r, buffer)
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("read from the data channel: %w", err)
		}
		if kind != websocket.MessageBinary {
			c.log.DebugContext(ctx, "text on the data channel ignored", "bytes", n)
			continue
		}
		m, err := parse(buffer[:n])
		if err != nil {
			// What matters is not acknowledged and so sent again.
			c.log.DebugContext(ctx, "message dropped", "error", err)
			continue
		}
		if err := c.handle(ctx, m); err != nil {
			return err
		}
	}
}

func (c *Conn) handle(ctx context.Context, m message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.received++
	switch m.kind {
	case typeAcknowledge:
		sequence, err := acknowledged(m.payload)
		if err != nil {
			c.log.DebugContext(ctx, "message dropped", "error", err)
			return nil
		}
		c.out.acknowledge(sequence, time.Now())
		c.writable.Broadcast()
		c.part()
	case typeOutput:
		for _, ready := range c.in.accept(m) {
			if err := c.take(ctx, ready); err != nil {
				return err
			}
		}
		c.readable.Broadcast()
		c.endIfClosed(false)
	case typeClosed:
		c.closeByService(m.payload)
	case typePause:
		c.out.paused = true
	case typeStart:
		c.out.paused = false
	default:
		c.log.DebugContext(ctx, "message of an unknown type ignored", "type", m.kind)
	}
	c.signal()
	return nil
}

// closeOnce is for channels that are closed under the lock.
func closeOnce(ch chan struct{}) {
	select {
	case <-ch:
	default:
		close(ch)
	}
}

// take acts on a message that is in order.
func (c *Conn) take(ctx context.Context, m message) error {
	switch m.payloadType {
	case payloadData:
		c.active = time.Now()
	case payloadHandshakeRequest:
		response, refusal, err := answer(m.payload)
		if err != nil {
			return &finalError{err}
		}
		c.out.put(payloadHandshakeResponse, response)
		if refusal != nil {
			c.parting = refusal
			c.timers = append(c.timers, time.AfterFunc(c.client.config.LingerTimeout, func() { c.fail(refusal) }))
		}
	case payloadHandshakeComplete:
		if c.parting == nil {
			closeOnce(c.ready)
		}
	case payloadFlag:
		if len(m.payload) == 4 && binary.BigEndian.Uint32(m.payload) == flagConnectError {
			return &finalError{&PortError{Target: c.target, Port: c.port}}
		}
	default:
		c.log.DebugContext(ctx, "payload of an unknown type ignored", "payload_type", m.payloadType)
	}
	return nil
}

// closeByService notes the end that the service has announced.
func (c *Conn) closeByService(payload []byte) {
	var body struct{ Output string }
	if c.closed != nil {
		return
	}
	reason := ""
	switch err := json.Unmarshal(payload, &body); {
	case err == nil:
		reason = body.Output
	case len(payload) > 0:
		reason = "for a reason that cannot be read"
	}
	c.over = true
	c.closed = &ClosedError{Session: c.session, Reason: reason}
	c.timers = append(c.timers, time.AfterFunc(closeGrace, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.endIfClosed(true)
	}))
	c.endIfClosed(false)
}

// endIfClosed ends the session if the service has announced it and no message is
// known to be missing, or none is waited for.
func (c *Conn) endIfClosed(now bool) {
	if c.closed == nil || c.err != nil || !now && len(c.in.later) > 0 {
		return
	}
	c.closed.Truncated = len(c.in.later) > 0
	c.failLocked(c.closed)
}

// transmit sends what is to be sent.
func (c *Conn) transmit(ctx context.Context, ws *websocket.Conn) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		frame, wait, err := c.next()
		if err != nil {
			return err
		}
		if frame != nil {
			// Without a context that ends: watching it costs more than the write.
			if err := ws.Write(context.WithoutCancel(ctx), websocket.MessageBinary, frame); err != nil {
				return fmt.Errorf("write to the data channel: %w", err)
			}
			continue
		}
		var due <-chan time.Time
		if wait > 0 {
			timer.Reset(wait)
			due = timer.C
		}
		select {
		case <-c.wake:
		case <-due:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// next is the next frame, or how long to wait for one. Acknowledgements go first:
// they are what the peer's window waits for.
func (c *Conn) next() (frame []byte, wait time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if a, ok := c.in.next(); ok {
		return a.frame(now), 0, nil
	}
	frame, wait, err = c.out.next(now)
	if err != nil {
		return nil, 0, &finalError{&LostError{Session: c.session, After: maxSends * resendEvery, Err: err}}
	}
	if c.parting != nil && len(c.out.queue) == 0 {
		return nil, 0, &finalError{c.parting}
	}
	return frame, wait, nil
}

// ping keeps what is between here and the service from forgetting the websocket,
// and notices that it has. A service that has never answered a ping is not held
// to it.
func (c *Conn) ping(ctx context.Context, ws *websocket.Conn) error {
	ticker := time.NewTicker(c.client.config.PingInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		before := c.messages()
		wait, cancel := context.WithTimeout(ctx, c.client.config.PingInterval)
		err := ws.Ping(wait)
		cancel()
		c.mu.Lock()
		c.ponged = c.ponged || err == nil
		dead := err != nil && c.ponged && c.received == before
		c.mu.Unlock()
		if dead {
			return fmt.Errorf("ping the data channel: %w", err)
		}
	}
}

// messages is how many have been received, of any kind.
func (c *Conn) messages() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.received
}

// startTimers starts those of IdleTimeout and MaxDuration.
func (c *Conn) startTimers() {
	idle, limit := c.client.config.IdleTimeout, c.client.config.MaxDuration
	c.mu.Lock()
	defer c.mu.Unlock()
	if limit > 0 {
		c.timers = append(c.timers, time.AfterFunc(limit, func() {
			c.fail(&ExpiredError{Session: c.session, Limit: limit})
		}))
	}
	if idle > 0 {
		var timer *time.Timer
		timer = time.AfterFunc(idle, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if left := idle - time.Since(c.active); left > 0 {
				timer.Reset(left)
				return
			}
			c.failLocked(&ExpiredError{Session: c.session, Idle: true, Limit: idle})
		})
		c.timers = append(c.timers, timer)
	}
}
