package progress

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
	"github.com/kubeopera/platform/shared/api"
)

// interval is the time between two pictures of a run that does not change: time
// goes on and the spinner turns.
const interval = 250 * time.Millisecond

// Live redraws one picture in place on a terminal.
type Live struct {
	out    io.Writer
	screen func() terminal.Screen // asked for each picture: windows change

	mu      sync.Mutex
	history History
	begun   bool
	tick    int
	drawn   []int // columns of the lines on the screen
}

// NewLive makes a picture on out.
func NewLive(out io.Writer, screen func() terminal.Screen) *Live {
	return &Live{out: out, screen: screen}
}

// Seed adds the timeline of a run that has been going for a while.
func (l *Live) Seed(events []api.Event) { l.history.Seed(events) }

// Run draws while watch is busy, which calls show whenever the run has changed. The
// last picture stays.
func (l *Live) Run(watch func(show func(Run)) error) error {
	done := make(chan error, 1)
	go func() { done <- watch(l.show) }()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ticker.C:
			l.mu.Lock()
			l.tick++
			l.draw()
			l.mu.Unlock()
		}
	}
}

func (l *Live) show(run Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun = true
	l.history.Add(run)
	l.draw()
}

// draw puts the picture over the one before.
func (l *Live) draw() {
	if !l.begun {
		return
	}
	screen := l.screen()
	var b strings.Builder
	if up := rows(l.drawn, screen.Width); up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", up)
	}
	// First column, then clear to the end of the screen.
	b.WriteString("\r\x1b[J")
	l.drawn = l.drawn[:0]
	for _, line := range Frame(l.history, time.Now(), screen, l.tick) {
		b.WriteString(line + "\n")
		l.drawn = append(l.drawn, terminal.Columns(withoutColour(line)))
	}
	_, _ = io.WriteString(l.out, b.String()) // a picture that is not seen harms nobody
}

// rows is how many rows of the screen lines take, which wrap once a window has
// become narrower.
func rows(columns []int, width int) int {
	n := 0
	for _, c := range columns {
		n++
		if width > 0 && c > width {
			n += (c - 1) / width
		}
	}
	return n
}

// withoutColour is a line of Frame without its colours, the only sequences in it.
func withoutColour(line string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(line, "\x1b[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		_, line, _ = strings.Cut(after, "m")
	}
}
