package runlog

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/kubeopera/platform/shared/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func unzip(t *testing.T, l *Log) string {
	t.Helper()
	data, err := l.Tail()
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestLog_writes_masked_lines_with_the_time(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := New(&out, redact.New("canary-secret", "line-one\nline-two"))
		l.Printf("%s is %s", "password", "canary-secret")
		l.Printf("several\nlines\x1b[31m\n")
		l.Printf("torn: line-one\nline-two.")
		l.Close()
		want := "2000-01-01T00:00:00Z password is [redacted]\n" +
			"2000-01-01T00:00:00Z several\n" +
			"2000-01-01T00:00:00Z lines[31m\n" +
			"2000-01-01T00:00:00Z torn: [redacted].\n"
		if got := out.String(); got != want {
			t.Errorf("got:\n%swant:\n%s", got, want)
		}
		if got := unzip(t, l); got != want {
			t.Errorf("tail:\n%swant:\n%s", got, want)
		}
	})
}

// stalled is a reader that takes nothing until it is released.
type stalled struct {
	release chan struct{}
	got     bytes.Buffer
}

// Write waits.
func (s *stalled) Write(p []byte) (int, error) {
	<-s.release
	return s.got.Write(p)
}

func TestLog_never_waits_for_its_reader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &stalled{release: make(chan struct{})}
		l := New(w, redact.New())
		start := time.Now()
		for i := range backlog + 100 {
			l.Printf("line %d", i)
		}
		if waited := time.Since(start); waited > 0 {
			t.Errorf("waited %s", waited)
		}
		close(w.release)
		synctest.Wait()
		l.Printf("last")
		l.Close()
		got := w.got.String()
		if !strings.Contains(got, "lines dropped") || !strings.HasSuffix(got, "last\n") {
			t.Errorf("the log ends with %q", got[max(0, len(got)-200):])
		}
		// The tail is not the reader's business.
		if tail := unzip(t, l); !strings.Contains(tail, fmt.Sprintf("line %d\n", backlog+99)) {
			t.Error("the tail lacks lines")
		}
	})
}

func TestLog_Close_does_not_wait_for_ever(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &stalled{release: make(chan struct{})}
		l := New(w, redact.New())
		l.Printf("line")
		start := time.Now()
		l.Close()
		if waited := time.Since(start); waited != closeTimeout {
			t.Errorf("waited %s", waited)
		}
		close(w.release)
		synctest.Wait()
	})
}

func TestTail_keeps_the_end(t *testing.T) {
	t.Parallel()
	l := New(io.Discard, redact.New())
	defer l.Close()
	line := strings.Repeat("x", 1000)
	for i := range 2 * tailBytes / 1000 {
		l.Printf("%d %s", i, line)
	}
	l.Printf("last")
	text := unzip(t, l)
	if len(text) > tailBytes+100 || !strings.HasPrefix(text, "(the beginning") || !strings.HasSuffix(text, "last\n") {
		t.Errorf("%d bytes, from %q", len(text), text[:60])
	}
}
