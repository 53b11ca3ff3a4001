package remote

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/kubeopera/platform/shared/redact"
)

const (
	maxLine   = 64 << 10 // bytes after which a line is cut
	tailLines = 20
	tailWidth = 1 << 10 // bytes of a line that the tail keeps
)

// lines makes clean lines of a text: valid UTF-8 without control characters. A
// carriage return, with which progress bars begin anew, ends a line too.
type lines struct {
	sink    io.Writer // gets whole lines; nil for nobody
	err     error     // the sink's first
	partial []byte
	tail    []string // the last lines that are not empty
}

func (l *lines) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		i := bytes.IndexAny(rest, "\r\n")
		if i < 0 {
			l.partial = append(l.partial, rest...)
			break
		}
		l.partial = append(l.partial, rest[:i]...)
		if rest[i] == '\n' || len(l.partial) > 0 {
			l.emit()
		}
		rest = rest[i+1:]
	}
	for len(l.partial) > maxLine {
		rest := l.partial[maxLine:]
		l.partial = l.partial[:maxLine:maxLine]
		l.emit()
		l.partial = append(l.partial, rest...)
	}
	return len(p), nil
}

// close ends a line that has no end.
func (l *lines) close() {
	if len(l.partial) > 0 {
		l.emit()
	}
}

func (l *lines) emit() {
	text := clean(l.partial)
	l.partial = l.partial[:0]
	if l.sink != nil && l.err == nil {
		_, l.err = io.WriteString(l.sink, text+"\n")
	}
	if text == "" {
		return
	}
	if len(l.tail) == tailLines {
		copy(l.tail, l.tail[1:])
		l.tail = l.tail[:tailLines-1]
	}
	l.tail = append(l.tail, strings.ToValidUTF8(text[:min(len(text), tailWidth)], ""))
}

// Sequences by which programs colour their output or move the cursor.
var escapes = regexp.MustCompile(`\x1b(\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])`)

func clean(line []byte) string {
	line = escapes.ReplaceAll(line, nil)
	return strings.Map(func(r rune) rune {
		if r != '\t' && unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(line), "\uFFFD"))
}

// newLines is a writer of masked lines; close it before looking at the lines.
func newLines(masks *redact.Redactor, sink io.Writer) (w io.WriteCloser, l *lines) {
	l = &lines{sink: sink}
	return &maskedLines{Writer: masks.Writer(l), lines: l}, l
}

type maskedLines struct {
	*redact.Writer
	lines *lines
}

func (m *maskedLines) Close() error {
	err := m.Writer.Close()
	m.lines.close()
	return err
}

var trapLine = regexp.MustCompile(`^kubeopera: line ([0-9]{1,9}): command failed with status [0-9]+$`)

// failedLine is where a script's ERR trap says that it failed; 0 if it does not.
func failedLine(tail []string) int {
	for _, line := range slices.Backward(tail) {
		if m := trapLine.FindStringSubmatch(line); m != nil {
			n, err := strconv.Atoi(m[1])
			if err == nil {
				return n
			}
		}
	}
	return 0
}
