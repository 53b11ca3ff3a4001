package terminal

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Clean is text from outside on one line, without what would steer a terminal:
// control and formatting characters become spaces.
func Clean(s string) string { return strings.Map(printable, s) }

// CleanText is Clean for a line that may have tabs.
func CleanText(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return printable(r)
	}, s)
}

// CleanLines is Clean for text of several lines.
func CleanLines(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return printable(r)
	}, s)
}

func printable(r rune) rune {
	// Cf has what turns the direction of writing around.
	if unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
		return ' '
	}
	return r
}

// CleanWriter passes text on to w without the control characters that would steer
// a terminal, but for line ends and tabs. Characters may come in pieces.
func CleanWriter(w io.Writer) io.Writer { return &cleanWriter{out: w} }

type cleanWriter struct {
	out  io.Writer
	held []byte // the begin of a character
}

func (c *cleanWriter) Write(p []byte) (int, error) {
	text := append(c.held, p...)
	whole := len(text)
	// A character has at most utf8.UTFMax bytes.
	for i := max(0, len(text)-utf8.UTFMax+1); i < len(text); i++ {
		if utf8.RuneStart(text[i]) && !utf8.FullRune(text[i:]) {
			whole = i
			break
		}
	}
	clean := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if r == '\r' {
			return -1
		}
		return printable(r)
	}, string(text[:whole]))
	c.held = append([]byte(nil), text[whole:]...)
	if _, err := io.WriteString(c.out, clean); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Columns is how many columns a clean text takes.
func Columns(s string) int {
	n := 0
	for _, r := range s {
		n += columns(r)
	}
	return n
}

func columns(r rune) int {
	if unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	default:
		return 1
	}
}

// Cut is a clean text cut to so many columns; a width of 0 cuts nothing.
func Cut(s string, most int, ellipsis string) string {
	if most <= 0 || Columns(s) <= most {
		return s
	}
	if Columns(ellipsis) > most {
		ellipsis = "" // there is no room for it
	}
	most -= Columns(ellipsis)
	n := 0
	for i, r := range s {
		if n += columns(r); n > most {
			return s[:i] + ellipsis
		}
	}
	return s
}
