package node

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// read gives what a request for the log would.
func read(t *testing.T, l *logFile, options logOptions) string {
	t.Helper()
	var out strings.Builder
	if err := l.stream(t.Context(), &out, func() {}, options); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func newLog(t *testing.T, maxBytes int64) *logFile {
	t.Helper()
	l, err := newLogFile(t.TempDir(), "0", maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l
}

func TestLogKeepsLongAndUnfinishedLines(t *testing.T) {
	t.Parallel()
	l := newLog(t, 1<<20)
	long := strings.Repeat("x", 3*maxLogLine+5)
	l.copy("stdout", io.NopCloser(strings.NewReader("first\n"+long+"\n\nlast")))
	if diff := cmp.Diff("first\n"+long+"\n\nlast\n", read(t, l, logOptions{tail: -1})); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if got := read(t, l, logOptions{tail: 3}); got != long+"\n\nlast\n" {
		t.Errorf("three lines are %d bytes, want the long line whole", len(got))
	}
}

func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	const limit = 4 << 10
	l := newLog(t, limit)
	for i := range 1000 {
		l.add("stdout", "F", fmt.Appendf(nil, "line %d", i))
	}
	var size int64
	for _, path := range []string{l.path, l.before()} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size > 2*limit {
		t.Errorf("log takes %d bytes, want at most %d", size, 2*limit)
	}
	lines := strings.Split(strings.TrimSpace(read(t, l, logOptions{tail: -1})), "\n")
	for i, line := range lines {
		if want := fmt.Sprintf("line %d", 1000-len(lines)+i); line != want {
			t.Fatalf("line %d from the end is %q, want %q", len(lines)-i, line, want)
		}
	}
	if len(lines) < 40 {
		t.Errorf("only %d lines are left", len(lines))
	}
}

func TestLogFollowedAcrossRotations(t *testing.T) {
	t.Parallel()
	l := newLog(t, 2<<10)
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := l.stream(t.Context(), write, func() {}, logOptions{follow: true, tail: -1})
		_ = write.Close()
		done <- err
	}()
	var want strings.Builder
	buffer := make([]byte, 64)
	for i := range 300 {
		line := fmt.Sprintf("line %03d", i)
		want.WriteString(line + "\n")
		l.add("stdout", "F", []byte(line))
		// The reader keeps up, as the bound is on what is kept for those who do not.
		n, err := io.ReadFull(read, buffer[:len(line)+1])
		if err != nil || string(buffer[:n]) != line+"\n" {
			t.Fatalf("read %q (%v), want %q", buffer[:n], err, line)
		}
	}
	l.close()
	if rest, err := io.ReadAll(read); len(rest) > 0 || err != nil {
		t.Errorf("after the end: %q, %v", rest, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if l.rotated < 3 {
		t.Errorf("rotated %d times: the test does not test what it says", l.rotated)
	}
}

func TestLogFollowerCanGo(t *testing.T) {
	t.Parallel()
	l := newLog(t, 1<<20)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.stream(ctx, io.Discard, func() {}, logOptions{follow: true, tail: -1}) }()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestLastLines(t *testing.T) {
	t.Parallel()
	l := newLog(t, 1<<20)
	for i := range 200 {
		l.add("stderr", "F", fmt.Appendf(nil, "line %d", i))
	}
	if got := l.lastLines(2, 1000); got != "line 198\nline 199\n" {
		t.Errorf("last lines are %q", got)
	}
	if got := l.lastLines(80, 5); got != " 199\n" {
		t.Errorf("last bytes are %q", got)
	}
}

func TestParseLogOptions(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := []struct {
		name, query string
		want        logOptions
		wantErr     string
	}{
		{name: "nothing", want: logOptions{tail: -1}},
		{name: "all", query: "follow=true&timestamps=true&tailLines=7&limitBytes=9&sinceSeconds=5", want: logOptions{
			follow: true, timestamps: true, tail: 7, limit: 9, since: now.Add(-5 * time.Second),
		}},
		{name: "no lines is not all lines", query: "tailLines=0", want: logOptions{}},
		{name: "time", query: "sinceTime=2026-01-02T03:04:00Z", want: logOptions{tail: -1, since: now.Add(-5 * time.Second)}},
		{name: "negative", query: "tailLines=-1", wantErr: "tailLines"},
		{name: "no bytes", query: "limitBytes=0", wantErr: "limitBytes"},
		{name: "not a time", query: "sinceTime=yesterday", wantErr: "sinceTime"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			query, err := url.ParseQuery(tt.query)
			if err != nil {
				t.Fatal(err)
			}
			got, err := parseLogOptions(query, now)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("error is %v, want one about %s", err, tt.wantErr)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("options are %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func FuzzParseEntry(f *testing.F) {
	for _, seed := range []string{"", "a b", "2026-01-02T03:04:05.000000000Z stdout F text", "x stderr P ", "   "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		e, ok := parseEntry(line)
		if ok && !strings.HasSuffix(line, " "+e.text) {
			t.Errorf("the text of %q is %q", line, e.text)
		}
	})
}
