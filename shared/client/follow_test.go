package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
)

// logService has a log that grows by a line each second, and breaks streams.
type logService struct {
	begin   time.Time
	lines   int           // of the whole log
	keep    int           // bytes of its end that are kept once the run has ended; 0 for all
	breaks  []int         // bytes after which one stream each breaks off
	away    time.Duration // after a break
	drop    int           // bytes of its begin that are dropped during the first break
	clean   bool          // breaks look like the end of the log
	back    time.Time     // no answer before
	streams int
}

func line(i int) string {
	return fmt.Sprintf("line %d: %x\n", i, rand.New(rand.NewPCG(1, uint64(i))).Uint64())
}

func (s *logService) text(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(line(i))
	}
	return b.String()
}

func (s *logService) written() int { return min(int(time.Since(s.begin)/time.Second), s.lines) }

// kept is what the service keeps of a log: whole lines.
func (s *logService) kept(text string) string {
	if s.keep == 0 || len(text) <= s.keep {
		return text
	}
	text = text[len(text)-s.keep:]
	return text[strings.Index(text, "\n")+1:]
}

// RoundTrip streams, which a recorder cannot.
func (s *logService) RoundTrip(r *http.Request) (*http.Response, error) {
	if time.Now().Before(s.back) {
		return nil, errRefused
	}
	answer := func(contentType string, body io.ReadCloser) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {contentType}}, Body: body, Request: r}, nil
	}
	ended := s.written() == s.lines
	if !strings.HasSuffix(r.URL.Path, "/logs") {
		status := api.StatusRunning
		if ended {
			status = api.StatusSucceeded
		}
		return answer("application/json", io.NopCloser(strings.NewReader(`{"id":"run-1","status":"`+string(status)+`"}`)))
	}
	text := s.text(s.written())
	if ended {
		text = s.kept(text)
	}
	if !s.back.IsZero() {
		text = text[s.drop:]
	}
	if tail, err := strconv.Atoi(r.URL.Query().Get("tail")); err == nil {
		all := strings.SplitAfter(text, "\n")
		text = strings.Join(all[max(0, len(all)-1-tail):], "")
	}
	if r.URL.Query().Get("follow") == "" {
		return answer("text/plain", io.NopCloser(strings.NewReader(text)))
	}
	s.streams++
	body := &logStream{service: s, ctx: r.Context(), pending: []byte(text), next: s.written()}
	if len(s.breaks) > 0 {
		body.breaks, s.breaks = s.breaks[0], s.breaks[1:]
	} else {
		body.breaks = -1
	}
	return answer("text/plain", body)
}

type logStream struct {
	service *logService
	ctx     context.Context //nolint:containedctx // a body's reads end with its request
	pending []byte
	next    int
	breaks  int // bytes until the connection is cut; negative for never
}

func (s *logStream) Read(p []byte) (int, error) {
	if s.breaks == 0 {
		s.service.back = time.Now().Add(s.service.away)
		if s.service.clean {
			return 0, io.EOF
		}
		return 0, io.ErrUnexpectedEOF
	}
	for len(s.pending) == 0 {
		if s.next == s.service.lines {
			return 0, io.EOF
		}
		select {
		case <-s.ctx.Done():
			return 0, s.ctx.Err()
		case <-time.After(time.Second / 4):
		}
		for ; s.next < s.service.written(); s.next++ {
			s.pending = append(s.pending, line(s.next)...)
		}
	}
	n := len(s.pending)
	if s.breaks > 0 {
		n = min(n, s.breaks)
	}
	n = copy(p, s.pending[:n])
	s.pending = s.pending[n:]
	if s.breaks > 0 {
		s.breaks -= n
	}
	return n, nil
}

func (s *logStream) Close() error { return nil }

func follow(tb testing.TB, s *logService, tail int, w io.Writer) error {
	tb.Helper()
	s.begin = time.Now()
	c, err := client.NewProvisioner(client.Config{BaseURL: "http://provisioner", APIKey: apiKey, HTTPClient: &http.Client{Transport: s}})
	if err != nil {
		tb.Fatal(err)
	}
	time.Sleep(10 * time.Second) //nolint:forbidigo // in a bubble: ten lines are there at first
	return c.FollowLogs(tb.Context(), "run-1", tail, w)
}

func TestFollowLogsGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		service logService
		tail    int
		first   int // line
		gap     bool
	}{
		{"one connection", logService{lines: 30}, 0, 0, false},
		{"the last lines", logService{lines: 30}, 3, 7, false},
		{"an ended run", logService{lines: 5}, 0, 0, false},
		{"breaks at every few bytes", logService{lines: 60, breaks: []int{1, 400, 500, 0, 601, 900, 1200, 1201}}, 0, 0, false},
		{"breaks that look like the end", logService{lines: 60, breaks: []int{1, 400, 500, 0, 601, 900, 1200, 1201}, clean: true}, 0, 0, false},
		{"breaks of the last lines", logService{lines: 60, breaks: []int{30, 700, 1200}}, 3, 7, false},
		{"the service is away", logService{lines: 60, breaks: []int{300, 800}, away: 20 * time.Second}, 0, 0, false},
		{"the run ends while the service is away", logService{lines: 60, breaks: []int{300, 800}, away: time.Minute}, 0, 0, false},
		{"a long log", logService{lines: 3000, breaks: []int{5000, 60000, 70000}, away: 20 * time.Second}, 0, 0, false},
		{"the place is still in what was kept", logService{lines: 3000, keep: 5000, breaks: []int{77600}, away: 20 * time.Second}, 0, 0, false},
		{"the begin is dropped while the service is away", logService{lines: 300, drop: 200, breaks: []int{5000}, away: 30 * time.Second}, 0, 0, false},
		{"the place is no longer in what was kept", logService{lines: 1000, keep: 1000, breaks: []int{25000}, away: 80 * time.Second}, 0, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := tt.service
				var got bytes.Buffer
				err := follow(t, &s, tt.tail, &got)
				if err != nil {
					t.Fatal(err)
				}
				want := strings.TrimPrefix(s.text(s.lines), s.text(tt.first))
				if tt.gap {
					want = want[:tt.service.breaks[0]] + s.kept(s.text(s.lines))
				}
				if got.String() != want {
					t.Errorf("got %d bytes, want %d; %d streams\n%.2000s", got.Len(), len(want), s.streams, got.String())
				}
			})
		})
	}
}

func TestFollowLogsFails(t *testing.T) {
	t.Parallel()
	errFull := errors.New("disk full")
	synctest.Test(t, func(t *testing.T) {
		if err := follow(t, &logService{lines: 30}, 0, failingWriter{errFull}); !errors.Is(err, errFull) {
			t.Errorf("a writer that fails: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c, f := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
			reply(w, 404, &api.Problem{Status: 404, Code: "provision_not_found", Detail: "x"})
		})
		if err := c.FollowLogs(t.Context(), "x", 0, io.Discard); !client.IsNotFound(err) || len(f.requests) != 1 {
			t.Errorf("unknown run: %v after %d requests", err, len(f.requests))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := &logService{lines: 1 << 20, begin: time.Now()}
		c, err := client.NewProvisioner(client.Config{BaseURL: "http://provisioner", APIKey: apiKey, HTTPClient: &http.Client{Transport: s}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.FollowLogs(ctx, "x", 0, io.Discard); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a context that ends: %v", err)
		}
	})
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }
