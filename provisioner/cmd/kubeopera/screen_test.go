package main

import (
	"strconv"
	"strings"
)

// screen is what a terminal shows of what was written to it: just enough of one
// for what the program writes.
type screen struct {
	rows     [][]rune
	row, col int
}

// columns is the width of every terminal here.
const columns = 80

// show gives the screen's text.
func show(output string) string {
	var s screen
	for i := 0; i < len(output); {
		rest := output[i:]
		switch {
		case strings.HasPrefix(rest, "\x1b["):
			end := strings.IndexFunc(rest[2:], func(r rune) bool { return r >= '@' })
			if end < 0 {
				return s.text() + "\n(an unfinished sequence)"
			}
			s.sequence(rest[2:2+end], rest[2+end])
			i += 2 + end + 1
		case rest[0] == '\r':
			s.col = 0
			i++
		case rest[0] == '\n':
			s.row++
			i++
		default:
			r := []rune(rest)[0]
			s.put(r)
			i += len(string(r))
		}
	}
	return s.text()
}

func (s *screen) put(r rune) {
	if s.col == columns { // it wraps
		s.row, s.col = s.row+1, 0
	}
	for len(s.rows) <= s.row {
		s.rows = append(s.rows, nil)
	}
	for len(s.rows[s.row]) <= s.col {
		s.rows[s.row] = append(s.rows[s.row], ' ')
	}
	s.rows[s.row][s.col] = r
	s.col++
}

func (s *screen) sequence(parameter string, command byte) {
	switch command {
	case 'A':
		n, _ := strconv.Atoi(parameter)
		s.row = max(0, s.row-n)
	case 'J':
		if s.row < len(s.rows) {
			s.rows = s.rows[:s.row+1]
			s.rows[s.row] = s.rows[s.row][:min(s.col, len(s.rows[s.row]))]
		}
	case 'm':
	default:
		s.put('?')
	}
}

func (s *screen) text() string {
	lines := make([]string, len(s.rows))
	for i, row := range s.rows {
		lines[i] = strings.TrimRight(string(row), " ")
	}
	return strings.Join(lines, "\n")
}
