package podnetwork_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/shared/skip"
	"github.com/kubeopera/platform/sim/podnetwork"
	"github.com/kubeopera/platform/sim/sandbox"
)

func TestMain(m *testing.M) {
	if err := sandbox.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, err) // the tests that need it are skipped
	}
	goleak.VerifyTestMain(m)
}

func start(t *testing.T) *podnetwork.Network {
	t.Helper()
	if !sandbox.Inside() {
		skip.Missing(t, skip.Namespaces, "the test binary could not enter a sandbox")
	}
	n, err := podnetwork.Start(t.Context(), t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// join makes a pod's network; apiServer may be nobody's address.
func join(t *testing.T, n *podnetwork.Network, apiServer string) *podnetwork.Pod {
	t.Helper()
	pod, err := n.Join(t.Context(), apiServer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pod.Leave(); err != nil {
			t.Error(err)
		}
	})
	return pod
}

// echo sends back what comes, until the test ends.
func echo(t *testing.T, listener net.Listener) {
	t.Helper()
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(connection, connection)
				_ = connection.Close()
			}()
		}
	}()
}

// listen listens in a pod.
func listen(t *testing.T, pod *podnetwork.Pod, address string) {
	t.Helper()
	var listener net.Listener
	err := pod.Do(func() (err error) {
		listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp4", address)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	echo(t, listener)
}

// connect asks for a connection as kube-apiserver does.
func connect(t *testing.T, n *podnetwork.Network, target string) (net.Conn, int) {
	t.Helper()
	content, err := os.ReadFile(n.Egress())
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		EgressSelections []struct {
			Connection struct {
				Transport struct {
					TCP struct {
						URL       string
						TLSConfig struct{ CABundle, ClientCert, ClientKey string }
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal(content, &config); err != nil {
		t.Fatal(err)
	}
	tcp := config.EgressSelections[0].Connection.Transport.TCP
	authority, err := os.ReadFile(tcp.TLSConfig.CABundle)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	certificate, err := tls.LoadX509KeyPair(tcp.TLSConfig.ClientCert, tcp.TLSConfig.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := url.Parse(tcp.URL)
	if err != nil {
		t.Fatal(err)
	}
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}}
	connection, err := dialer.DialContext(t.Context(), "tcp", proxy.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	fmt.Fprintf(connection, "CONNECT %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", target)
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return connection, response.StatusCode
}

// talks tells whether what is sent comes back.
func talks(connection net.Conn) error {
	if _, err := io.WriteString(connection, "hello\n"); err != nil {
		return err
	}
	line, err := bufio.NewReader(connection).ReadString('\n')
	if err == nil && line != "hello\n" {
		err = errors.New("got " + line)
	}
	return err
}

func TestPodsHaveAddressesAndPortsOfTheirOwn(t *testing.T) {
	n := start(t)
	one, other := join(t, n, "127.0.0.1:1"), join(t, n, "127.0.0.1:1")
	if one.IP() == other.IP() || one.IP().IsLoopback() {
		t.Errorf("addresses are %s and %s", one.IP(), other.IP())
	}
	listen(t, one, "0.0.0.0:8080")
	listen(t, other, "127.0.0.1:8080") // both can have the port
	for _, pod := range []*podnetwork.Pod{one, other} {
		connection, status := connect(t, n, pod.IP().String()+":8080")
		if status != http.StatusOK {
			t.Fatalf("status is %d", status)
		}
		if err := talks(connection); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatTheAPIServerCannotReach(t *testing.T) {
	n := start(t)
	pod := join(t, n, "127.0.0.1:1")
	for name, target := range map[string]string{
		"a port on which nobody listens": pod.IP().String() + ":81",
		"an address of no pod":           "10.244.99.99:80",
	} {
		if _, status := connect(t, n, target); status != http.StatusBadGateway {
			t.Errorf("%s: status is %d, want 502", name, status)
		}
	}
}

func TestKubeletsAreReached(t *testing.T) {
	n := start(t)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	echo(t, listener)
	n.Block(time.Millisecond) // what a firewall between control plane and pods leaves
	connection, status := connect(t, n, listener.Addr().String())
	if status != http.StatusOK {
		t.Fatalf("status is %d", status)
	}
	if err := talks(connection); err != nil {
		t.Error(err)
	}
}

func TestABlockedNetworkTimesOutAndCuts(t *testing.T) {
	n := start(t)
	pod := join(t, n, "127.0.0.1:1")
	listen(t, pod, "0.0.0.0:8080")
	target := pod.IP().String() + ":8080"
	before, _ := connect(t, n, target)
	if err := talks(before); err != nil {
		t.Fatal(err)
	}
	n.Block(20 * time.Millisecond)
	if _, status := connect(t, n, target); status != http.StatusGatewayTimeout {
		t.Errorf("status is %d, want 504", status)
	}
	if err := talks(before); err == nil {
		t.Error("an open connection still works")
	}
	if connection, err := pod.Dial(t.Context(), 8080); err != nil {
		t.Errorf("the kubelet does not reach the pod: %v", err)
	} else {
		_ = connection.Close()
	}
	n.Unblock()
	after, _ := connect(t, n, target)
	if err := talks(after); err != nil {
		t.Errorf("once unblocked: %v", err)
	}
}

func TestAPodReachesTheAPIServerAndNothingElse(t *testing.T) {
	n := start(t)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	echo(t, listener)
	pod := join(t, n, listener.Addr().String())
	dial := func(address string) (connection net.Conn, err error) {
		err = pod.Do(func() (err error) {
			connection, err = new(net.Dialer).DialContext(t.Context(), "tcp4", address)
			return err
		})
		return connection, err
	}
	connection, err := dial(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := talks(connection); err != nil {
		t.Error(err)
	}
	_ = connection.Close()
	for _, address := range []string{"127.0.0.1:9", "198.51.100.1:443"} {
		if connection, err := dial(address); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v, want connection refused", address, err)
			if err == nil {
				_ = connection.Close()
			}
		}
	}
}
