package sessionmanager_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/provisioner/internal/sessionmanager"
	"github.com/kubeopera/platform/shared/provisioner/internal/sessionmanager/sessionmanagertest"
)

// inBubble runs a test with a fake clock and no network, against a service whose
// port is end.
func inBubble(t *testing.T, s *sessionmanagertest.Service, edit func(*sessionmanager.Config), f func(w *world, end net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		dial, end := sessionmanagertest.Pipe()
		if s.Dial == nil {
			s.Dial = dial
		}
		w := start(t, s, true, edit)
		w.t = t
		f(w, end)
		_ = end.Close()
		atAgent, _ := dial()
		_ = atAgent.Close()
	})
}

func TestServiceCloses(t *testing.T) {
	t.Parallel()
	inBubble(t, &sessionmanagertest.Service{}, nil, func(w *world, end net.Conn) {
		t := w.t
		c := w.connect(t)
		if _, err := end.Write([]byte("last words")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.session().Say("Session terminated by administrator.")
		synctest.Wait()
		// What has arrived is read first.
		got, err := io.ReadAll(c)
		if closed, ok := errors.AsType[*sessionmanager.ClosedError](err); string(got) != "last words" || !ok || closed.Reason != "Session terminated by administrator." {
			t.Errorf("read %q, %v", got, err)
		}
		if _, err := c.Write([]byte("x")); !isA[*sessionmanager.ClosedError](err) {
			t.Errorf("write: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		w.Lock()
		defer w.Unlock()
		if len(w.Terminated) != 0 {
			t.Error("a session that is over was terminated again")
		}
	})
}

func TestEndOfFile(t *testing.T) {
	t.Parallel()
	inBubble(t, &sessionmanagertest.Service{}, nil, func(w *world, end net.Conn) {
		t := w.t
		c := w.connect(t)
		go func() {
			_, _ = end.Write([]byte("bye"))
			_ = end.Close()
		}()
		if got, err := io.ReadAll(c); string(got) != "bye" || err != nil {
			t.Errorf("read %q, %v, want bye and the end", got, err)
		}
	})
}

func TestCloseIsClean(t *testing.T) {
	t.Parallel()
	inBubble(t, &sessionmanagertest.Service{}, nil, func(w *world, end net.Conn) {
		t := w.t
		c := w.connect(t)
		received := make(chan string, 1)
		go func() {
			b, _ := io.ReadAll(end)
			received <- string(b)
		}()
		unblocked := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			unblocked <- err
		}()
		text := strings.Repeat("written before Close ", 10_000)
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := <-unblocked; !errors.Is(err, net.ErrClosed) {
			t.Errorf("read ended with %v, want %v", err, net.ErrClosed)
		}
		if got := <-received; got != text {
			t.Errorf("%d of %d bytes were delivered", len(got), len(text))
		}
		for what, f := range map[string]func() error{
			"read":     func() error { _, err := c.Read(make([]byte, 1)); return err },
			"write":    func() error { _, err := c.Write(make([]byte, 1)); return err },
			"deadline": func() error { return c.SetDeadline(time.Now()) },
		} {
			if err := f(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s after Close: %v", what, err)
			}
		}
		if err := c.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
		w.Lock()
		defer w.Unlock()
		if diff := cmp.Diff([]byte{2}, w.Sessions[0].Flags); diff != "" {
			t.Errorf("flags (-want +got):\n%s", diff)
		}
	})
}

func TestCloseIsBounded(t *testing.T) {
	t.Parallel()
	inBubble(t, &sessionmanagertest.Service{}, nil, func(w *world, _ net.Conn) {
		t := w.t
		c := w.connect(t)
		w.Lock()
		w.Deaf = true
		w.TerminateErr = errors.New("boom")
		w.Unlock()
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := c.Close(); err == nil || !strings.Contains(err.Error(), "lives on") {
			t.Errorf("error = %v, want that the session lives on", err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("took %v", took)
		}
		w.Lock()
		defer w.Unlock()
		w.TerminateErr = nil
	})
}

// TestWindow: without acknowledgements, no more than the window is ever sent, and
// Write blocks.
func TestWindow(t *testing.T) {
	t.Parallel()
	inBubble(t, &sessionmanagertest.Service{}, nil, func(w *world, _ net.Conn) {
		t := w.t
		c := w.connect(t)
		synctest.Wait()
		w.Lock()
		w.Deaf = true
		w.Unlock()
		_ = c.SetWriteDeadline(time.Now().Add(10 * time.Second))
		n, err := c.Write(make([]byte, 2*1024*sessionmanager.Window))
		if want := 1024 * sessionmanager.Window; !errors.Is(err, os.ErrDeadlineExceeded) || n != want {
			t.Errorf("wrote %d, %v, want %d bytes and the deadline", n, err, want)
		}
		w.Lock()
		// The handshake response was message 0.
		if got := w.Sessions[0].Highest; got != sessionmanager.Window {
			t.Errorf("highest message is %d, want %d", got, sessionmanager.Window)
		}
		w.Deaf = false
		w.Unlock()
		_ = c.SetWriteDeadline(time.Time{})
		if _, err := c.Write(make([]byte, 1024)); err != nil {
			t.Errorf("write with acknowledgements: %v", err)
		}
	})
}

// TestBackPressure: a reader that does not read stops the peer, loses nothing, and
// does not keep acknowledgements of the other direction from being heard.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	inBubble(t, &sessionmanagertest.Service{}, nil, func(w *world, end net.Conn) {
		t := w.t
		c := w.connect(t)
		const size = 8 << 20
		var sent atomic.Int64
		done := make(chan error, 1)
		go func() {
			chunk := make([]byte, 4096)
			for sent.Load() < size {
				for i := range chunk {
					chunk[i] = byte(sent.Load() >> 12)
				}
				if _, err := end.Write(chunk); err != nil {
					done <- err
					return
				}
				sent.Add(int64(len(chunk)))
			}
			done <- nil
		}()
		timer := time.NewTimer(time.Minute)
		<-timer.C
		w.Lock()
		acked := w.Sessions[0].Acked
		w.Unlock()
		// A mebibyte is acknowledged, the agent's window is under way, and a chunk is
		// at the port.
		if got := sent.Load(); got > 1<<20+1000*1024+8192 || acked > 1024+2 {
			t.Errorf("%d bytes were sent and %d messages acknowledged to a reader that does not read", got, acked)
		}
		go func() { _, _ = io.CopyN(io.Discard, end, 1<<16) }()
		if _, err := c.Write(make([]byte, 1<<16)); err != nil {
			t.Error(err)
		}
		w.eventually(t, "the other direction has arrived", func() bool { return w.Sessions[0].Bytes == 1<<16 })
		got := make([]byte, size)
		if _, err := io.ReadFull(c, got); err != nil {
			t.Fatal(err)
		}
		for i, b := range got {
			if b != byte(i>>12) {
				t.Fatalf("byte %d is %d", i, b)
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestResume(t *testing.T) {
	t.Parallel()
	gone := func(w *world, ok func(w *world)) {
		w.Lock()
		defer w.Unlock()
		w.CutEvery = 1
		ok(w)
	}
	t.Run("the session is over", func(t *testing.T) {
		t.Parallel()
		inBubble(t, &sessionmanagertest.Service{}, nil, func(w *world, _ net.Conn) {
			t := w.t
			c := w.connect(t)
			gone(w, func(w *world) { w.Over = true })
			_, _ = c.Write([]byte("x"))
			if _, err := c.Read(make([]byte, 1)); !isA[*sessionmanager.ClosedError](err) {
				t.Errorf("error = %v", err)
			}
		})
	})
	t.Run("resuming is denied", func(t *testing.T) {
		t.Parallel()
		inBubble(t, &sessionmanagertest.Service{}, nil, func(w *world, _ net.Conn) {
			t := w.t
			c := w.connect(t)
			gone(w, func(w *world) { w.ResumeErr = &smithy.GenericAPIError{Code: "AccessDeniedException"} })
			_, _ = c.Write([]byte("x"))
			if _, err := c.Read(make([]byte, 1)); !isA[*sessionmanager.AccessDeniedError](err) || !strings.Contains(err.Error(), "ssm:ResumeSession") {
				t.Errorf("error = %v", err)
			}
		})
	})
	t.Run("the service is away for four minutes", func(t *testing.T) {
		t.Parallel()
		inBubble(t, &sessionmanagertest.Service{}, nil, func(w *world, end net.Conn) {
			t := w.t
			c := w.connect(t)
			gone(w, func(w *world) { w.ResumeErr = errors.New("no route") })
			_, _ = c.Write([]byte("x"))
			time.AfterFunc(4*time.Minute, func() {
				w.Lock()
				defer w.Unlock()
				w.CutEvery, w.ResumeErr = 0, nil
			})
			if _, err := io.ReadFull(end, make([]byte, 1)); err != nil {
				t.Errorf("error = %v", err)
			}
		})
	})
	t.Run("the service is away for good", func(t *testing.T) {
		t.Parallel()
		inBubble(t, &sessionmanagertest.Service{}, nil, func(w *world, _ net.Conn) {
			t := w.t
			c := w.connect(t)
			gone(w, func(w *world) { w.ResumeErr = errors.New("no route") })
			began := time.Now()
			_, _ = c.Write([]byte("x"))
			_, err := c.Read(make([]byte, 1))
			if !isA[*sessionmanager.LostError](err) || !strings.Contains(err.Error(), "no route") {
				t.Errorf("error = %v", err)
			}
			if took := time.Since(began); took < 5*time.Minute || took > 6*time.Minute {
				t.Errorf("gave up after %v", took)
			}
		})
	})
	t.Run("the service closes each websocket after an hour", func(t *testing.T) {
		t.Parallel()
		inBubble(t, &sessionmanagertest.Service{}, nil, func(w *world, end net.Conn) {
			t := w.t
			c := w.connect(t)
			for range 5 {
				timer := time.NewTimer(time.Hour)
				<-timer.C
				w.session().Cut()
				synctest.Wait()
			}
			go func() { _, _ = end.Write([]byte("still there")) }()
			got := make([]byte, 11)
			if _, err := io.ReadFull(c, got); err != nil || string(got) != "still there" {
				t.Errorf("read %q, %v", got, err)
			}
			w.Lock()
			defer w.Unlock()
			if len(w.Upgrades) != 6 {
				t.Errorf("%d websockets, want 6", len(w.Upgrades))
			}
		})
	})
}

// TestDeadPath: a network that swallows everything is noticed by the missing pong.
func TestDeadPath(t *testing.T) {
	t.Parallel()
	inBubble(t, &sessionmanagertest.Service{}, nil, func(w *world, end net.Conn) {
		t := w.t
		var dead atomic.Bool
		plain := w.dial
		w.dial = func(ctx context.Context) (net.Conn, error) {
			c, err := plain(ctx)
			if dead.Load() || err != nil {
				return c, err
			}
			return &swallowing{Conn: c, dead: &dead, closed: make(chan struct{})}, nil
		}
		c := w.connect(t)
		timer := time.NewTimer(time.Minute) // for a first pong
		<-timer.C
		dead.Store(true)
		began := time.Now()
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(end, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 2*time.Minute {
			t.Errorf("took %v to notice", took)
		}
	})
}

// swallowing is a connection that does nothing once it is dead.
type swallowing struct {
	net.Conn
	dead   *atomic.Bool
	once   sync.Once
	closed chan struct{}
}

func (s *swallowing) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if s.dead.Load() {
		<-s.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (s *swallowing) Write(b []byte) (int, error) {
	if s.dead.Load() {
		return len(b), nil
	}
	return s.Conn.Write(b)
}

func (s *swallowing) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Conn.Close()
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		edit func(*sessionmanager.Config)
		idle bool
		want time.Duration
	}{
		{name: "idle", edit: func(c *sessionmanager.Config) { c.IdleTimeout = 10 * time.Minute }, idle: true, want: 15 * time.Minute},
		{name: "in all", edit: func(c *sessionmanager.Config) { c.MaxDuration = 8 * time.Minute }, want: 8 * time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, &sessionmanagertest.Service{}, test.edit, func(w *world, end net.Conn) {
				t := w.t
				began := time.Now()
				c := w.connect(t)
				go func() { _, _ = io.Copy(io.Discard, end) }()
				time.AfterFunc(5*time.Minute, func() { _, _ = c.Write([]byte("x")) })
				_, err := c.Read(make([]byte, 1))
				if expired, ok := errors.AsType[*sessionmanager.ExpiredError](err); !ok || expired.Idle != test.idle {
					t.Errorf("error = %v", err)
				}
				if took := time.Since(began); took.Round(time.Second) != test.want {
					t.Errorf("expired after %v, want %v", took, test.want)
				}
				synctest.Wait()
				w.Lock()
				defer w.Unlock()
				if len(w.Terminated) != 1 {
					t.Error("the session was not terminated")
				}
			})
		})
	}
}

// TestPause: a paused client keeps one message on its way and goes on at
// start_publication, or as soon as an acknowledgement shows that somebody
// listens.
func TestPause(t *testing.T) {
	t.Parallel()
	for _, started := range []bool{true, false} {
		t.Run(fmt.Sprintf("started=%v", started), func(t *testing.T) {
			t.Parallel()
			inBubble(t, &sessionmanagertest.Service{}, nil, func(w *world, end net.Conn) {
				t := w.t
				c := w.connect(t)
				synctest.Wait()
				w.Lock()
				w.Deaf = true
				w.Unlock()
				w.session().Publication(true)
				synctest.Wait()
				if _, err := c.Write(make([]byte, 10*1024)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				w.Lock()
				if got := w.Sessions[0].Highest; got != 1 {
					t.Errorf("message %d was sent in a pause, want 1 at most", got)
				}
				w.Deaf = false
				w.Unlock()
				if started {
					w.session().Publication(false)
				}
				if _, err := io.ReadFull(end, make([]byte, 10*1024)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
