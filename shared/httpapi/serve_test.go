package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"
)

// startServer serves an API whose operations the test registers, until stop is called.
func startServer(tb testing.TB, s server, register func(huma.API)) (url string, stop func() error) {
	tb.Helper()
	log := slog.New(slog.NewTextHandler(tb.Output(), nil))
	a, err := New(Config{Title: "t", Version: "v1", Keys: openKeyFile(tb, line("tests", "key")).keys, Log: log, Registry: prometheus.NewRegistry()})
	if err != nil {
		tb.Fatal(err)
	}
	register(a.Huma())
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan error, 1)
	go func() { done <- s.serve(ctx, listener, a, log) }()
	var result error
	stopped := false
	stop = func() error {
		if !stopped {
			stopped = true
			cancel()
			result = <-done
		}
		return result
	}
	tb.Cleanup(func() { _ = stop() })
	return "http://" + listener.Addr().String() + BasePath, stop
}

func newRequest(ctx context.Context, tb testing.TB, url string) *http.Request {
	tb.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		tb.Fatal(err)
	}
	r.Header.Set(keyHeader, "key")
	return r
}

func get(tb testing.TB, client *http.Client, url string) *http.Response {
	tb.Helper()
	res, err := client.Do(newRequest(tb.Context(), tb, url))
	if err != nil {
		tb.Fatal(err)
	}
	return res
}

func newClient(tb testing.TB) *http.Client {
	tb.Helper()
	transport := &http.Transport{}
	tb.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// closing is a reader that tells when it was closed.
type closing struct {
	io.Reader
	closed chan struct{}
	close  func()
}

func (c closing) Close() error {
	c.close()
	close(c.closed)
	return nil
}

func streamOf(pr *io.PipeReader) closing {
	return closing{Reader: pr, closed: make(chan struct{}), close: func() { _ = pr.Close() }}
}

func registerStream(h huma.API, src func() io.ReadCloser) {
	huma.Register(h, huma.Operation{OperationID: "logs", Method: http.MethodGet, Path: "/logs"},
		func(context.Context, *struct{}) (*huma.StreamResponse, error) {
			return Stream(src(), "text/plain; charset=utf-8"), nil
		})
}

func TestStreamPassesOnWhatComes(t *testing.T) {
	t.Parallel()
	pr, pw := io.Pipe()
	src := streamOf(pr)
	url, _ := startServer(t, server{drain: time.Second, grace: time.Minute}, func(h huma.API) { registerStream(h, func() io.ReadCloser { return src }) })
	res := get(t, newClient(t), url+"/logs") // the headers come before the first line
	defer func() { _ = res.Body.Close() }()
	if got := res.Header.Get("Content-Type"); got != "text/plain; charset=utf-8" {
		t.Errorf("content type %q", got)
	}
	lines := bufio.NewReader(res.Body)
	for _, want := range []string{"one\n", "two\n"} {
		if _, err := io.WriteString(pw, want); err != nil {
			t.Fatal(err)
		}
		if got, err := lines.ReadString('\n'); got != want || err != nil {
			t.Fatalf("got %q, %v; want %q", got, err, want)
		}
	}
	_ = pw.Close()
	if _, err := lines.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("end of the stream: %v", err)
	}
	<-src.closed
}

func TestStreamEndsWithItsClient(t *testing.T) {
	t.Parallel()
	pr, _ := io.Pipe()
	src := streamOf(pr)
	url, _ := startServer(t, server{drain: time.Second, grace: time.Minute}, func(h huma.API) { registerStream(h, func() io.ReadCloser { return src }) })
	_ = get(t, newClient(t), url+"/logs").Body.Close()
	<-src.closed
}

func TestBrokenStreamIsNotTakenForTheWhole(t *testing.T) {
	t.Parallel()
	url, _ := startServer(t, server{drain: time.Second, grace: time.Minute}, func(h huma.API) {
		registerStream(h, func() io.ReadCloser {
			pr, pw := io.Pipe()
			go func() {
				_, _ = io.WriteString(pw, "one\n")
				pw.CloseWithError(errors.New("connection to the node lost"))
			}()
			return pr
		})
	})
	res := get(t, newClient(t), url+"/logs")
	defer func() { _ = res.Body.Close() }()
	if got, err := io.ReadAll(res.Body); err == nil || string(got) != "one\n" {
		t.Errorf("got %q, %v; want an error after the first line", got, err)
	}
}

func TestServeDrains(t *testing.T) {
	t.Parallel()
	started, finish := make(chan struct{}, 2), make(chan struct{})
	url, stop := startServer(t, server{drain: 10 * time.Millisecond, grace: time.Minute}, func(h huma.API) {
		huma.Register(h, huma.Operation{OperationID: "poll", Method: http.MethodGet, Path: "/poll"},
			func(ctx context.Context, _ *struct{}) (*struct{}, error) {
				started <- struct{}{}
				<-ctx.Done()
				return nil, ctx.Err()
			})
		huma.Register(h, huma.Operation{OperationID: "work", Method: http.MethodGet, Path: "/work"},
			func(context.Context, *struct{}) (*struct{ Body string }, error) {
				started <- struct{}{}
				<-finish
				return &struct{ Body string }{"done"}, nil
			})
	})
	client := newClient(t)
	type result struct {
		status     int
		body       string
		retryAfter string
	}
	fetch := func(path string) <-chan result {
		out := make(chan result, 1)
		r := newRequest(t.Context(), t, url+path)
		go func() {
			defer close(out)
			res, err := client.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = res.Body.Close() }()
			body, _ := io.ReadAll(res.Body)
			out <- result{res.StatusCode, string(body), res.Header.Get("Retry-After")}
		}()
		<-started
		return out
	}
	poll, work := fetch("/poll"), fetch("/work")
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	if r := <-poll; r.status != http.StatusServiceUnavailable || !strings.Contains(r.body, CodeShuttingDown) || r.retryAfter == "" {
		t.Errorf("long poll: %+v", r)
	}
	select {
	case err := <-stopped:
		t.Fatalf("stopped while a request runs: %v", err)
	default:
	}
	close(finish)
	if r := <-work; r.status != http.StatusOK || !strings.Contains(r.body, "done") {
		t.Errorf("running request: %+v", r)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestServeGivesUpOnRequestsThatDoNotEnd(t *testing.T) {
	t.Parallel()
	started, finish := make(chan struct{}), make(chan struct{})
	url, stop := startServer(t, server{drain: time.Millisecond, grace: 20 * time.Millisecond}, func(h huma.API) {
		huma.Register(h, huma.Operation{OperationID: "stuck", Method: http.MethodGet, Path: "/stuck"},
			func(context.Context, *struct{}) (*struct{}, error) {
				close(started)
				<-finish
				return nil, nil
			})
	})
	requested := make(chan struct{})
	client, r := newClient(t), newRequest(t.Context(), t, url+"/stuck")
	go func() {
		defer close(requested)
		if res, err := client.Do(r); err == nil {
			_ = res.Body.Close()
			t.Error("the request that was cut got an answer")
		}
	}()
	<-started
	if err := stop(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want a deadline error", err)
	}
	<-requested
	close(finish)
}

// TestBodyThatDoesNotCome: nobody may hold a connection by announcing a body, with
// a key or without.
func TestBodyThatDoesNotCome(t *testing.T) {
	t.Parallel()
	url, _ := startServer(t, server{drain: time.Second, grace: time.Minute, body: 10 * time.Millisecond}, func(h huma.API) {
		huma.Register(h, huma.Operation{OperationID: "retry", Method: http.MethodPost, Path: "/retry"},
			func(context.Context, *struct{}) (*struct{}, error) {
				t.Error("the request was carried out")
				return nil, nil
			})
	})
	host := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), BasePath)
	for name, c := range map[string]struct{ key, path, status string }{
		"with a key":             {"key", BasePath + "/retry", "400"},
		"with no key":            {"", BasePath + "/retry", "401"},
		"where there is nothing": {"", "/nothing", "404"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", host)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(time.Minute)) // instead of for ever
			if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\n%s: %s\r\nContent-Length: 10\r\n\r\n", c.path, host, keyHeader, c.key); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(conn)
			if err != nil {
				t.Fatalf("the connection stays open: %v", err)
			}
			if !strings.HasPrefix(string(answer), "HTTP/1.1 "+c.status+" ") {
				t.Errorf("the answer is %.80q, want status %s", answer, c.status)
			}
		})
	}
}

// TestAnswerThatIsNotRead: a client that does not read holds its handler for a
// while only.
func TestAnswerThatIsNotRead(t *testing.T) {
	t.Parallel()
	written := make(chan struct{})
	url, _ := startServer(t, server{drain: time.Second, grace: time.Minute, write: 10 * time.Millisecond}, func(h huma.API) {
		h.UseMiddleware(func(ctx huma.Context, next func(huma.Context)) {
			defer close(written)
			next(ctx)
		})
		huma.Register(h, huma.Operation{OperationID: "all", Method: http.MethodGet, Path: "/all"},
			func(context.Context, *struct{}) (*struct{ Body string }, error) {
				return &struct{ Body string }{strings.Repeat("x", 64<<20)}, nil
			})
	})
	host := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), BasePath)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "GET %s/all HTTP/1.1\r\nHost: %s\r\n%s: key\r\n\r\n", BasePath, host, keyHeader); err != nil {
		t.Fatal(err)
	}
	select {
	case <-written:
	case <-time.After(time.Minute): // instead of never
		t.Error("the handler still writes")
	}
}

func TestServeReportsABrokenListener(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	if err := Serve(t.Context(), listener, http.NotFoundHandler(), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("no error")
	}
}

// TestClientThatGoesAwayIsNoServerError: such requests must not raise alarms.
func TestClientThatGoesAwayIsNoServerError(t *testing.T) {
	t.Parallel()
	started, status := make(chan struct{}), make(chan int, 1)
	url, _ := startServer(t, server{drain: time.Second, grace: time.Minute}, func(h huma.API) {
		h.UseMiddleware(func(ctx huma.Context, next func(huma.Context)) {
			next(ctx)
			status <- ctx.Status()
		})
		huma.Register(h, huma.Operation{OperationID: "poll", Method: http.MethodGet, Path: "/poll"},
			func(ctx context.Context, _ *struct{}) (*struct{}, error) {
				close(started)
				<-ctx.Done()
				return nil, fmt.Errorf("query: %w", ctx.Err())
			})
	})
	ctx, cancel := context.WithCancel(t.Context())
	client, r := newClient(t), newRequest(ctx, t, url+"/poll")
	go func() {
		<-started
		cancel()
	}()
	if res, err := client.Do(r); err == nil {
		_ = res.Body.Close()
		t.Error("the request that was given up got an answer")
	}
	if got := <-status; got != statusClientGone {
		t.Errorf("status %d, want %d", got, statusClientGone)
	}
}
