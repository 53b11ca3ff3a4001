package sessionmanager_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/kubeopera/platform/shared/provisioner/internal/sessionmanager"
	"github.com/kubeopera/platform/shared/provisioner/internal/sessionmanager/sessionmanagertest"
)

const (
	target = "i-0123456789abcdef0"
	region = "eu-west-1"
)

// world is a service and a client of it.
type world struct {
	*sessionmanagertest.Service
	t      *testing.T // of the bubble that it is in
	config sessionmanager.Config
	client *sessionmanager.Client
	dial   func(ctx context.Context) (net.Conn, error) // to the service
}

// start serves s and makes a client of it, over TCP or, inside synctest, in
// memory. Both end with the test.
func start(tb testing.TB, s *sessionmanagertest.Service, inMemory bool, edit func(*sessionmanager.Config)) *world {
	tb.Helper()
	w := &world{Service: s}
	var l net.Listener
	if inMemory {
		m := &memory{conns: make(chan net.Conn), closed: make(chan struct{})}
		l, w.dial = m, m.dial
	} else {
		var err error
		if l, err = (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0"); err != nil {
			tb.Fatal(err)
		}
		w.dial = func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
		}
	}
	stop := sessionmanagertest.Serve(l, s)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return w.dial(ctx) }}
	w.config = sessionmanager.Config{
		API: s, Region: region, HTTPClient: &http.Client{Transport: transport}, AllowClear: true,
		Credentials: aws.NewCredentialsCache(credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", "token")),
		Log:         slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if edit != nil {
		edit(&w.config)
	}
	var err error
	if w.client, err = sessionmanager.New(w.config); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		stop()
		if err := w.client.Close(); err != nil {
			tb.Error(err)
		}
		transport.CloseIdleConnections()
	})
	return w
}

// connect dials.
func (w *world) connect(tb testing.TB) net.Conn {
	tb.Helper()
	c, err := w.client.Dial(tb.Context(), target, 22)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// session is the latest one, from the agent's side.
func (w *world) session() *sessionmanagertest.Session {
	w.Lock()
	defer w.Unlock()
	return w.Sessions[len(w.Sessions)-1]
}

// eventually polls until ok, under the service's lock.
func (w *world) eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		w.Lock()
		done := ok()
		w.Unlock()
		if done {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("waited in vain until %s", what)
		}
	}
}

// tcpPipe is a TCP connection's two ends.
func tcpPipe(tb testing.TB) (a, b net.Conn) {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	if a, err = (&net.Dialer{}).DialContext(tb.Context(), "tcp", l.Addr().String()); err != nil {
		tb.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		tb.Fatal(err)
	}
	return a, b
}

// memory is a listener without a network.
type memory struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (m *memory) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case m.conns <- theirs:
		return ours, nil
	case <-m.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error {
	close(m.closed)
	return nil
}

func (m *memory) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
