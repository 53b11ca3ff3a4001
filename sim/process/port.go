package process

import (
	"context"
	"fmt"
	"net"
)

// FreePort asks the kernel for a port of 127.0.0.1 that nobody listens on. Another
// process could take it before the one that it is for does; that one then ends.
func FreePort(ctx context.Context) (int, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("find a free port: %s is no TCP address", listener.Addr())
	}
	return address.Port, nil
}
