package terminal_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"

	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":                   "plain",
		"\x1b[31mred\x1b[0m":      " [31mred [0m",
		"a\nb\tc\r":               "a b c ",
		"\u009b2J\u202egnp\u200b": " 2J gnp ",
		"日本 é ✓":                  "日本 é ✓",
	} {
		if got := terminal.Clean(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := terminal.CleanLines("a\n\x07b"); got != "a\n b" {
		t.Errorf("got %q", got)
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in       string
		most     int
		ellipsis string
		want     string
	}{
		{"abcdef", 6, "…", "abcdef"},
		{"abcdef", 5, "…", "abcd…"},
		{"abcdef", 5, "...", "ab..."},
		{"abcdef", 0, "…", "abcdef"},
		{"日本語", 5, "…", "日本…"},
		{"日本語", 4, "…", "日…"},
		{"e\u0301e\u0301e\u0301", 3, "…", "e\u0301e\u0301e\u0301"},
	}
	for _, tt := range tests {
		if got := terminal.Cut(tt.in, tt.most, tt.ellipsis); got != tt.want {
			t.Errorf("%q to %d: got %q, want %q", tt.in, tt.most, got, tt.want)
		}
	}
}

func FuzzCleanWriter(f *testing.F) {
	f.Add([]byte("line 1\nline 2\r\n\tüñ日\x1b[2J\xff"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var whole, pieces bytes.Buffer
		if _, err := terminal.CleanWriter(&whole).Write(text); err != nil {
			t.Fatal(err)
		}
		w := terminal.CleanWriter(&pieces)
		if _, err := io.CopyBuffer(struct{ io.Writer }{w}, iotest.OneByteReader(bytes.NewReader(text)), make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if whole.String() != pieces.String() {
			t.Errorf("whole %q, in pieces %q", whole.String(), pieces.String())
		}
		if i := strings.IndexFunc(whole.String(), func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }); i >= 0 {
			t.Errorf("%q has a control character", whole.String())
		}
	})
}
