package progress

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
	"github.com/kubeopera/platform/shared/api"
)

// quiet is the time between two lines that differ in counts or words only.
const quiet = 10 * time.Second

// Lines writes a line for what changes, for logs and pipes.
type Lines struct {
	out  io.Writer
	last Run
	at   time.Time // of the last line
}

// NewLines writes to out.
func NewLines(out io.Writer) *Lines { return &Lines{out: out} }

// Seed is not for lines: they begin with what is.
func (l *Lines) Seed([]api.Event) {}

// Run writes while watch is busy, which calls show whenever the run has changed.
func (l *Lines) Run(watch func(show func(Run)) error) error { return watch(l.show) }

func (l *Lines) show(run Run) {
	now := time.Now()
	for _, n := range run.Nodes {
		if !slices.Contains(l.last.Nodes, n) {
			l.write(run, now, fmt.Sprintf("node %s: %s", n.Name, joined(string(n.State), n.Message)))
		}
	}
	for _, f := range run.Made {
		if !slices.Contains(l.last.Made, f) {
			l.write(run, now, f.Name+": "+f.Value)
		}
	}
	step := run.Status != l.last.Status || run.Phase != l.last.Phase || run.QueuePosition != l.last.QueuePosition
	if step || now.Sub(l.at) >= quiet {
		l.write(run, now, strings.Join(said(run), "  "))
		l.at = now
	}
	l.last = run
}

// said is what a run says of itself.
func said(run Run) []string {
	parts := []string{words(string(run.Status))}
	if phase := words(string(run.Phase)); phase != "" && !Final(run.Status) {
		parts[0] += ", " + phase
	}
	if run.QueuePosition > 0 {
		parts = append(parts, place(run))
	}
	if done := counts(run); done != "" {
		parts = append(parts, done)
		if run.Progress.Current != "" {
			parts = append(parts, run.Progress.Current)
		}
	}
	if run.Message != "" {
		parts = append(parts, run.Message)
	}
	return parts
}

func (l *Lines) write(run Run, now time.Time, text string) {
	_, _ = fmt.Fprintf(l.out, "%6s  %s\n", Elapsed(run.RunStatus, now), terminal.Clean(text)) // as with a picture
}

func joined(state, message string) string {
	if message == "" {
		return state
	}
	return state + ", " + message
}
