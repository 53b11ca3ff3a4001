package remote

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// stream takes apart what a session prints: noise of login scripts, frames, which
// go from the mark to the end of the line, and between frames the data. The mark is
// a random number that no data knows. It has no line feed: the last one of the data
// would be held back as its possible start, until there is more.
type stream struct {
	mark  []byte
	plain bool // one frame, then only data
	frame func(words []string)
	data  func(p []byte)
	fail  func(error) // told once of what cannot be an answer

	held  []byte // what may be the start of a mark, or a frame that is not complete
	seen  int    // frames
	noise int    // bytes before the first
	bad   bool
}

const (
	maxNoise = 1 << 20
	maxFrame = 4 << 10
)

func newStream(mark string) *stream {
	return &stream{
		mark: []byte(mark + " "), frame: func([]string) {}, data: func([]byte) {}, fail: func(error) {},
	}
}

// Write never fails: the session is ended by who is told.
func (s *stream) Write(p []byte) (int, error) {
	if s.bad {
		return len(p), nil
	}
	if s.plain && s.seen > 0 {
		s.data(p)
		return len(p), nil
	}
	s.held = append(s.held, p...)
	for !s.bad {
		at := bytes.Index(s.held, s.mark)
		if at < 0 {
			n := len(s.held) - partial(s.held, s.mark)
			s.pass(n)
			break
		}
		s.pass(at)
		rest := s.held[len(s.mark):]
		line, after, complete := bytes.Cut(rest, []byte("\n"))
		if !complete {
			if len(rest) > maxFrame {
				s.refuse(errors.New("a line of its answer does not end"))
			}
			break
		}
		words := strings.Fields(string(line))
		s.held = after
		s.seen++
		if len(words) == 0 {
			s.refuse(errors.New("its answer is empty"))
			break
		}
		s.frame(words)
		if s.plain {
			if len(s.held) > 0 {
				s.data(s.held)
			}
			s.held = nil
			break
		}
	}
	return len(p), nil
}

// pass lets go of the first n held bytes.
func (s *stream) pass(n int) {
	if n == 0 {
		return
	}
	text := s.held[:n]
	s.held = s.held[n:]
	if s.seen > 0 {
		s.data(text)
	} else if s.noise += n; s.noise > maxNoise {
		s.refuse(errors.New("its login scripts print without end"))
	}
}

func (s *stream) refuse(err error) {
	s.bad, s.held = true, nil
	s.fail(err)
}

// partial is how many bytes at the end of text may be the start of mark.
func partial(text, mark []byte) int {
	for n := min(len(text), len(mark)-1); n > 0; n-- {
		if bytes.HasSuffix(text, mark[:n]) {
			return n
		}
	}
	return 0
}

// runFrame says that there is a run.
type runFrame struct {
	owner string // attempt that began it
	boot  string // boot id when it began
	now   string // boot id now
}

// endFrame says that it is over.
type endFrame struct {
	code   int    // exit status; -1 without a result
	reason string // exited, timeout, stopped; none without a result
	size   int64  // of the log when it ended
}

func parseRun(words []string) (runFrame, error) {
	if len(words) != 4 || words[0] != "run" {
		return runFrame{}, fmt.Errorf("its answer is not of the form run, owner, boot, boot: %q", words)
	}
	return runFrame{owner: words[1], boot: words[2], now: words[3]}, nil
}

func parseEnd(words []string) (endFrame, error) {
	wrong := fmt.Errorf("its answer is not of the form end, status, reason, size: %q", words)
	if len(words) != 4 || words[0] != "end" {
		return endFrame{}, wrong
	}
	f := endFrame{code: -1, reason: words[2]}
	if words[1] == "none" || words[2] == "none" || words[3] == "none" {
		return endFrame{code: -1, reason: "none"}, nil
	}
	var err error
	if f.code, err = strconv.Atoi(words[1]); err != nil || f.code < 0 || f.code > 255 {
		return endFrame{}, wrong
	}
	if f.size, err = strconv.ParseInt(words[3], 10, 64); err != nil || f.size < 0 {
		return endFrame{}, wrong
	}
	return f, nil
}
