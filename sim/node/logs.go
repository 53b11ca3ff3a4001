package node

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	// maxLogLine is where runtimes cut a line into parts.
	maxLogLine = 16 << 10
	// logTime is the time format of a runtime's log, with all digits.
	logTime = "2006-01-02T15:04:05.000000000Z07:00"
)

// logFile is the log of one run of a container, in the format that runtimes
// write: time, stream, F for a whole line or the end of one, P for a part, text.
// It is a current file and, once that has grown too large, the one before.
type logFile struct {
	path string
	max  int64

	mu      sync.Mutex
	file    *os.File
	size    int64
	rotated int           // how often
	closed  bool          // nothing will be added
	changed chan struct{} // closed and replaced at each change
}

func newLogFile(dir, name string, maxBytes int64) (*logFile, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, name+".log")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &logFile{path: path, max: maxBytes, file: f, changed: make(chan struct{})}, nil
}

func (l *logFile) before() string { return l.path + ".1" }

// copy adds a stream to the log until the stream ends, and closes it.
func (l *logFile) copy(stream string, from io.ReadCloser) {
	defer func() { _ = from.Close() }()
	reader := bufio.NewReaderSize(from, maxLogLine)
	for {
		line, err := reader.ReadSlice('\n')
		if len(line) > 0 {
			tag := "F"
			if text, whole := bytes.CutSuffix(line, []byte("\n")); whole {
				line = text
			} else if errors.Is(err, bufio.ErrBufferFull) {
				tag = "P"
			}
			l.add(stream, tag, line)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// add appends one entry. A log that cannot be written is cut short: the
// container goes on, as it would under a kubelet with a full disk.
func (l *logFile) add(stream, tag string, text []byte) {
	entry := make([]byte, 0, len(text)+len(logTime)+16)
	entry = time.Now().UTC().AppendFormat(entry, logTime)
	entry = append(entry, ' ')
	entry = append(entry, stream...)
	entry = append(entry, ' ')
	entry = append(entry, tag...)
	entry = append(entry, ' ')
	entry = append(entry, text...)
	entry = append(entry, '\n')

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if l.size > 0 && l.size+int64(len(entry)) > l.max {
		l.rotate()
	}
	n, _ := l.file.Write(entry)
	l.size += int64(n)
	l.announce()
}

// rotate begins a new file. The caller holds mu.
func (l *logFile) rotate() {
	if os.Rename(l.path, l.before()) != nil {
		return
	}
	next, err := os.OpenFile(l.path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_ = l.file.Close()
	l.file, l.size = next, 0
	l.rotated++
}

// announce wakes those who follow. The caller holds mu.
func (l *logFile) announce() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	_ = l.file.Close()
	l.announce()
}

// logOptions are those of a request for a log.
type logOptions struct {
	follow     bool
	timestamps bool
	tail       int // lines; -1 for all
	since      time.Time
	limit      int64 // bytes; 0 for all
}

// entry is one line of the file, taken apart.
type entry struct {
	stamp string
	part  bool
	text  string
}

// parseEntry tells whether a line is whole and in the right format.
func parseEntry(line string) (entry, bool) {
	stamp, rest, ok1 := strings.Cut(line, " ")
	_, rest, ok2 := strings.Cut(rest, " ")
	tag, text, ok3 := strings.Cut(rest, " ")
	return entry{stamp: stamp, part: tag == "P", text: text}, ok1 && ok2 && ok3
}

func (e entry) write(to io.Writer, timestamps bool) error {
	var line strings.Builder
	if timestamps {
		line.WriteString(e.stamp + " ")
	}
	line.WriteString(e.text)
	if !e.part {
		line.WriteByte('\n')
	}
	_, err := io.WriteString(to, line.String())
	return err
}

// errLimit ends a request that wanted so many bytes and no more.
var errLimit = errors.New("limit reached")

// limitedWriter passes on so many bytes.
type limitedWriter struct {
	to   io.Writer
	left int64
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	if int64(len(p)) >= w.left {
		n, err := w.to.Write(p[:w.left])
		w.left -= int64(n)
		return n, errors.Join(errLimit, err)
	}
	n, err := w.to.Write(p)
	w.left -= int64(n)
	return n, err
}

// stream writes the log to a reader who may follow it. flush is called when
// there is nothing more for now.
func (l *logFile) stream(ctx context.Context, to io.Writer, flush func(), options logOptions) error {
	if options.limit > 0 {
		to = &limitedWriter{to: to, left: options.limit}
	}
	err := l.streamAll(ctx, to, flush, options)
	if errors.Is(err, errLimit) {
		return nil
	}
	return err
}

func (l *logFile) streamAll(ctx context.Context, to io.Writer, flush func(), options logOptions) error {
	l.mu.Lock()
	generation, changed, closed := l.rotated, l.changed, l.closed
	var before []byte
	if generation > 0 {
		before, _ = os.ReadFile(l.before())
	}
	current, err := os.Open(l.path)
	l.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() { _ = current.Close() }()
	reader := bufio.NewReader(current)

	entries := parseAll(before, options.since)
	more, rest := readEntries(reader, "", options.since)
	for _, e := range lastOf(append(entries, more...), options.tail) {
		if err := e.write(to, options.timestamps); err != nil {
			return err
		}
	}
	flush()
	for options.follow {
		if !closed {
			select {
			case <-ctx.Done():
				return nil
			case <-changed:
			}
		}
		l.mu.Lock()
		now := l.rotated
		changed = l.changed
		wasClosed := closed
		closed = l.closed
		l.mu.Unlock()
		more, rest = readEntries(reader, rest, options.since)
		for _, e := range more {
			if err := e.write(to, options.timestamps); err != nil {
				return err
			}
		}
		flush()
		if now != generation {
			// What was read last has been renamed, and is at its end.
			generation = now
			next, err := os.Open(l.path)
			if err != nil {
				return err
			}
			_ = current.Close()
			current, rest = next, ""
			reader.Reset(current)
			closed = false // look once more, at the new file
			changed = closedChannel()
			continue
		}
		if closed && wasClosed {
			return nil
		}
	}
	return nil
}

func closedChannel() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// readEntries reads what is there now; rest is the beginning of a line whose end
// is not.
func readEntries(reader *bufio.Reader, rest string, since time.Time) ([]entry, string) {
	var entries []entry
	for {
		line, err := reader.ReadString('\n')
		rest += line
		if err != nil {
			return entries, rest
		}
		if e, ok := parseEntry(strings.TrimSuffix(rest, "\n")); ok && !e.olderThan(since) {
			entries = append(entries, e)
		}
		rest = ""
	}
}

func parseAll(content []byte, since time.Time) []entry {
	entries, _ := readEntries(bufio.NewReader(bytes.NewReader(content)), "", since)
	return entries
}

func (e entry) olderThan(since time.Time) bool {
	if since.IsZero() {
		return false
	}
	stamp, err := time.Parse(logTime, e.stamp)
	return err == nil && stamp.Before(since)
}

// lastOf gives the last lines; parts count with the line that they belong to.
func lastOf(entries []entry, lines int) []entry {
	if lines < 0 {
		return entries
	}
	first := len(entries)
	for first > 0 {
		if !entries[first-1].part {
			if lines == 0 {
				break
			}
			lines--
		}
		first--
	}
	return entries[first:]
}

// lastLines is the end of the log: so many lines, in so many bytes.
func (l *logFile) lastLines(lines, size int) string {
	var out strings.Builder
	_ = l.stream(context.Background(), &out, func() {}, logOptions{tail: lines})
	text := out.String()
	if len(text) > size {
		text = text[len(text)-size:]
	}
	return text
}
