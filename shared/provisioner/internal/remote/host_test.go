package remote_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"

	"github.com/kubeopera/platform/shared/provisioner/internal/remote"
	"github.com/kubeopera/platform/shared/provisioner/internal/remote/sshtest"
	"github.com/kubeopera/platform/shared/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// configFor reaches s, quick to try again.
func configFor(s *sshtest.Server) remote.Config {
	return remote.Config{
		Dial: s.Dial, Target: s.Addr, User: "ubuntu",
		Auth:     remote.Auth{KeyFile: s.KeyFile},
		HostKeys: remote.HostKeys{Pinned: []ssh.PublicKey{s.HostKey}},
		StateDir: s.StateDir(), BootIDFile: s.BootIDFile(),
		Backoff: time.Millisecond, Grace: time.Second,
	}
}

func connect(tb testing.TB, c remote.Config) *remote.Host {
	tb.Helper()
	h, err := remote.Connect(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = h.Close() })
	return h
}

// eventually polls until a condition holds.
func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			tb.Fatalf("not within 30 s: %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// collector is a writer that may be looked at while it is written to.
type collector struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (c *collector) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.Write(p)
}

func (c *collector) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.String()
}

func as[E error](tb testing.TB, err error) E {
	tb.Helper()
	var e E
	if !errors.As(err, &e) {
		tb.Fatalf("error is %T: %v", err, err)
	}
	return e
}

func expect[E error](tb testing.TB, err error) {
	tb.Helper()
	_ = as[E](tb, err)
}

func TestConnectTriesOnlyWhatMayPass(t *testing.T) {
	t.Parallel()
	t.Run("a host that comes up later is waited for", func(t *testing.T) {
		t.Parallel()
		s := sshtest.Start(t, sshtest.Options{})
		s.Fail(sshtest.Faults{RefuseConnections: true})
		c, dials := configFor(s), 0
		c.Dial = func(ctx context.Context) (net.Conn, error) {
			if dials++; dials == 3 {
				s.Fail(sshtest.Faults{})
			}
			return s.Dial(ctx)
		}
		connect(t, c)
		if dials < 3 {
			t.Errorf("%d dials", dials)
		}
	})
	t.Run("a host that never comes up is unreachable", func(t *testing.T) {
		t.Parallel()
		s := sshtest.Start(t, sshtest.Options{})
		c, broken := configFor(s), errors.New("no route with hunter2hunter2")
		c.Dial = func(context.Context) (net.Conn, error) { return nil, broken }
		c.MaxRetries, c.Secrets = 4, []redact.Secret{"hunter2hunter2"}
		_, err := remote.Connect(t.Context(), c)
		if e := as[*remote.UnreachableError](t, err); e.Attempts != 4 || !errors.Is(err, broken) {
			t.Errorf("%d attempts: %v", e.Attempts, err)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("secret in %q", err)
		}
	})
	t.Run("who waits for a connection shares its failure", func(t *testing.T) {
		t.Parallel()
		const callers, retries = 8, 4
		s := sshtest.Start(t, sshtest.Options{})
		c := configFor(s)
		var away atomic.Bool
		var dials atomic.Int32
		var all sync.WaitGroup
		all.Add(callers)
		c.MaxRetries = retries
		c.Dial = func(ctx context.Context) (net.Conn, error) {
			if !away.Load() {
				return s.Dial(ctx)
			}
			dials.Add(1)
			all.Wait() // until they are about to call
			return nil, errors.New("no route")
		}
		h := connect(t, c)
		away.Store(true)
		s.Drop()
		eventually(t, "the connection is lost", func() bool { return s.Connections() == 0 || h.Client().Wait() != nil })
		var calls sync.WaitGroup
		for range callers {
			calls.Go(func() {
				all.Done()
				_, err := h.Output(t.Context(), "true", nil)
				expect[*remote.UnreachableError](t, err)
			})
		}
		calls.Wait()
		if n := dials.Load(); n >= callers*retries {
			t.Errorf("%d dials by %d callers", n, callers)
		}
	})
	t.Run("a handshake that hangs is given up", func(t *testing.T) {
		t.Parallel()
		s := sshtest.Start(t, sshtest.Options{})
		s.Fail(sshtest.Faults{HangHandshake: true})
		c := configFor(s)
		c.HandshakeTimeout, c.MaxRetries = 20*time.Millisecond, 2
		_, err := remote.Connect(t.Context(), c)
		expect[*remote.UnreachableError](t, err)
		if s.Connections() != 2 || !strings.Contains(err.Error(), "no SSH handshake within 20ms") {
			t.Errorf("%d connections: %v", s.Connections(), err)
		}
	})
	t.Run("a dial that hangs is given up", func(t *testing.T) {
		t.Parallel()
		c := configFor(sshtest.Start(t, sshtest.Options{}))
		c.Dial = func(ctx context.Context) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		c.ConnectTimeout, c.MaxRetries = 10*time.Millisecond, 2
		_, err := remote.Connect(t.Context(), c)
		expect[*remote.UnreachableError](t, err)
		if !strings.Contains(err.Error(), "no connection within 10ms") {
			t.Error(err)
		}
	})
	t.Run("a cancelled wait ends at once", func(t *testing.T) {
		t.Parallel()
		c := configFor(sshtest.Start(t, sshtest.Options{}))
		ctx, cancel := context.WithCancel(t.Context())
		c.Dial = func(context.Context) (net.Conn, error) {
			cancel()
			return nil, errors.New("no")
		}
		c.Backoff = time.Hour
		if _, err := remote.Connect(ctx, c); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("a refused login is an error at once", func(t *testing.T) {
		t.Parallel()
		s := sshtest.Start(t, sshtest.Options{})
		s.Fail(sshtest.Faults{RefuseLogin: true})
		_, err := remote.Connect(t.Context(), configFor(s))
		expect[*remote.AuthError](t, err)
		if s.Connections() != 1 || !strings.Contains(err.Error(), "SHA256:") || !strings.Contains(err.Error(), "~ubuntu/.ssh/authorized_keys") {
			t.Errorf("%d connections: %v", s.Connections(), err)
		}
	})
	t.Run("a transport that says so is not asked again", func(t *testing.T) {
		t.Parallel()
		c, dials := configFor(sshtest.Start(t, sshtest.Options{})), 0
		c.Dial = func(context.Context) (net.Conn, error) {
			dials++
			return nil, permanentError{}
		}
		_, err := remote.Connect(t.Context(), c)
		if dials != 1 || !errors.Is(err, permanentError{}) {
			t.Errorf("%d dials: %v", dials, err)
		}
	})
	t.Run("all that is wrong with a configuration is told", func(t *testing.T) {
		t.Parallel()
		_, err := remote.Connect(t.Context(), remote.Config{
			Target: "a b", MaxRetries: -1, StateDir: "a'b", HostKeys: remote.HostKeys{Policy: "maybe"},
		})
		for _, want := range []string{"dial", `"a b"`, "user", "negative", "a'b", "maybe"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q is missing: %v", want, err)
			}
		}
	})
}

type permanentError struct{}

func (permanentError) Error() string   { return "access denied" }
func (permanentError) Permanent() bool { return true }

func TestOutput(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]sshtest.Options{
		"as root":           {},
		"through sudo":      {Privilege: sshtest.Sudo},
		"with login noise":  {Noise: "Welcome!\n\nmark run \n"},
		"under a login csh": {Shell: firstOf("/bin/csh", "/bin/tcsh", "/bin/bash")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := connect(t, configFor(sshtest.Start(t, o)))
			out, err := h.Output(t.Context(), "echo \"it's $(id -u)!\"; tr a-z A-Z; echo aside >&2", []byte("stdin\x00\n"))
			if want := "it's 0!\nSTDIN\x00\n"; err != nil || string(out) != want {
				t.Errorf("got %q, %v", out, err)
			}
			_, err = h.Output(t.Context(), "echo no JSON; printf 'cannot\\nreally' >&2; exit 4", nil)
			e := as[*remote.ExitError](t, err)
			if e.Code != 4 || e.Class != remote.ClassDependency {
				t.Errorf("got %d, %q", e.Code, e.Class)
			}
			if diff := cmp.Diff([]string{"cannot", "really"}, e.Tail); diff != "" {
				t.Error(diff)
			}
			if out, err = h.Output(t.Context(), "cat /dev/null", bytes.Repeat([]byte("unread"), 1<<20)); err != nil || len(out) > 0 {
				t.Errorf("got %q, %v", out, err)
			}
			if out, err = h.Output(t.Context(), ":", bytes.Repeat([]byte("unread"), 1<<20)); err != nil || len(out) > 0 {
				t.Errorf("input that nobody reads: got %q, %v", out, err)
			}
			big := bytes.Repeat([]byte("0123456789abcde\n"), 1<<18)
			if out, err = h.Output(t.Context(), "cat", big); err != nil || !bytes.Equal(out, big) {
				t.Errorf("4 MiB became %d bytes, %v", len(out), err)
			}
			if _, err := h.Output(t.Context(), "cat /dev/zero", nil); err == nil || !strings.Contains(err.Error(), "32 MiB") {
				t.Errorf("without end: %v", err)
			}
		})
	}
}

func firstOf(paths ...string) string {
	for _, p := range paths {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	return "/bin/sh"
}

func TestOutputIsNotRepeated(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t, sshtest.Options{})
	h := connect(t, configFor(s))
	count := filepath.Join(s.Dir, "count")
	failed := make(chan error, 1)
	go func() {
		_, err := h.Output(t.Context(), "echo >>"+count+"; exec sleep 1000", nil)
		failed <- err
	}()
	eventually(t, "the command runs", func() bool { return readFile(count) != "" })
	s.Drop()
	expect[*remote.UnreachableError](t, <-failed)
	if got := readFile(count); got != "\n" {
		t.Errorf("%d times", len(got))
	}
	if _, err := h.Output(t.Context(), "true", nil); err != nil {
		t.Errorf("after that: %v", err)
	}
}

func TestOutputEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t, sshtest.Options{})
	h := connect(t, configFor(s))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		eventually(t, "a session", func() bool { return s.Sessions() > 0 })
		cancel()
	}()
	if _, err := h.Output(ctx, "sleep 1000", nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func readFile(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(data)
}

func TestPrivilegeIsAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t, sshtest.Options{Privilege: sshtest.Password})
	h := connect(t, configFor(s))
	_, err := h.Output(t.Context(), "true", nil)
	expect[*remote.PrivilegeError](t, err)
	err = h.Run(t.Context(), remote.Script{Name: "a", ID: "a"})
	expect[*remote.PrivilegeError](t, err)
	if s.Sessions() != 2 || !strings.Contains(err.Error(), "NOPASSWD") || !strings.Contains(err.Error(), "a password is required") {
		t.Errorf("%d sessions: %v", s.Sessions(), err)
	}
}

func TestBootIDAndReconnectAfterAReboot(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t, sshtest.Options{})
	h := connect(t, configFor(s))
	before, err := h.BootID(t.Context())
	if err != nil || before == "" {
		t.Fatal(before, err)
	}
	client := h.Client()
	s.Reboot()
	after, err := h.BootID(t.Context())
	if err != nil || after == before {
		t.Errorf("got %q, %v", after, err)
	}
	if h.Client() == client {
		t.Error("the client is the old one")
	}
	client = h.Client()
	if err := h.Reconnect(t.Context()); err != nil || h.Client() == client {
		t.Errorf("not reconnected: %v", err)
	}
	eventually(t, "the old connection is closed", func() bool { return s.Open() == 1 })
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if _, err := h.BootID(t.Context()); !errors.Is(err, remote.ErrClosed) {
		t.Error(err)
	}
}

func TestDeadPathIsNoticed(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t, sshtest.Options{})
	c := configFor(s)
	c.KeepaliveInterval, c.KeepaliveMisses = 100*time.Millisecond, 3
	var log collector
	c.Log = slog.New(slog.NewTextHandler(&log, nil))
	h := connect(t, c)
	client := h.Client()
	s.Freeze()
	if err := client.Wait(); err == nil {
		t.Error("no error")
	}
	if !strings.Contains(log.String(), "no longer answers") {
		t.Error(log.String())
	}
	if out, err := h.Output(t.Context(), "echo back", nil); err != nil || string(out) != "back\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestSessionsThatAreNotGiven(t *testing.T) {
	t.Parallel()
	t.Run("refused for a while", func(t *testing.T) {
		t.Parallel()
		s := sshtest.Start(t, sshtest.Options{})
		h := connect(t, configFor(s))
		s.Fail(sshtest.Faults{RefuseSessions: true})
		// Only a running command can tell that a session was refused.
		time.AfterFunc(30*time.Millisecond, func() { s.Fail(sshtest.Faults{}) })
		if _, err := h.Output(t.Context(), "true", nil); err != nil {
			t.Error(err)
		}
		if s.Connections() != 1 {
			t.Errorf("%d connections", s.Connections())
		}
	})
	for name, f := range map[string]sshtest.Faults{
		"refused":          {RefuseSessions: true},
		"without commands": {RefuseExec: true},
		"without answers":  {MuteSessions: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sshtest.Start(t, sshtest.Options{})
			c := configFor(s)
			c.MaxRetries, c.HandshakeTimeout = 3, 200*time.Millisecond
			h := connect(t, c)
			s.Fail(f)
			err := h.Run(t.Context(), remote.Script{Name: "a", ID: "a"})
			expect[*remote.UnreachableError](t, err)
		})
	}
}

func TestBastion(t *testing.T) {
	t.Parallel()
	bastion, target := sshtest.Start(t, sshtest.Options{}), sshtest.Start(t, sshtest.Options{})
	dial, end, err := remote.DialBastion(t.Context(), configFor(bastion))
	if err != nil {
		t.Fatal(err)
	}
	defer end() //nolint:errcheck // a test's end
	c := configFor(target)
	c.Dial = func(ctx context.Context) (net.Conn, error) { return dial(ctx, target.Addr) }
	h := connect(t, c)
	run := func() {
		t.Helper()
		if out, err := h.Output(t.Context(), "echo $SSHTEST_DIR", nil); err != nil || strings.TrimSpace(string(out)) != target.Dir {
			t.Errorf("got %q, %v", out, err)
		}
	}
	run()
	bastion.Drop()
	eventually(t, "the loss is noticed", func() bool { return target.Open() == 0 })
	run()

	t.Run("that forbids forwarding is an error at once", func(t *testing.T) {
		closed := sshtest.Start(t, sshtest.Options{NoForwarding: true})
		dial, end, err := remote.DialBastion(t.Context(), configFor(closed))
		if err != nil {
			t.Fatal(err)
		}
		defer end() //nolint:errcheck // a test's end
		c.Dial = func(ctx context.Context) (net.Conn, error) { return dial(ctx, target.Addr) }
		if _, err := remote.Connect(t.Context(), c); err == nil || !strings.Contains(err.Error(), "AllowTcpForwarding") {
			t.Error(err)
		}
	})
	t.Run("that refuses the login is an error at once", func(t *testing.T) {
		bastion.Fail(sshtest.Faults{RefuseLogin: true})
		_, _, err := remote.DialBastion(t.Context(), configFor(bastion))
		if e := as[*remote.AuthError](t, err); e.Target != bastion.Addr {
			t.Error(err)
		}
		bastion.Drop()
		before := bastion.Connections()
		err = h.Reconnect(t.Context())
		if e := as[*remote.AuthError](t, err); e.Target != bastion.Addr || bastion.Connections() > before+1 {
			t.Errorf("%d connections: %v", bastion.Connections()-before, err)
		}
	})
}
