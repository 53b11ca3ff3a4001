package logger

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// FunLogger writes lines to Out. The zero value is ready for use, a nil one says
// nothing, and all methods are safe for concurrent use; the fields are set before
// the first of them.
type FunLogger struct {
	// Out is os.Stderr if nil. Without a terminal there are neither colours nor
	// animations.
	Out io.Writer
	// Wg counts the animations that run. The logger makes one if it is nil.
	Wg *sync.WaitGroup
	// ExitFunc is os.Exit if nil.
	ExitFunc func(code int)
	// IsCI turns animations off, as nobody watches.
	IsCI bool

	verbosity atomic.Int32 // Verbosity + 1; zero is unset
	slog      slog.Handler // where messages go instead of Out

	mu      sync.Mutex // Out, Wg and below
	loading []*loading // the last one is drawn
	drawn   bool       // the cursor stands in an animation's line
}

// NewLogger writes to os.Stderr, without animations if the environment variable CI
// is true.
func NewLogger() *FunLogger {
	return &FunLogger{
		Out:      os.Stderr,
		Wg:       new(sync.WaitGroup),
		ExitFunc: os.Exit,
		IsCI:     os.Getenv("CI") == "true", //nolint:forbidigo // the API to be compatible with hands in no environment
	}
}

// NewSlog passes all messages on to log, whose level decides what is seen.
func NewSlog(log *slog.Logger) *FunLogger {
	l := &FunLogger{slog: log.Handler()}
	l.SetVerbosity(VerbosityDebug)
	return l
}

// Verbosity is how much is written.
type Verbosity int

// The verbosities; each has what those before it have.
const (
	VerbosityQuiet   Verbosity = iota // warnings and errors
	VerbosityNormal                   // information; the default
	VerbosityVerbose                  // Debug
	VerbosityDebug                    // Trace
)

// SetVerbosity changes how much is written.
func (l *FunLogger) SetVerbosity(v Verbosity) {
	if l != nil {
		l.verbosity.Store(int32(min(max(v, VerbosityQuiet), VerbosityDebug)) + 1)
	}
}

// LevelTrace is the slog level of Trace.
const LevelTrace = slog.LevelDebug - 4

// enabled says whether messages of a level are written.
func (l *FunLogger) enabled(level slog.Level) bool {
	if l == nil {
		return false
	}
	v := VerbosityNormal
	if stored := l.verbosity.Load(); stored > 0 {
		v = Verbosity(stored - 1)
	}
	switch {
	case level >= slog.LevelWarn:
		return true
	case level >= slog.LevelInfo:
		return v >= VerbosityNormal
	case level >= slog.LevelDebug:
		return v >= VerbosityVerbose
	}
	return v >= VerbosityDebug
}

// A mark stands before a message, in a colour where there are any.
type mark struct{ colour, sign string }

const (
	reset     = "\x1b[0m"
	clearLine = "\r\x1b[2K"
)

var (
	noMark      = mark{}
	checkMark   = mark{"\x1b[32m", "✔\t"}
	warningMark = mark{"\x1b[33m", "⚠\t"}
	errorMark   = mark{"\x1b[31m", "✘\t"}
	waitMark    = mark{"\x1b[33m", "⌛\t"}
	debugMark   = mark{"", "[DEBUG] "}
	traceMark   = mark{"", "[TRACE] "}
)

// Info writes a plain line.
func (l *FunLogger) Info(format string, a ...any) { l.printf(slog.LevelInfo, noMark, format, a) }

// Check writes a line about what went well.
func (l *FunLogger) Check(format string, a ...any) { l.printf(slog.LevelInfo, checkMark, format, a) }

// Warning writes a line about what needs attention, however quiet the logger is.
func (l *FunLogger) Warning(format string, a ...any) {
	l.printf(slog.LevelWarn, warningMark, format, a)
}

// Error writes err, however quiet the logger is; nothing for nil.
func (l *FunLogger) Error(err error) {
	if err != nil {
		l.printf(slog.LevelError, errorMark, "%v", []any{err})
	}
}

// Debug writes a line for who is looking for a fault.
func (l *FunLogger) Debug(format string, a ...any) { l.printf(slog.LevelDebug, debugMark, format, a) }

// Trace writes a line about details.
func (l *FunLogger) Trace(format string, a ...any) { l.printf(LevelTrace, traceMark, format, a) }

// Exit ends all animations and then the program.
func (l *FunLogger) Exit(code int) {
	exit := os.Exit
	if l != nil {
		l.stopLoading()
		if l.ExitFunc != nil {
			exit = l.ExitFunc
		}
	}
	exit(code)
}

func (l *FunLogger) printf(level slog.Level, m mark, format string, a []any) {
	if l.enabled(level) {
		l.write(level, m, fmt.Sprintf(format, a...))
	}
}

// write writes one message, whatever the verbosity.
func (l *FunLogger) write(level slog.Level, m mark, message string) {
	message = strings.TrimSuffix(message, "\n")
	if l.slog != nil {
		ctx := context.Background()
		if l.slog.Enabled(ctx, level) {
			_ = l.slog.Handle(ctx, slog.NewRecord(time.Now(), level, message, 0))
		}
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writeLine(m, message)
}

// writeLine needs mu.
func (l *FunLogger) writeLine(m mark, message string) {
	sign := m.sign
	if m.colour != "" && l.terminal() {
		sign = m.colour + sign + reset
	}
	before := ""
	if l.drawn {
		before, l.drawn = clearLine, false
	}
	l.print(before + sign + harmless(message) + "\n")
}

// print needs mu. An error of Out is nobody's to report.
func (l *FunLogger) print(s string) {
	_, _ = io.WriteString(l.out(), s)
}

func (l *FunLogger) out() io.Writer {
	if l.Out == nil {
		return os.Stderr
	}
	return l.Out
}

// harmless keeps text from outside from steering the terminal.
func harmless(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (r < ' ' || r >= 0x7f && r < 0xa0) {
			return '?'
		}
		return r
	}, s)
}
