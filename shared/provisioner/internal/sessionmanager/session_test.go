package sessionmanager_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
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

func TestHandshakeRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, handshake, want, response string
	}{
		{
			name: "KMS encryption", handshake: sessionmanagertest.PortSession("", `{"ActionType":"KMSEncryption","ActionParameters":{"KMSKeyId":"arn:key"}}`),
			want:     "document SSM-SessionManagerRunShell, kmsKeyId",
			response: `"ActionType":"KMSEncryption","ActionStatus":3,`,
		},
		{
			name: "shell", handshake: `{"RequestedClientActions":[{"ActionType":"SessionType","ActionParameters":{"SessionType":"Standard_Stream"}}]}`,
			want: "not Port", response: `"ActionStatus":2`,
		},
		{
			name: "unknown action", handshake: sessionmanagertest.PortSession("", `{"ActionType":"Dance"}`),
			want: `"Dance", which is not known`, response: `"ActionType":"Dance","ActionStatus":3`,
		},
		{name: "not JSON", handshake: "{", want: "handshake request"},
		{name: "none", handshake: "none", want: "no session within 1m0s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, &sessionmanagertest.Service{Handshake: test.handshake}, nil, func(w *world, _ net.Conn) {
				t := w.t
				_, err := w.client.Dial(t.Context(), target, 22)
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error = %v, want it to have %q", err, test.want)
				}
				if _, ok := errors.AsType[*sessionmanager.EncryptionRequiredError](err); ok != (test.name == "KMS encryption") {
					t.Errorf("error is %T", err)
				}
				synctest.Wait()
				w.Lock()
				defer w.Unlock()
				if got := strings.Join(w.Sessions[0].Responses, ""); test.response != "" && !strings.Contains(got, test.response) {
					t.Errorf("response = %s, want it to have %s", got, test.response)
				}
				if len(w.Terminated) != 1 && !w.Sessions[0].Closed {
					t.Error("the session lives on")
				}
			})
		})
	}
}

func TestHandshakeAsksForTheRawStream(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{"": `"ClientVersion":"1.3.0.0"`, "LocalPortForwarding": `"ClientVersion":"1.1.0.0"`} {
		inBubble(t, &sessionmanagertest.Service{Handshake: sessionmanagertest.PortSession(kind)}, nil, func(w *world, _ net.Conn) {
			t := w.t
			w.connect(t)
			w.Lock()
			defer w.Unlock()
			if got := w.Sessions[0].Responses[0]; !strings.Contains(got, want) {
				t.Errorf("response to %q = %s, want %s", kind, got, want)
			}
		})
	}
}

func TestUpgradeIsSigned(t *testing.T) {
	t.Parallel()
	inBubble(t, &sessionmanagertest.Service{}, nil, func(w *world, _ net.Conn) {
		t := w.t
		w.connect(t)
		w.Lock()
		got := w.Upgrades[0]
		w.Unlock()
		at, err := time.Parse("20060102T150405Z", got.Header.Get("X-Amz-Date"))
		if err != nil {
			t.Fatal(err)
		}
		again, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+got.Host+got.RequestURI, nil)
		if err != nil {
			t.Fatal(err)
		}
		credentials, _ := w.config.Credentials.Retrieve(t.Context())
		const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
		if err := v4.NewSigner().SignHTTP(t.Context(), credentials, again, empty, "ssmmessages", region, at); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"Authorization", "X-Amz-Security-Token"} {
			if got, want := got.Header.Get(name), again.Header.Get(name); got != want || got == "" {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
	})
	inBubble(t, &sessionmanagertest.Service{Presign: true}, nil, func(w *world, _ net.Conn) {
		t := w.t
		w.connect(t)
		w.Lock()
		defer w.Unlock()
		if got := w.Upgrades[0].Header.Get("Authorization"); got != "" {
			t.Errorf("presigned URL was signed again: %s", got)
		}
	})
}

func TestDialErrors(t *testing.T) {
	t.Parallel()
	notConnected := &types.TargetNotConnected{Message: aws.String("i-0 is not connected.")}
	for _, test := range []struct {
		name    string
		service *sessionmanagertest.Service
		edit    func(*sessionmanager.Config)
		want    string
		is      func(error) bool
	}{
		{
			name: "not registered", service: &sessionmanagertest.Service{StartErr: notConnected},
			want: "not registered with Systems Manager", is: isA[*sessionmanager.TargetNotConnectedError],
		},
		{
			name: "agent offline",
			service: &sessionmanagertest.Service{StartErr: notConnected, Instances: []types.InstanceInformation{{
				InstanceId: aws.String(target), PingStatus: types.PingStatusConnectionLost, LastPingDateTime: aws.Time(time.Unix(0, 0)),
			}}},
			want: "offline (ConnectionLost), it was last heard of at 1970-01-01T00:00:00Z", is: isA[*sessionmanager.TargetNotConnectedError],
		},
		{
			name: "not allowed to ask why", service: &sessionmanagertest.Service{StartErr: notConnected, DescribeErr: errors.New("no")},
			want: "AmazonSSMManagedInstanceCore", is: isA[*sessionmanager.TargetNotConnectedError],
		},
		{
			name: "access denied", service: &sessionmanagertest.Service{StartErr: &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "no"}},
			want: "ssm:StartSession on the instance and on the document AWS-StartSSHSession", is: isA[*sessionmanager.AccessDeniedError],
		},
		{
			name: "data channel denied", service: &sessionmanagertest.Service{Refuse: http.StatusForbidden},
			want: "ssmmessages:OpenDataChannel", is: isA[*sessionmanager.AccessDeniedError],
		},
		{
			name: "data channel out of order", service: &sessionmanagertest.Service{Refuse: http.StatusServiceUnavailable},
			want: "but got 503", is: func(err error) bool {
				return errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "no session within")
			},
		},
		{
			name: "data channel in clear", service: &sessionmanagertest.Service{}, edit: func(c *sessionmanager.Config) { c.AllowClear = false },
			want: `scheme "ws", not wss`, is: func(error) bool { return true },
		},
		{
			name: "other", service: &sessionmanagertest.Service{StartErr: errors.New("boom")}, want: "start a session with " + target + ": boom",
			is: func(error) bool { return true },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, test.service, test.edit, func(w *world, _ net.Conn) {
				t := w.t
				_, err := w.client.Dial(t.Context(), target, 22)
				if err == nil || !strings.Contains(err.Error(), test.want) || !test.is(err) {
					t.Errorf("error = %T %v, want it to have %q", err, err, test.want)
				}
				w.Lock()
				defer w.Unlock()
				if len(w.Terminated) != len(w.Sessions) {
					t.Errorf("terminated %d of %d sessions", len(w.Terminated), len(w.Sessions))
				}
			})
		})
	}
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func TestDialIsCancelled(t *testing.T) {
	t.Parallel()
	inBubble(t, &sessionmanagertest.Service{Handshake: "none"}, nil, func(w *world, _ net.Conn) {
		t := w.t
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.client.Dial(ctx, target, 22); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v, want the context's", err)
		}
		// Closing the client ends a Dial, too, and there are no others after it.
		failed := make(chan error, 1)
		go func() {
			_, err := w.client.Dial(t.Context(), target, 22)
			failed <- err
		}()
		synctest.Wait()
		if err := w.client.Close(); err != nil {
			t.Error(err)
		}
		if err := <-failed; !errors.Is(err, net.ErrClosed) {
			t.Errorf("error = %v, want %v", err, net.ErrClosed)
		}
		if _, err := w.client.Dial(t.Context(), target, 22); !errors.Is(err, net.ErrClosed) {
			t.Errorf("error = %v, want %v", err, net.ErrClosed)
		}
		w.Lock()
		defer w.Unlock()
		if len(w.Sessions) != 2 || len(w.Terminated) != 2 {
			t.Errorf("terminated %d of %d sessions, want 2 of 2", len(w.Terminated), len(w.Sessions))
		}
	})
}

func TestPortRefuses(t *testing.T) {
	t.Parallel()
	s := &sessionmanagertest.Service{Dial: func() (net.Conn, error) { return nil, errors.New("connection refused") }}
	inBubble(t, s, nil, func(w *world, _ net.Conn) {
		t := w.t
		c, err := w.client.Dial(t.Context(), target, 2222)
		if err == nil {
			_, err = c.Read(make([]byte, 1))
		}
		if wrong, ok := errors.AsType[*sessionmanager.PortError](err); !ok || wrong.Port != 2222 || wrong.Target != target {
			t.Errorf("error = %v, want one about port 2222", err)
		}
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

func TestWaitOnline(t *testing.T) {
	t.Parallel()
	info := func(status types.PingStatus) types.InstanceInformation {
		return types.InstanceInformation{InstanceId: aws.String(target), PingStatus: status, LastPingDateTime: aws.Time(time.Unix(0, 0))}
	}
	for _, test := range []struct {
		name    string
		service *sessionmanagertest.Service
		want    string // "" for no error
		is      func(error) bool
		took    time.Duration
	}{
		{name: "online", service: &sessionmanagertest.Service{Instances: []types.InstanceInformation{info("Online")}}},
		{
			name: "online after a while", took: 10 * time.Second,
			service: &sessionmanagertest.Service{Instances: []types.InstanceInformation{{}, info("ConnectionLost"), info("Online")}},
		},
		{
			name: "never registered", service: &sessionmanagertest.Service{}, took: 5 * time.Minute,
			want: "instance profile has the policy AmazonSSMManagedInstanceCore", is: isA[*sessionmanager.NotOnlineError],
		},
		{
			name: "offline", service: &sessionmanagertest.Service{Instances: []types.InstanceInformation{info("ConnectionLost")}}, took: 5 * time.Minute,
			want: "offline (ConnectionLost), it was last heard of at 1970-01-01T00:00:00Z", is: isA[*sessionmanager.NotOnlineError],
		},
		{
			name: "denied", service: &sessionmanagertest.Service{DescribeErr: &smithy.GenericAPIError{Code: "AccessDeniedException"}},
			want: "ssm:DescribeInstanceInformation", is: isA[*sessionmanager.AccessDeniedError],
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, test.service, nil, func(w *world, _ net.Conn) {
				t := w.t
				began := time.Now()
				err := w.client.WaitOnline(t.Context(), target)
				if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || !test.is(err)) {
					t.Errorf("error = %T %v, want it to have %q", err, err, test.want)
				}
				if took := time.Since(began); took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
			})
		})
	}
}
