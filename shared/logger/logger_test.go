package logger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/kubeopera/platform/shared/logger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// speak uses every method that writes.
func speak(l *logger.FunLogger) {
	l.Info("info %d", 1)
	l.Check("check")
	l.Warning("warning\n")
	l.Error(errors.New("error"))
	l.Debug("debug")
	l.Trace("trace")
	l.Loading("load %s", "a")(nil)
	l.Loading("load b")(logger.ErrLoadingFailed)
	l.Loading("load c")(errors.New("no room"))
}

func TestVerbosity(t *testing.T) {
	t.Parallel()
	quiet := "⚠\twarning\n✘\terror\n✘\tload b\n✘\tload c: no room\n"
	normal := "info 1\n✔\tcheck\n⚠\twarning\n✘\terror\n⌛\tload a\n✔\tload a\n⌛\tload b\n✘\tload b\n⌛\tload c\n✘\tload c: no room\n"
	verbose := strings.Replace(normal, "⌛\tload a", "[DEBUG] debug\n⌛\tload a", 1)
	tests := []struct {
		verbosity logger.Verbosity
		want      string
	}{
		{logger.VerbosityQuiet, quiet},
		{logger.VerbosityQuiet - 5, quiet},
		{logger.VerbosityNormal, normal},
		{logger.VerbosityVerbose, verbose},
		{logger.VerbosityDebug, strings.Replace(verbose, "debug\n", "debug\n[TRACE] trace\n", 1)},
	}
	for _, tt := range tests {
		var out bytes.Buffer
		l := logger.NewLogger()
		l.Out = &out
		l.SetVerbosity(tt.verbosity)
		speak(l)
		if diff := cmp.Diff(tt.want, out.String()); diff != "" {
			t.Errorf("%d (-want +got):\n%s", tt.verbosity, diff)
		}
	}

	var out bytes.Buffer
	zero := &logger.FunLogger{Out: &out}
	speak(zero)
	if diff := cmp.Diff(normal, out.String()); diff != "" {
		t.Errorf("the zero value (-want +got):\n%s", diff)
	}
}

func TestNilLoggerSaysNothing(t *testing.T) {
	t.Parallel()
	var l *logger.FunLogger
	speak(l)
	l.SetVerbosity(logger.VerbosityDebug)
	l.Slog().ErrorContext(t.Context(), "nothing")
}

type panics struct{}

func (panics) Error() string { panic("no text") }

func TestNothingPanics(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := &logger.FunLogger{Out: &out}
	l.Info("")
	l.Info("%d %s", "x")
	l.Error(nil)
	l.Error(panics{})
	stop := l.Loading("")
	stop(panics{})
	stop(nil)
	var typed *os.PathError
	l.Error(typed)
	if strings.Contains(out.String(), "✔") {
		t.Errorf("the second end of a loading counts:\n%s", out.String())
	}
}

func TestTextFromOutsideDoesNotSteerTheTerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := &logger.FunLogger{Out: &out}
	l.Info("a\x1b[2Jb\rc\u009bd\te\nf")
	if got := out.String(); got != "a?[2Jb?c?d\te\nf\n" {
		t.Errorf("got %q", got)
	}
}

func TestNewLoggerKnowsCI(t *testing.T) {
	t.Setenv("CI", "true")
	if !logger.NewLogger().IsCI {
		t.Error("not noticed")
	}
	t.Setenv("CI", "")
	if logger.NewLogger().IsCI {
		t.Error("noticed though not there")
	}
}

func TestExit(t *testing.T) {
	t.Parallel()
	code := -1
	s := &screen{}
	l := &logger.FunLogger{Out: s, ExitFunc: func(c int) { code = c }}
	stop := l.Loading("work")
	l.Exit(3)
	if code != 3 {
		t.Errorf("got code %d", code)
	}
	stop(nil) // too late, and harmless
	if got := s.String(); strings.Contains(got, "✔") || !strings.HasSuffix(got, erase) {
		t.Errorf("got %q", got)
	}
}

// screen is a terminal of 40 columns.
type screen struct {
	mu sync.Mutex
	bytes.Buffer
}

func (s *screen) Width() int { return 40 }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Buffer.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Buffer.String()
}

const erase = "\r\x1b[2K"

func TestAnimation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &screen{}
		l := &logger.FunLogger{Out: s}
		stop := l.Loading("a message that is longer than the terminal")
		time.Sleep(500 * time.Millisecond) //nolint:forbidigo // the clock of synctest
		l.Info("between")
		time.Sleep(200 * time.Millisecond) //nolint:forbidigo // the clock of synctest
		stop(nil)
		cut := "\ta message that is longer than t"
		want := erase + "|" + cut + erase + "/" + cut + erase + "-" + cut +
			erase + "between\n" + erase + `\` + cut + erase + "\x1b[32m✔\t\x1b[0ma message that is longer than the terminal\n"
		if diff := cmp.Diff(want, s.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestNoAnimationInCI(t *testing.T) {
	t.Parallel()
	s := &screen{}
	l := &logger.FunLogger{Out: s, IsCI: true}
	l.Loading("work")(nil)
	if strings.Contains(s.String(), erase) {
		t.Errorf("got %q", s.String())
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	for _, l := range []*logger.FunLogger{{Out: &screen{}}, logger.NewSlog(slog.New(slog.DiscardHandler))} {
		var group sync.WaitGroup
		for i := range 16 {
			group.Go(func() {
				stop := l.Loading("load %d", i)
				l.SetVerbosity(logger.Verbosity(i % 4))
				speak(l)
				l.Slog().With("i", i).InfoContext(t.Context(), "slog")
				stop(nil)
			})
		}
		group.Wait()
		l.ExitFunc = func(int) {}
		l.Exit(0)
	}
}

func TestLinesStayWhole(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := &logger.FunLogger{Out: &out}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				l.Info("%s", strings.Repeat("x", 99))
			}
		})
	}
	group.Wait()
	if out.String() != strings.Repeat(strings.Repeat("x", 99)+"\n", 400) {
		t.Error("lines are mixed")
	}
}

func TestNewSlog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := logger.NewSlog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: logger.LevelTrace,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})).With("node", "cp-0"))
	speak(l)
	want := strings.Join([]string{
		`level=INFO msg="info 1"`, `level=INFO msg=check`, `level=WARN msg=warning`, `level=ERROR msg=error`,
		`level=DEBUG msg=debug`, `level=DEBUG-4 msg=trace`,
		`level=INFO msg="load a"`, `level=INFO msg="load a"`, `level=INFO msg="load b"`, `level=ERROR msg="load b"`,
		`level=INFO msg="load c"`, `level=ERROR msg="load c: no room"`, "",
	}, " node=cp-0\n")
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	out.Reset()
	l.Slog().InfoContext(t.Context(), "back")
	if got := out.String(); got != "level=INFO msg=back node=cp-0\n" {
		t.Errorf("got %q", got)
	}
}

func TestSlog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := &logger.FunLogger{Out: &out}
	ctx := context.Background()
	log := l.Slog().With("node", "cp 0").WithGroup("step").With("id", 7)
	log.InfoContext(ctx, "started", "level", "high", "err", fmt.Errorf("x: %w", os.ErrNotExist))
	l.Slog().WarnContext(ctx, "slow", "msg", "m", "level", "l")
	log.ErrorContext(ctx, "failed")
	log.DebugContext(ctx, "unseen")
	l.SetVerbosity(logger.VerbosityDebug)
	l.Slog().DebugContext(ctx, "seen")
	l.Slog().Log(ctx, logger.LevelTrace, "details")
	want := `started node="cp 0" step.id=7 step.level=high step.err="x: file does not exist"
` + "⚠\tslow msg=m level=l\n✘\tfailed node=\"cp 0\" step.id=7\n[DEBUG] seen\n[TRACE] details\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
