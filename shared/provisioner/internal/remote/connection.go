package remote

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// connection is one SSH connection, watched until it ends.
type connection struct {
	client *ssh.Client
	gone   chan struct{} // closed when it has ended
	tasks  sync.WaitGroup
}

func (c *connection) alive() bool {
	select {
	case <-c.gone:
		return false
	default:
		return true
	}
}

// close ends it and waits for its goroutines.
func (c *connection) close() {
	_ = c.client.Close()
	c.tasks.Wait()
}

// connect tries until there is a connection, or trying is of no use any more.
func (h *Host) connect(ctx context.Context) (*connection, error) {
	wait := h.config.Backoff
	for attempt := 1; ; attempt++ {
		c, err := h.attempt(ctx)
		switch {
		case err == nil:
			return c, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("connect to %s: %w", h.config.Target, context.Cause(ctx))
		case permanent(err):
			return nil, fmt.Errorf("connect: %w", h.masked(err))
		case attempt >= h.config.MaxRetries:
			return nil, &UnreachableError{Target: h.config.Target, Attempts: attempt, Err: h.masked(err)}
		}
		h.log.DebugContext(ctx, "host is unreachable", "attempt", attempt, "error", h.masked(err))
		if err := pause(ctx, wait); err != nil {
			return nil, fmt.Errorf("connect to %s: %w", h.config.Target, err)
		}
		wait = min(2*wait, maxBackoff)
	}
}

// pause waits for half of d to d: many hosts that were lost together are not
// called together.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d/2 + rand.N(d/2+1)) //nolint:gosec // jitter is no secret
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// permanent says that the same attempt would fail again.
func permanent(err error) bool {
	var auth *AuthError
	var key *HostKeyError
	var algorithms *ssh.AlgorithmNegotiationError
	var p interface{ Permanent() bool }
	return errors.As(err, &auth) || errors.As(err, &key) || errors.As(err, &algorithms) ||
		errors.As(err, &p) && p.Permanent()
}

// attempt dials and logs in once.
func (h *Host) attempt(ctx context.Context) (*connection, error) {
	keys, err := newHostKeyCheck(h.config)
	if err != nil {
		return nil, &HostKeyError{Target: h.config.Target, Err: err, Hint: "make the file readable and writable, or pin the key"}
	}
	conn, err := h.dial(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, h.config.HandshakeTimeout, fmt.Errorf("no SSH handshake within %s", h.config.HandshakeTimeout))
	defer cancel()
	// By closing, not by a deadline: tunnels may have none.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	client, err := h.handshake(ctx, conn, keys)
	if !stop() && err == nil {
		_ = client.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close()
		if cause := context.Cause(ctx); cause != nil && !permanent(err) {
			return nil, cause
		}
		return nil, err
	}
	c := &connection{client: client, gone: make(chan struct{})}
	c.tasks.Go(func() {
		defer close(c.gone)
		_ = client.Wait()
	})
	c.tasks.Go(func() { h.keepAlive(c) })
	return c, nil
}

func (h *Host) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.config.ConnectTimeout, fmt.Errorf("no connection within %s", h.config.ConnectTimeout))
	defer cancel()
	conn, err := h.config.Dial(ctx)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	return conn, nil
}

// handshake agrees on keys and logs in.
func (h *Host) handshake(ctx context.Context, conn net.Conn, keys *hostKeyCheck) (*ssh.Client, error) {
	known := false // the host proved its key: what fails from then on is the login
	refuse := func(err error, hint string) error {
		return &AuthError{Target: h.config.Target, User: h.config.User, Err: err, Hint: hint}
	}
	method, done, err := h.identity.method(ctx)
	if err != nil {
		return nil, refuse(err, "start the agent, or give a private key")
	}
	defer done()
	c, channels, requests, err := ssh.NewClientConn(conn, h.config.address(), &ssh.ClientConfig{
		User:              h.config.User,
		Auth:              []ssh.AuthMethod{method},
		HostKeyAlgorithms: keys.algorithms,
		HostKeyCallback: func(name string, remote net.Addr, key ssh.PublicKey) error {
			err := keys.check(name, remote, key)
			known = err == nil
			return err
		},
	})
	if err == nil {
		return ssh.NewClient(c, channels, requests), nil
	}
	var negotiation *ssh.AlgorithmNegotiationError
	switch {
	case keys.refused != nil:
		return nil, keys.refused
	case errors.As(err, &negotiation) && strings.Contains(negotiation.What, "host key") && keys.algorithms != nil:
		return nil, &HostKeyError{
			Target: h.config.Target, Err: fmt.Errorf("it has none of the known kinds: %w", err),
			Hint: "compare with the host's console; if the machine was replaced, forget its old key",
		}
	case known && refusedLogin(err):
		return nil, refuse(err, fmt.Sprintf("add the public key %sto ~%s/.ssh/authorized_keys on the host, or log in as another user", h.identity.fingerprint(), h.config.User))
	}
	return nil, err
}

// refusedLogin tells a refused login from a broken connection. The package has no
// type for it; a test holds its words.
func refusedLogin(err error) bool {
	text := err.Error()
	return strings.Contains(text, "unable to authenticate") || strings.Contains(text, "too many authentication") ||
		strings.Contains(text, "Too many authentication failures") || strings.Contains(text, "SSH agent: ")
}

// keepAlive asks for a sign of life at each interval, until the connection ends
// or has been silent for so many intervals in a row that it is closed. Any answer
// counts, also the refusal that most servers send.
func (h *Host) keepAlive(c *connection) {
	ticker := time.NewTicker(h.config.KeepaliveInterval)
	defer ticker.Stop()
	var answer chan error // of the question that is open
	misses := 0
	for {
		select {
		case <-c.gone:
			return
		case err := <-answer:
			answer, misses = nil, 0
			if err != nil {
				_ = c.client.Close()
				return
			}
		case <-ticker.C:
			if answer != nil {
				if misses++; misses >= h.config.KeepaliveMisses {
					h.log.Warn("host no longer answers: closing its connection", "silent_for", time.Duration(misses)*h.config.KeepaliveInterval)
					_ = c.client.Close()
					return
				}
				continue
			}
			reply := make(chan error, 1)
			answer = reply
			c.tasks.Go(func() {
				_, _, err := c.client.SendRequest("keepalive@openssh.com", true, nil)
				reply <- err
			})
		}
	}
}
