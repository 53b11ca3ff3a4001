package provisioner

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"
	"time"
)

// Transport abstracts how SSH connections are established to a target node:
// direct TCP, a Session Manager tunnel, or what a caller brings. A Transport
// may also have a method DialContext(context.Context) (net.Conn, error), which
// is used instead of Dial then. One that is given to a Provisioner is closed by
// the Provisioner; those in a NodeInfo stay the caller's.
type Transport interface {
	// Dial establishes a TCP connection to the target node's SSH port. It may be
	// called again after a connection was lost.
	Dial() (net.Conn, error)
	// Target returns a human-readable identifier for the target (hostname or instance ID).
	Target() string
	// Close releases any resources held by the transport.
	Close() error
}

// contextDialer is what a Transport has that can give up early.
type contextDialer interface {
	DialContext(ctx context.Context) (net.Conn, error)
}

// dialContext dials by DialContext, or by Dial and leaves it alone when ctx
// ends: a connection that comes later is closed.
func dialContext(ctx context.Context, t Transport) (net.Conn, error) {
	if d, ok := t.(contextDialer); ok {
		return d.DialContext(ctx)
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	type answer struct {
		conn net.Conn
		err  error
	}
	answers := make(chan answer) // unbuffered: an answer is taken or its connection closed
	go func() {                  // ends when Dial does, which nobody can hurry
		conn, err := t.Dial()
		select {
		case answers <- answer{conn, err}:
		case <-ctx.Done():
			if conn != nil {
				_ = conn.Close()
			}
		}
	}()
	select {
	case a := <-answers:
		return a.conn, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("dial %s: %w", t.Target(), context.Cause(ctx))
	}
}

const (
	sshPort       = "22"
	directTimeout = 10 * time.Second
)

// DirectTransport establishes SSH connections via direct TCP. This is the
// default transport for single-node environments and the SSH provider.
type DirectTransport struct {
	host, port string
}

// NewDirectTransport creates a DirectTransport that dials host:22, or the port
// that host ends in. An IPv6 address needs brackets only before a port.
func NewDirectTransport(host string) *DirectTransport {
	h, p := splitHostPort(host, sshPort)
	return &DirectTransport{host: h, port: p}
}

// splitHostPort is lenient about what has no port: that gets defaultPort.
func splitHostPort(s, defaultPort string) (host, port string) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"), ""
	}
	return host, cmp.Or(port, defaultPort)
}

// Dial connects directly to the host via TCP with a 10-second timeout.
func (d *DirectTransport) Dial() (net.Conn, error) {
	return d.DialContext(context.Background())
}

// DialContext is Dial that ends with ctx.
func (d *DirectTransport) DialContext(ctx context.Context) (net.Conn, error) {
	if d.host == "" {
		return nil, fmt.Errorf("dial: no host given")
	}
	dialer := net.Dialer{Timeout: directTimeout}
	return dialer.DialContext(ctx, "tcp", d.address())
}

// Target returns the host (without port) for display purposes.
func (d *DirectTransport) Target() string { return d.host }

// Close is a no-op for DirectTransport since there are no resources to release.
func (d *DirectTransport) Close() error { return nil }

func (d *DirectTransport) address() string { return net.JoinHostPort(d.host, d.port) }

// bastionTransport reaches an address through a bastion's SSH connection, which
// whoever made it closes.
type bastionTransport struct {
	direct *DirectTransport
	dial   func(ctx context.Context, address string) (net.Conn, error)
}

func (b *bastionTransport) Dial() (net.Conn, error) { return b.DialContext(context.Background()) }

func (b *bastionTransport) DialContext(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	return b.dial(ctx, b.direct.address())
}

func (b *bastionTransport) Target() string { return b.direct.Target() }
func (b *bastionTransport) Close() error   { return nil }
