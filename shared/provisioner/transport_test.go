package provisioner_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/kubeopera/platform/shared/provisioner"
)

func TestDirectTransportReachesHostAndPort(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"127.0.0.1:0", "[::1]:0"} {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", network)
		if err != nil {
			t.Logf("no %s here: %v", network, err)
			continue
		}
		defer listener.Close()
		transport := provisioner.NewDirectTransport(listener.Addr().String())
		conn, err := transport.Dial()
		if err != nil {
			t.Fatalf("Dial to %s: %v", network, err)
		}
		_ = conn.Close()
		host, _, _ := net.SplitHostPort(listener.Addr().String())
		if got := transport.Target(); got != host {
			t.Errorf("Target() = %q, want %q", got, host)
		}
		if err := transport.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

func TestDirectTransportTarget(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ host, want string }{
		{"192.0.2.1", "192.0.2.1"},
		{"192.0.2.1:2222", "192.0.2.1"},
		{"machine.example.com", "machine.example.com"},
		{"machine.example.com:", "machine.example.com"},
		{"2001:db8::1", "2001:db8::1"},
		{"[2001:db8::1]", "2001:db8::1"},
		{"[2001:db8::1]:2222", "2001:db8::1"},
	} {
		if got := provisioner.NewDirectTransport(test.host).Target(); got != test.want {
			t.Errorf("NewDirectTransport(%q).Target() = %q, want %q", test.host, got, test.want)
		}
	}
}

func TestDirectTransportEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := provisioner.NewDirectTransport("192.0.2.1").DialContext(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("DialContext = %v, want canceled", err)
	}
	if _, err := provisioner.NewDirectTransport("").Dial(); err == nil {
		t.Error("Dial without a host: no error")
	}
}
