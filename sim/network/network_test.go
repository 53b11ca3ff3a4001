package network_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/kubeopera/platform/shared/skip"
	"github.com/kubeopera/platform/sim/network"
	"github.com/kubeopera/platform/sim/sandbox"
)

func TestMain(m *testing.M) {
	if err := sandbox.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, err) // the tests that need it are skipped
	}
	os.Exit(m.Run())
}

func newNetwork(t *testing.T) *network.Network {
	t.Helper()
	if !sandbox.Inside() {
		skip.Missing(t, skip.Namespaces, "the test binary could not enter a sandbox")
	}
	n, err := network.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

func TestAListenerGetsTheConnectionsToEveryAddress(t *testing.T) {
	n := newNetwork(t)
	listener, err := n.Listen(t.Context(), "tcp4", "0.0.0.0:6443")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(connection, connection.LocalAddr().String())
			_ = connection.Close()
		}
	}()
	for _, address := range []string{"127.0.0.1:6443", "10.0.1.5:6443", "203.0.113.9:6443"} {
		connection, err := n.Dial(t.Context(), "tcp4", address)
		if err != nil {
			t.Fatalf("dial %s: %v", address, err)
		}
		said, err := io.ReadAll(connection)
		_ = connection.Close()
		if err != nil || string(said) != address {
			t.Errorf("the connection to %s was meant for %q, %v", address, said, err)
		}
	}
}

func TestAPortWithoutAListenerRefuses(t *testing.T) {
	n := newNetwork(t)
	if _, err := n.Dial(t.Context(), "tcp4", "10.0.1.5:22"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial gives %v, want connection refused", err)
	}
}

func TestNetworksAreApartFromEachOtherAndFromTheMachine(t *testing.T) {
	one, other := newNetwork(t), newNetwork(t)
	listener, err := one.Listen(t.Context(), "tcp4", "169.254.169.254:80")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	if _, err := other.Dial(t.Context(), "tcp4", "169.254.169.254:80"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("from another network the dial gives %v, want connection refused", err)
	}
	if inside, err := net.Listen("tcp4", "169.254.169.254:80"); err == nil { //nolint:noctx // it must fail at once
		_ = inside.Close()
		t.Error("the machine has the network's address")
	}
}

func TestAnAddressIsSeenOnTheDevice(t *testing.T) {
	n := newNetwork(t)
	if err := n.AddAddress(net.IPv4(10, 0, 1, 5), 24); err != nil {
		t.Fatal(err)
	}
	var addresses []net.Addr
	err := n.Do(func() (err error) {
		addresses, err = net.InterfaceAddrs()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(fmt.Sprint(addresses), "10.0.1.5/24") {
		t.Errorf("addresses are %v, want 10.0.1.5/24 among them", addresses)
	}
}
