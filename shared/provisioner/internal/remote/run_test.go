package remote_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/provisioner/internal/remote"
	"github.com/kubeopera/platform/shared/provisioner/internal/remote/sshtest"
	"github.com/kubeopera/platform/shared/redact"
)

// trap is how the product's scripts begin.
const trap = "set -Eeuo pipefail\ntrap 'echo \"kubeopera: line $LINENO: command failed with status $?\" >&2' ERR\n"

func TestRunExecutesAScript(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]sshtest.Options{
		"as root":           {},
		"through sudo":      {Privilege: sshtest.Sudo},
		"under a login csh": {Shell: firstOf("/bin/csh", "/bin/tcsh", "/bin/bash"), Noise: "Welcome\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sshtest.Start(t, o)
			h := connect(t, configFor(s))
			var out collector
			err := h.Run(t.Context(), remote.Script{
				Name: "test", ID: "test",
				Body:  []byte(trap + "[[ $(id -u) == 0 ]]\npwd; umask; echo \"$A\"; cat; echo aside >&2; printf 'a\\rb\\x1b[31mred\\x00\\n\\nend'; trap -p INT QUIT; (trap 'echo int' INT; kill -INT $BASHPID)"),
				Stdin: []byte("in\nput\n"), Env: map[string]string{"A": "it's\n$(id)"}, Output: &out,
			})
			if err != nil {
				t.Fatal(err)
			}
			want := "/\n0022\nit's\n$(id)\nin\nput\naside\na\nbred\n\nendint\n"
			if diff := cmp.Diff(want, out.String()); diff != "" {
				t.Error(diff)
			}
			left, err := filepath.Glob(s.StateDir() + "/test/*")
			if err != nil {
				t.Fatal(err)
			}
			for i := range left {
				left[i] = filepath.Base(left[i])
			}
			if diff := cmp.Diff([]string{"claim", "delivered", "drained", "group", "lock", "log", "result"}, left); diff != "" {
				t.Error(diff)
			}
			if info, err := os.Stat(s.StateDir() + "/test"); err != nil || info.Mode().Perm() != 0o700 {
				t.Error(info.Mode(), err)
			}
			eventually(t, "no process is left", func() bool { return len(s.Processes()) == 0 })
		})
	}
}

func TestRunFailure(t *testing.T) {
	t.Parallel()
	h := connect(t, configFor(sshtest.Start(t, sshtest.Options{})))
	for name, c := range map[string]struct {
		body string
		want remote.ExitError
	}{
		"input":             {"echo bad version; exit 2", remote.ExitError{Code: 2, Class: remote.ClassInput, Tail: []string{"bad version"}}},
		"dependency":        {"exit 4", remote.ExitError{Code: 4, Class: remote.ClassDependency}},
		"verification":      {"exit 5", remote.ExitError{Code: 5, Class: remote.ClassVerification}},
		"driver":            {"exit 10", remote.ExitError{Code: 10, Class: remote.ClassDriver}},
		"runtime":           {"exit 11", remote.ExitError{Code: 11, Class: remote.ClassRuntime}},
		"toolkit":           {"exit 12", remote.ExitError{Code: 12, Class: remote.ClassToolkit}},
		"kubernetes":        {"exit 13", remote.ExitError{Code: 13, Class: remote.ClassKubernetes}},
		"with the line":     {trap + "\necho before\nfalse", remote.ExitError{Code: 1, Line: 5, Tail: []string{"before", "kubeopera: line 5: command failed with status 1"}}},
		"by a signal":       {"kill -KILL $$", remote.ExitError{Code: 137}},
		"status of timeout": {"exit 124", remote.ExitError{Code: 124}},
		"syntax":            {"for", remote.ExitError{Code: 2, Class: remote.ClassInput}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := h.Run(t.Context(), remote.Script{Name: name, ID: strings.ReplaceAll(name, " ", "-"), Body: []byte(c.body), Timeout: time.Hour})
			got := *as[*remote.ExitError](t, err)
			if got.Hint == "" && c.want.Class != remote.ClassOther {
				t.Error("no hint")
			}
			if c.want.Tail == nil {
				got.Tail = nil
			}
			c.want.Script, got.Hint = name, ""
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for name, s := range map[string]remote.Script{
		"without a name": {ID: "a"},
		"upwards":        {Name: "a", ID: "../a"},
		"hidden":         {Name: "a", ID: ".a"},
		"quote":          {Name: "a", ID: "a'b"},
		"a variable":     {Name: "a", ID: "a", Env: map[string]string{"A=B": ""}},
		"a negative":     {Name: "a", ID: "a", Timeout: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := h.Run(t.Context(), s); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestRunOfAnySize(t *testing.T) {
	t.Parallel()
	h := connect(t, configFor(sshtest.Start(t, sshtest.Options{})))
	body := "cat <<'END'\n" + strings.Repeat("0123456789abcde\n", 200_000) + "END\nwc -c\n"
	var out collector
	err := h.Run(t.Context(), remote.Script{Name: "big", ID: "big", Body: []byte(body), Stdin: make([]byte, 1<<20), Output: &out})
	if want := strings.Repeat("0123456789abcde\n", 200_000) + "1048576\n"; err != nil || out.String() != want {
		t.Errorf("%d bytes instead of %d: %v", len(out.String()), len(want), err)
	}
}

func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t, sshtest.Options{})
	c := configFor(s)
	c.LogLimit = 100 << 10
	h := connect(t, c)
	var out collector
	err := h.Run(t.Context(), remote.Script{
		Name: "long", ID: "long", Output: &out, // 1.6 MB
		Body: []byte("for ((i = 100000; i < 200000; i++)); do echo \"line $i ...\"; done\necho 'kubeopera: line 7: command failed with status 1'; exit 4"),
	})
	if e := as[*remote.ExitError](t, err); e.Line != 7 {
		t.Error(err)
	}
	got := out.String()
	if n := len(got); n < 160<<10 || n > 170<<10 {
		t.Errorf("%d bytes", n)
	}
	if !strings.HasPrefix(got, "line 100000 ...\n") || !strings.Contains(got, "kubeopera: the output is too long") || !strings.Contains(got, "line 199999 ...\nkubeopera: line 7") {
		t.Errorf("the log is %.100s ... %s", got, got[max(0, len(got)-100):])
	}
	if info, err := os.Stat(s.StateDir() + "/long/log"); err != nil || info.Size() > 170<<10 {
		t.Error(info.Size(), err)
	}
}

// counting is a script that says how often it ran and prints n lines slowly.
func counting(s *sshtest.Server, n int) (body []byte, runs func() int, output string) {
	file := filepath.Join(s.Dir, "runs")
	script := fmt.Sprintf("echo >>%s; for ((i = 0; i < %d; i++)); do echo \"line $i of the output of this script\"; ((i %% 20)) || sleep 0.01; done", file, n)
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d of the output of this script\n", i)
	}
	return []byte(script), func() int { return len(readFile(file)) }, b.String()
}

func TestRunSurvivesACutAtEveryPoint(t *testing.T) {
	t.Parallel()
	// The handshake has some 4,000 bytes, the programs 8,000, the output 18,000.
	for n := int64(500); n <= 32_000; n += 2_000 {
		t.Run(fmt.Sprintf("after %d bytes", n), func(t *testing.T) {
			t.Parallel()
			s := sshtest.Start(t, sshtest.Options{})
			c, dials := configFor(s), 0
			c.Dial = func(ctx context.Context) (net.Conn, error) {
				if dials++; dials <= 2 {
					s.Fail(sshtest.Faults{CutAfter: n})
				} else {
					s.Fail(sshtest.Faults{})
				}
				return s.Dial(ctx)
			}
			body, runs, want := counting(s, 400)
			var out collector
			err := connect(t, c).Run(t.Context(), remote.Script{Name: "cut", ID: "cut", Body: body, Output: &out})
			if err != nil || runs() != 1 || out.String() != want {
				t.Errorf("ran %d times, %v: %s", runs(), err, cmp.Diff(want, out.String()))
			}
		})
	}
	t.Run("all the time", func(t *testing.T) {
		t.Parallel()
		s := sshtest.Start(t, sshtest.Options{})
		s.Fail(sshtest.Faults{CutAfter: 20_000})
		body, runs, want := counting(s, 3000)
		var out collector
		err := connect(t, configFor(s)).Run(t.Context(), remote.Script{Name: "cut", ID: "cut", Body: body, Output: &out})
		if err != nil || runs() != 1 || out.String() != want {
			t.Errorf("ran %d times, %v: %s", runs(), err, cmp.Diff(want, out.String()))
		}
		if s.Connections() < 5 {
			t.Errorf("%d connections", s.Connections())
		}
	})
}

func TestRunSurvivesADeadPath(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t, sshtest.Options{})
	c := configFor(s)
	c.KeepaliveInterval, c.KeepaliveMisses = 50*time.Millisecond, 3
	h := connect(t, c)
	gate := filepath.Join(s.Dir, "gate")
	var out collector
	ended := make(chan error, 1)
	go func() {
		ended <- h.Run(t.Context(), remote.Script{
			Name: "gate", ID: "gate", Output: &out,
			Body: []byte("echo before; while [[ ! -e " + gate + " ]]; do sleep 0.01; done; echo after"),
		})
	}()
	eventually(t, "the script prints", func() bool { return out.String() == "before\n" })
	s.Freeze()
	open(t, gate)
	if err := <-ended; err != nil || out.String() != "before\nafter\n" {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

func open(tb testing.TB, gate string) {
	tb.Helper()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		tb.Fatal(err)
	}
}

// gated is a script that says when it runs, and ends with status 4 once the gate is
// open.
type gated struct {
	s    *sshtest.Server
	runs string
	gate string
	body []byte
}

func newGated(s *sshtest.Server) gated {
	g := gated{s: s, runs: filepath.Join(s.Dir, "runs"), gate: filepath.Join(s.Dir, "gate")}
	g.body = []byte("echo >>" + g.runs + "; echo before; while [[ ! -e " + g.gate + " ]]; do sleep 0.01; done; echo after; exit 4")
	return g
}

func (g gated) count() int { return len(readFile(g.runs)) }

func (g gated) start(ctx context.Context, tb testing.TB, h *remote.Host) (ended chan error) {
	tb.Helper()
	out, ended := new(collector), make(chan error, 1)
	go func() {
		ended <- h.Run(ctx, remote.Script{Name: "gated", ID: "gated", Body: g.body, Output: out})
	}()
	eventually(tb, "the script prints", func() bool { return out.String() == "before\n" })
	return ended
}

func TestClientsWithOneIDShareARun(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t, sshtest.Options{})
	g := newGated(s)
	var all sync.WaitGroup
	outs, errs := make([]*collector, 6), make([]error, 6)
	for i := range outs {
		h := connect(t, configFor(s))
		outs[i] = new(collector)
		all.Go(func() {
			errs[i] = h.Run(t.Context(), remote.Script{Name: "gated", ID: "gated", Body: g.body, Output: outs[i]})
		})
	}
	for _, o := range outs {
		eventually(t, "all are attached", func() bool { return o.String() == "before\n" })
	}
	open(t, g.gate)
	all.Wait()
	for i, err := range errs {
		if e := as[*remote.ExitError](t, err); e.Code != 4 || outs[i].String() != "before\nafter\n" {
			t.Errorf("client %d: %q, %v", i, outs[i], err)
		}
	}
	if g.count() != 1 {
		t.Errorf("ran %d times", g.count())
	}
}

func TestResultIsKeptUntilItIsDelivered(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t, sshtest.Options{})
	g := newGated(s)
	c := configFor(s)
	c.MaxRetries = 3
	ended := g.start(t.Context(), t, connect(t, c))
	s.Fail(sshtest.Faults{RefuseConnections: true})
	s.Drop()
	expect[*remote.UnreachableError](t, <-ended)
	s.Fail(sshtest.Faults{})
	open(t, g.gate)
	eventually(t, "it ends", func() bool { return readFile(s.StateDir()+"/gated/result") != "" })

	h := connect(t, configFor(s))
	for _, want := range []int{1, 2, 3} { // the first is the one that ran while nobody was there
		var out collector
		err := h.Run(t.Context(), remote.Script{Name: "gated", ID: "gated", Body: g.body, Output: &out})
		if e := as[*remote.ExitError](t, err); e.Code != 4 || out.String() != "before\nafter\n" || g.count() != want || e.Earlier != (want == 1) {
			t.Errorf("ran %d times, not %d, earlier %v: %q, %v", g.count(), want, e.Earlier, out.String(), err)
		}
	}
}

func TestOldStepsAreForgotten(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t, sshtest.Options{})
	// Steps of long ago, and what a broken session left.
	for i := range 60 {
		dir := fmt.Sprintf("%s/step-%d", s.StateDir(), i)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-time.Duration(i+1) * time.Hour)
		if err := os.Chtimes(dir, then, then); err != nil {
			t.Fatal(err)
		}
	}
	broken := s.StateDir() + "/.new.broken"
	if err := os.MkdirAll(broken, 0o700); err != nil {
		t.Fatal(err)
	}
	open(t, broken+"/alive")
	h := connect(t, configFor(s))
	if err := h.Run(t.Context(), remote.Script{Name: "now", ID: "now"}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(s.StateDir())
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 52 { // 50, this one, and the lock
		t.Errorf("%d are left", len(entries))
	}
	if _, err := os.Stat(s.StateDir() + "/step-49"); err != nil {
		t.Error(err)
	}
}

func TestRunsAtTheSameTimeShareAConnection(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t, sshtest.Options{})
	h := connect(t, configFor(s))
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			var out collector
			want := fmt.Sprintf("%d\n%d\n", i, i)
			err := h.Run(t.Context(), remote.Script{
				Name: "one", ID: fmt.Sprint("one-", i), Body: fmt.Appendf(nil, "echo %d; sleep 0.1; echo %d", i, i), Output: &out,
			})
			if err != nil || out.String() != want {
				t.Errorf("got %q, %v", out.String(), err)
			}
		})
		all.Go(func() {
			if _, err := h.BootID(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "they run", func() bool { return s.Sessions() >= 4 })
	s.Drop()
	all.Wait()
	if s.Connections() > 3 {
		t.Errorf("%d connections", s.Connections())
	}
}

func TestSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	const canary, configured = "canary-4f1c9a7e2b", "configured-9d8e7f6a"
	s := sshtest.Start(t, sshtest.Options{Privilege: sshtest.Sudo})
	c := configFor(s)
	var log, out collector
	c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c.Secrets = []redact.Secret{configured}
	h := connect(t, c)
	gate := filepath.Join(s.Dir, "gate")
	ended := make(chan error, 1)
	go func() {
		ended <- h.Run(t.Context(), remote.Script{
			Name: "secret", ID: "secret", Stdin: []byte("TOKEN=Y2FuYXJ5LTRmMWM5YTdlMmI=\n"), Output: &out,
			Body: []byte("read -r line; echo \"$line\"; printf %s \"${line#*=}\" | base64 -d; echo; echo ready; while [[ ! -e " + gate + " ]]; do sleep 0.01; done; echo " + configured + "; echo \"${line#*=}\" | base64 -d; exit 13"),
		})
	}()
	eventually(t, "the script runs", func() bool { return strings.Contains(out.String(), "ready") })
	s.Drop() // programs are sent again
	eventually(t, "it is attached again", func() bool { return s.Sessions() > 1 })
	seen := s.Commands()
	if !strings.Contains(seen, "/secret/script") {
		t.Errorf("the script is not among the processes: %s", seen)
	}
	if strings.Contains(seen, canary) || strings.Contains(seen, "Y2FuYXJ5") {
		t.Errorf("in a process: %s", seen)
	}
	// What the script itself printed is in its log, for root only; nothing else is.
	err := filepath.WalkDir(s.StateDir(), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Base(path) != "log" && strings.Contains(readFile(path), "Y2FuYXJ5") {
			t.Errorf("in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	open(t, gate)
	failure := <-ended
	_, outputErr := h.Output(t.Context(), "echo "+configured+" >&2; false", []byte(canary))
	for where, text := range map[string]string{
		"output": out.String(), "log": log.String(), "error": fmt.Sprintf("%v %+v", failure, as[*remote.ExitError](t, failure)),
		"command's error": fmt.Sprint(outputErr),
	} {
		for _, secret := range []string{canary, "Y2FuYXJ5", "9d8e7f6a"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in the %s: %s", secret, where, text)
			}
		}
	}
	if n := strings.Count(out.String(), redact.Marker); n != 4 {
		t.Errorf("%d secrets are masked: %s", n, out.String())
	}
}
