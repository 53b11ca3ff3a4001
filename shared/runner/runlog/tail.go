package runlog

import (
	"bytes"
	"compress/gzip"
	"fmt"
)

// tailBytes is how much of the log's end is kept. Even if it did not compress
// at all, it would leave half of a Secret's 1 MiB to the rest.
const tailBytes = 512 << 10

// tail keeps the last lines of a text. It is not safe for concurrent use.
type tail struct {
	lines []string
	size  int
	cut   bool
}

func (t *tail) add(line string) {
	if len(line) > tailBytes {
		line = line[len(line)-tailBytes:]
	}
	t.lines = append(t.lines, line)
	t.size += len(line)
	for t.size > tailBytes {
		t.size -= len(t.lines[0])
		t.lines[0] = ""
		t.lines = t.lines[1:]
		t.cut = true
	}
}

func (t *tail) gzip() ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if t.cut {
		if _, err := z.Write([]byte("(the beginning of this log is cut off)\n")); err != nil {
			return nil, fmt.Errorf("compress the log: %w", err)
		}
	}
	for _, line := range t.lines {
		if _, err := z.Write([]byte(line)); err != nil {
			return nil, fmt.Errorf("compress the log: %w", err)
		}
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("compress the log: %w", err)
	}
	return out.Bytes(), nil
}
