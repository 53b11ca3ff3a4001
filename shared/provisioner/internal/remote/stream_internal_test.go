package remote

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/skip"
)

// events is what a stream tells of input that comes in pieces.
func events(plain bool, pieces ...[]byte) (out []string) {
	s := newStream("MARK")
	s.plain = plain
	add := func(kind, text string) {
		if n := len(out) - 1; n >= 0 && kind == "data" && strings.HasPrefix(out[n], "data ") {
			out[n] += text
			return
		}
		out = append(out, kind+" "+text)
	}
	s.frame = func(words []string) { add("frame", strings.Join(words, " ")) }
	s.data = func(p []byte) { add("data", string(p)) }
	s.fail = func(err error) { add("fail", err.Error()) }
	for _, p := range pieces {
		_, _ = s.Write(p)
	}
	return out
}

func TestStream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plain bool
		in    []string
		want  []string
	}{
		"all":          {in: []string{"motd\nMARK run a b b\nlog\nMARK end 0 exited 4\n"}, want: []string{"frame run a b b", "data log\n", "frame end 0 exited 4"}},
		"torn":         {in: []string{"MA", "RK run\nloMA", "RM", "ARK", " end\n"}, want: []string{"frame run", "data loMAR", "frame end"}},
		"a line waits": {in: []string{"MARK run\n", "a line\n"}, want: []string{"frame run", "data a line\n"}},
		"plain":        {plain: true, in: []string{"xMARK ready\nout MARK no\n", "MARK"}, want: []string{"frame ready", "data out MARK no\nMARK"}},
		"empty":        {in: []string{"MARK \nx"}, want: []string{"fail its answer is empty"}},
		"no end":       {in: []string{"MARK ", strings.Repeat("x", 5000), "y"}, want: []string{"fail a line of its answer does not end"}},
		"only noise":   {in: []string{strings.Repeat("x", 2<<20), "MARK run\n"}, want: []string{"fail its login scripts print without end"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var pieces [][]byte
			for _, p := range c.in {
				pieces = append(pieces, []byte(p))
			}
			if diff := cmp.Diff(c.want, events(c.plain, pieces...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzStream holds what comes back from a host, whoever wrote it: how it is cut
// into pieces changes nothing, data between frames is whole, and no frame makes the
// parsers fail in another way than by an error.
func FuzzStream(f *testing.F) {
	f.Add([]byte("noise MARK run a b c\nlog\nMAMARK end 0 exited 4\n"), 3, false)
	f.Add([]byte("MARK end none none 0\nMARK "), 1, true)
	f.Add([]byte("MARK run x y\nMARK end 256 exited -1\n"), 7, false)
	f.Fuzz(func(t *testing.T, in []byte, size int, plain bool) {
		whole := events(plain, in)
		size = max(1, size%64)
		var pieces [][]byte
		for rest := in; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			pieces = append(pieces, bytes.Clone(rest[:min(size, len(rest))]))
		}
		if diff := cmp.Diff(whole, events(plain, pieces...)); diff != "" && len(in) < maxFrame {
			t.Error(diff)
		}
		for _, e := range whole {
			words := strings.Fields(strings.TrimPrefix(e, "frame "))
			if run, err := parseRun(words); err == nil && (run.owner == "" || run.boot == "" || run.now == "") {
				t.Errorf("%q is %v", words, run)
			}
			if end, err := parseEnd(words); err == nil && (end.code < -1 || end.code > 255 || end.size < 0) {
				t.Errorf("%q is %v", words, end)
			}
		}
		data := bytes.ReplaceAll(in, []byte("MARK "), nil)
		for bytes.Contains(data, []byte("MARK ")) {
			data = bytes.ReplaceAll(data, []byte("MARK "), nil)
		}
		framed := append(append([]byte("MARK run\n"), data...), "MARK end\n"...)
		got := events(false, framed)
		want := []string{"frame run", "data " + string(data), "frame end"}
		if len(data) == 0 {
			want = []string{"frame run", "frame end"}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// FuzzLines holds what is made of output: whole lines of clean text, and nothing
// that a terminal or a JSON document would take for anything else.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\r\nb\rc\x1b[31mred\x1b[0m\x00\xff\n"), 2)
	f.Fuzz(func(t *testing.T, in []byte, size int) {
		var sink bytes.Buffer
		l := &lines{sink: &sink}
		size = max(1, size%64)
		for rest := in; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			_, _ = l.Write(rest[:min(size, len(rest))])
		}
		l.close()
		text := sink.String()
		if text != "" && !strings.HasSuffix(text, "\n") {
			t.Errorf("%q does not end", text)
		}
		for line := range strings.SplitSeq(text, "\n") {
			if clean([]byte(line)) != line {
				t.Errorf("%q is not clean", line)
			}
		}
		if len(l.tail) > tailLines {
			t.Errorf("%d lines of tail", len(l.tail))
		}
	})
}

func TestProgramsAreShell(t *testing.T) {
	t.Parallel()
	// What stands in single quotes is the same for every login shell.
	for part := range strings.SplitSeq(launch(4711), "'") {
		if strings.ContainsAny(part, "\n\\!") {
			t.Errorf("%q means something else to some shell", part)
		}
	}
	check := func(t *testing.T, name string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
			t.Errorf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	check(t, "sh", "-n", "session.sh")
	check(t, "bash", "-n", "supervise.bash")
	t.Run("shellcheck", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("shellcheck"); err != nil {
			skip.Missing(t, skip.Shellcheck, err.Error())
		}
		// 2154: what the client puts in front is assigned nowhere.
		check(t, "shellcheck", "-e", "2154", "session.sh", "supervise.bash")
	})
}
