// Package terminal knows what the program's streams can show: whether they are
// terminals, how wide, with which colours and characters; and it keeps text from
// outside from steering a terminal.
package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Terminal is the streams and surroundings of a program.
type Terminal struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
}

// IsTerminal is true for a stream that is one.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Interactive is true if somebody sits in front of it and can answer.
func (t Terminal) Interactive() bool { return IsTerminal(t.In) && IsTerminal(t.Err) }

// Screen is what can be drawn on a stream.
type Screen struct {
	Width, Height int // in columns and lines; 0 if unknown
	Colour        bool
	Unicode       bool
}

// Screen is what can be drawn on Err, and whether anything can: a dumb terminal
// cannot move its cursor.
func (t Terminal) Screen() (Screen, bool) {
	if !IsTerminal(t.Err) || t.Getenv("TERM") == "dumb" {
		return Screen{}, false
	}
	s := Screen{Colour: t.Colours(t.Err), Unicode: utf8Locale(t.Getenv)}
	if width, height, err := term.GetSize(int(t.Err.(*os.File).Fd())); err == nil {
		s.Width, s.Height = width, height
	}
	return s, true
}

// Colours is true if what is written to a stream may be coloured.
func (t Terminal) Colours(stream any) bool {
	return IsTerminal(stream) && t.Getenv("NO_COLOR") == "" && t.Getenv("TERM") != "dumb"
}

// utf8Locale follows POSIX: the first that is set counts.
func utf8Locale(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// ErrNobody means that there is no terminal to ask a question on.
var ErrNobody = errors.New("not on a terminal")

// Ask prints a question and reads one line in answer, or until ctx ends.
func (t Terminal) Ask(ctx context.Context, question string) (string, error) {
	if !t.Interactive() {
		return "", ErrNobody
	}
	if _, err := fmt.Fprint(t.Err, question); err != nil {
		return "", err
	}
	type answer struct {
		line string
		err  error
	}
	// A read of a terminal cannot be interrupted: when ctx ends, the program ends
	// with it.
	answers := make(chan answer, 1)
	go func() {
		line, err := bufio.NewReader(t.In).ReadString('\n')
		answers <- answer{line, err}
	}()
	select {
	case <-ctx.Done():
		_, _ = fmt.Fprintln(t.Err)
		return "", ctx.Err()
	case a := <-answers:
		if a.err != nil && !errors.Is(a.err, io.EOF) {
			return "", fmt.Errorf("read the answer: %w", a.err)
		}
		return strings.TrimSpace(a.line), nil
	}
}
