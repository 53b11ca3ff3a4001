package remote

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/crypto/ssh"
)

// DialBastion logs in to a host and returns what makes connections from there, as
// Config.Dial wants them, to host:port. The login is by the same rules as any
// other; a connection to the bastion that breaks is made again. end closes it, and
// all connections through it.
func DialBastion(ctx context.Context, config Config) (dial func(ctx context.Context, address string) (net.Conn, error), end func() error, err error) {
	h, err := Connect(ctx, config)
	if err != nil {
		return nil, nil, fmt.Errorf("bastion: %w", err)
	}
	dial = func(ctx context.Context, address string) (net.Conn, error) {
		c, err := h.live(ctx)
		if err != nil {
			return nil, fmt.Errorf("bastion: %w", err)
		}
		conn, err := c.client.DialContext(ctx, "tcp", address)
		var refused *ssh.OpenChannelError
		if errors.As(err, &refused) && refused.Reason == ssh.Prohibited {
			return nil, &forwardingError{bastion: config.Target, address: address, err: err}
		}
		if err != nil {
			return nil, fmt.Errorf("connect to %s through bastion %s: %w", address, config.Target, err)
		}
		return conn, nil
	}
	return dial, h.Close, nil
}

// forwardingError is a bastion that lets nobody through.
type forwardingError struct {
	bastion, address string
	err              error
}

func (e *forwardingError) Error() string {
	return fmt.Sprintf("bastion %s forbids connections to %s: %v; allow them (AllowTcpForwarding and PermitOpen in its sshd_config)", e.bastion, e.address, e.err)
}
func (e *forwardingError) Unwrap() error { return e.err }

// Permanent says that trying again is of no use.
func (e *forwardingError) Permanent() bool { return true }
