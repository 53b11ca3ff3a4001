package remote_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/provisioner/internal/remote"
	"github.com/kubeopera/platform/shared/provisioner/internal/remote/sshtest"
)

func TestInterruptedRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		interrupt func(testing.TB, *sshtest.Server)
		want      remote.Interruption
	}{
		"by a reboot":     {func(_ testing.TB, s *sshtest.Server) { s.Reboot() }, remote.Rebooted},
		"by kills of all": {func(_ testing.TB, s *sshtest.Server) { s.KillAll(s.Processes()) }, remote.Vanished},
		"by a kill of the supervisor": {func(tb testing.TB, s *sshtest.Server) {
			tb.Helper()
			var run, boot string
			var pid int
			if _, err := fmt.Sscan(readFile(s.StateDir()+"/gated/claim"), &run, &boot, &pid); err != nil {
				tb.Error(err)
				return
			}
			s.KillAll([]int{pid})
		}, remote.Vanished},
		"by a lost state": {func(tb testing.TB, s *sshtest.Server) {
			tb.Helper()
			s.KillAll(s.Processes())
			if err := os.RemoveAll(s.StateDir()); err != nil {
				tb.Error(err)
			}
		}, remote.Vanished},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sshtest.Start(t, sshtest.Options{})
			g, h := newGated(s), connect(t, configFor(s))
			ended := g.start(t.Context(), t, h)
			c.interrupt(t, s)
			e := as[*remote.InterruptedError](t, <-ended)
			if e.Reason != c.want || !cmp.Equal(e.Tail, []string{"before"}) {
				t.Error(e)
			}
			eventually(t, "no process is left", func() bool { return len(s.Processes()) == 0 })
			open(t, g.gate)
			err := h.Run(t.Context(), remote.Script{Name: "gated", ID: "gated", Body: g.body})
			if expect[*remote.ExitError](t, err); g.count() != 2 {
				t.Errorf("ran %d times", g.count())
			}
		})
	}
}

func TestTimeoutKillsTheProcesses(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"that obey":          "echo begun; sleep 1000 & sleep 1000",
		"that ignore TERM":   "trap '' TERM; echo begun; sleep 1000 & sleep 1000; sleep 1000",
		"of which one obeys": "echo begun; (trap '' TERM; sleep 1000; sleep 1000) & sleep 1000",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sshtest.Start(t, sshtest.Options{})
			h := connect(t, configFor(s))
			err := h.Run(t.Context(), remote.Script{Name: "slow", ID: "slow", Body: []byte(body), Timeout: time.Second})
			e := as[*remote.TimeoutError](t, err)
			if !strings.Contains(err.Error(), "killed on the host after 1s") || len(e.Tail) == 0 || e.Tail[0] != "begun" {
				t.Error(err, e.Tail)
			}
			eventually(t, "no process is left", func() bool { return len(s.Processes()) == 0 })
		})
	}
}

func TestCancelKillsTheProcesses(t *testing.T) {
	t.Parallel()
	t.Run("that obey", func(t *testing.T) {
		t.Parallel()
		s := sshtest.Start(t, sshtest.Options{})
		g, h := newGated(s), connect(t, configFor(s))
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := g.start(ctx, t, h)
		cause := errors.New("enough")
		cancel(cause)
		if err := <-ended; !errors.Is(err, cause) || !strings.Contains(err.Error(), "it was stopped on the host") {
			t.Error(err)
		}
		eventually(t, "no process is left", func() bool { return len(s.Processes()) == 0 })
		open(t, g.gate)
		err := h.Run(t.Context(), remote.Script{Name: "gated", ID: "gated", Body: g.body})
		if expect[*remote.ExitError](t, err); g.count() != 2 {
			t.Errorf("ran %d times", g.count())
		}
	})
	t.Run("that ignore TERM, over another connection", func(t *testing.T) {
		t.Parallel()
		s := sshtest.Start(t, sshtest.Options{})
		g, h := newGated(s), connect(t, configFor(s))
		g.body = append([]byte("trap '' TERM\n"), g.body...)
		ctx, cancel := context.WithCancel(t.Context())
		ended := g.start(ctx, t, h)
		s.Drop()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "it was stopped on the host") {
			t.Error(err)
		}
		eventually(t, "no process is left", func() bool { return len(s.Processes()) == 0 })
	})
	t.Run("of another client, who is told", func(t *testing.T) {
		t.Parallel()
		s := sshtest.Start(t, sshtest.Options{})
		g := newGated(s)
		ctx, cancel := context.WithCancel(t.Context())
		first := g.start(ctx, t, connect(t, configFor(s)))
		second := g.start(t.Context(), t, connect(t, configFor(s)))
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if e := as[*remote.InterruptedError](t, <-second); e.Reason != remote.Stopped {
			t.Error(e)
		}
	})
	t.Run("of a host that is gone", func(t *testing.T) {
		t.Parallel()
		s := sshtest.Start(t, sshtest.Options{})
		g := newGated(s)
		c := configFor(s)
		c.MaxRetries = 2
		ctx, cancel := context.WithCancel(t.Context())
		ended := g.start(ctx, t, connect(t, c))
		s.Fail(sshtest.Faults{RefuseConnections: true})
		cancel()
		s.Drop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("before it began", func(t *testing.T) {
		t.Parallel()
		s := sshtest.Start(t, sshtest.Options{})
		g, h := newGated(s), connect(t, configFor(s))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := h.Run(ctx, remote.Script{Name: "gated", ID: "gated", Body: g.body})
		if !errors.Is(err, context.Canceled) || g.count() != 0 {
			t.Errorf("ran %d times: %v", g.count(), err)
		}
	})
}

func TestWhatAScriptLeavesBehindKeepsNobody(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t, sshtest.Options{})
	h := connect(t, configFor(s))
	var out collector
	err := h.Run(t.Context(), remote.Script{Name: "daemon", ID: "daemon", Body: []byte("sleep 1000 & echo done"), Output: &out})
	if err != nil || out.String() != "done\n" {
		t.Errorf("got %q, %v", out.String(), err)
	}
	if len(s.Processes()) == 0 {
		t.Error("it was killed")
	}
}
