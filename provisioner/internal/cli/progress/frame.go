package progress

import (
	"strings"
	"time"

	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
	"github.com/kubeopera/platform/shared/api"
)

// glyphs are the marks of a picture, in one column each.
type glyphs struct {
	done, failed, stopped, waiting string
	spinner                        []string
	full, empty, ellipsis          string
}

var (
	unicodeGlyphs = glyphs{"✓", "✗", "■", "·", []string{"⠋", "⠙", "⠸", "⠴", "⠦", "⠇"}, "█", "░", "…"}
	asciiGlyphs   = glyphs{"+", "x", "-", ".", []string{"|", "/", "-", `\`}, "#", ".", "..."}
)

// colour is a parameter of SGR; 0 for none.
type colour string

const (
	plain  colour = ""
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
	cyan   colour = "36"
	dim    colour = "2"
	bold   colour = "1"
)

// painter puts lines together of parts with colours, cut to the screen's width.
type painter struct {
	screen terminal.Screen
	marks  glyphs
	lines  []string
}

type part struct {
	text   string
	colour colour
}

func (p *painter) line(parts ...part) {
	var b strings.Builder
	// The last column stays free: some terminals wrap when it is written to.
	left := p.screen.Width - 1
	for _, part := range parts {
		text := terminal.Clean(part.text)
		if p.screen.Width > 0 {
			if left <= 0 {
				break
			}
			text = terminal.Cut(text, left, p.marks.ellipsis)
			left -= terminal.Columns(text)
		}
		if part.colour != plain && p.screen.Colour && strings.TrimSpace(text) != "" {
			text = "\x1b[" + string(part.colour) + "m" + text + "\x1b[0m"
		}
		b.WriteString(text)
	}
	p.lines = append(p.lines, strings.TrimRight(b.String(), " "))
}

// Frame is the picture of a run: lines that fit the screen. tick turns the spinner.
func Frame(h History, now time.Time, screen terminal.Screen, tick int) []string {
	p := painter{screen: screen, marks: asciiGlyphs}
	if screen.Unicode {
		p.marks = unicodeGlyphs
	}
	run := h.Run
	p.line(part{run.Title, bold}, part{"  " + strings.Join(append(run.About, ""), "  "), plain}, part{run.ID, dim})
	steps, nodes, made := h.Steps, run.Nodes, run.Made
	// Heading, last line and the cursor's line are not for steps, nodes and what has
	// been made; what is going on is worth more than what is over.
	if room := screen.Height - 3; screen.Height > 0 && len(steps)+len(nodes)+len(made) > room {
		keep := max(room-len(nodes)-len(made), 1)
		steps = steps[max(0, len(steps)-keep):]
		nodes = nodes[:min(len(nodes), max(0, room-len(steps)))]
		made = made[:min(len(made), max(0, room-len(steps)-len(nodes)))]
	}
	widest := 0
	for _, s := range steps {
		widest = max(widest, len(s.Name))
	}
	for i, s := range steps {
		p.step(s, widest, run, now, tick, i == len(steps)-1)
	}
	p.nodes(nodes)
	p.made(made)
	p.last(run, now)
	return p.lines
}

func (p *painter) step(s Step, widest int, run Run, now time.Time, tick int, last bool) {
	mark, end := part{p.marks.done, green}, s.Ended
	switch {
	case s.Ended.IsZero():
		mark, end = part{p.marks.spinner[tick%len(p.marks.spinner)], cyan}, now
	case last && run.Status == api.StatusFailed:
		mark = part{p.marks.failed, red}
	case last && run.Status == api.StatusCancelled:
		mark = part{p.marks.stopped, yellow}
	}
	name := s.Name + strings.Repeat(" ", widest-len(s.Name))
	parts := []part{{"  ", plain}, mark, {" " + name + "  ", plain}, {pad(Duration(end.Sub(s.Began)), 6), dim}}
	if done := counts(run); last && s.Ended.IsZero() && done != "" {
		parts = append(parts, part{"  " + p.bar(*run.Progress) + " " + done, plain}, part{"  " + run.Progress.Current, dim})
	}
	p.line(parts...)
}

// bar has twenty columns.
func (p *painter) bar(progress api.Progress) string {
	const columns = 20
	full := min(max(columns*progress.Done/progress.Total, 0), columns)
	return strings.Repeat(p.marks.full, full) + strings.Repeat(p.marks.empty, columns-full)
}

func (p *painter) nodes(nodes []api.Node) {
	widest := 0
	for _, n := range nodes {
		widest = max(widest, terminal.Columns(terminal.Clean(n.Name)))
	}
	for _, n := range nodes {
		mark := part{p.marks.waiting, dim}
		switch n.State {
		case api.NodeJoined:
			mark = part{p.marks.done, green}
		case api.NodeFailed:
			mark = part{p.marks.failed, red}
		case api.NodeWorking, api.NodeJoining:
			mark = part{p.marks.waiting, cyan}
		case api.NodeReset:
			mark = part{p.marks.stopped, green}
		case api.NodeWaiting:
		}
		name := terminal.Clean(n.Name)
		p.line(part{"    ", plain}, mark, part{" " + name + strings.Repeat(" ", widest-terminal.Columns(name)) + "  " + pad(string(n.State), 7), plain}, part{"  " + n.Message, dim})
	}
}

func (p *painter) made(made []Fact) {
	widest := 0
	for _, f := range made {
		widest = max(widest, terminal.Columns(terminal.Clean(f.Name)))
	}
	for _, f := range made {
		name := terminal.Clean(f.Name)
		p.line(part{"      " + name + strings.Repeat(" ", widest-terminal.Columns(name)) + "  ", plain}, part{f.Value, dim})
	}
}

// last is what the run says, and for how long it has been going.
func (p *painter) last(run Run, now time.Time) {
	status := part{words(string(run.Status)), cyan}
	switch run.Status {
	case api.StatusSucceeded:
		status.colour = green
	case api.StatusFailed:
		status.colour = red
	case api.StatusCancelled, api.StatusCancelling:
		status.colour = yellow
	case api.StatusQueued, api.StatusRunning:
	}
	message := run.Message
	if message != "" {
		message = ": " + message
	}
	if run.QueuePosition > 0 {
		message = ", " + place(run) + message
	}
	p.line(part{Elapsed(run.RunStatus, now) + "  ", dim}, status, part{message, plain})
}

func pad(s string, columns int) string {
	return s + strings.Repeat(" ", max(0, columns-len(s)))
}
