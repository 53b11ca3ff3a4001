// Package runlog is a run's log as people read it: one line per event on the
// container's standard output, with the time in front and secrets masked.
//
// Writing a line never blocks. Terraform's output is turned into lines while
// Terraform waits for its pipe to be drained, so a stalled reader of the
// container's log must not stall Terraform, which then could not save its state.
// When the reader falls too far behind, lines are dropped and counted. The last
// part of the log is also kept in memory, to be published with the result.
package runlog

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/kubeopera/platform/shared/redact"
)

// backlog is how many lines may wait for the reader: minutes of a busy apply.
const backlog = 8192

// closeTimeout is how long Close waits for the reader to take what is left.
const closeTimeout = 5 * time.Second

// Log is a run's log. It is safe for concurrent use.
type Log struct {
	redactor *redact.Redactor
	tail     *tail
	done     chan struct{} // closed when the writing goroutine has ended

	mu      sync.Mutex
	lines   chan string
	closed  bool
	dropped int
}

// New starts a log on w. Close ends it.
func New(w io.Writer, redactor *redact.Redactor) *Log {
	l := &Log{
		redactor: redactor,
		tail:     &tail{},
		done:     make(chan struct{}),
		lines:    make(chan string, backlog),
	}
	go func() {
		defer close(l.done)
		for line := range l.lines {
			// There is nowhere to report that the log cannot be written.
			_, _ = io.WriteString(w, line)
		}
	}()
	return l
}

// Printf adds a line, or several if the text holds line feeds.
func (l *Log) Printf(format string, args ...any) {
	// Masked as one text: a secret may run over several lines.
	text := l.redactor.String(fmt.Sprintf(format, args...))
	stamp := time.Now().UTC().Format(time.RFC3339)
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.SplitSeq(strings.TrimRight(text, "\r\n"), "\n") {
		l.add(stamp + " " + printable(line) + "\n")
	}
}

func (l *Log) add(line string) {
	l.tail.add(line)
	if l.closed {
		return
	}
	if l.dropped > 0 {
		note := fmt.Sprintf("(%d lines dropped: the log is read too slowly)\n", l.dropped)
		select {
		case l.lines <- note:
			l.dropped = 0
		default:
		}
	}
	select {
	case l.lines <- line:
	default:
		l.dropped++
	}
}

// printable leaves out control characters, which could rewrite a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if (r < ' ' && r != '\t') || r == 0x7f {
			return -1
		}
		return r
	}, s)
}

// Tail is the last part of the log, compressed.
func (l *Log) Tail() ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tail.gzip()
}

// Close writes out what is waiting, for a bounded time.
func (l *Log) Close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.lines)
	}
	l.mu.Unlock()
	select {
	case <-l.done:
	case <-time.After(closeTimeout):
	}
}
