package events

import "bytes"

// Writer splits what is written to it into lines and hands each line's event
// on. It has no limit on the length of a line (an output value makes one line)
// and never returns an error: a writer that fails would stop the pipe from being
// drained, and with it Terraform, which then could not even be interrupted.
//
// It is meant for one writing goroutine.
type Writer struct {
	emit    func(Event)
	partial []byte
}

// NewWriter returns a Writer that calls emit for every line.
func NewWriter(emit func(Event)) *Writer { return &Writer{emit: emit} }

// Write never fails.
func (w *Writer) Write(p []byte) (int, error) {
	rest := p
	for {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			w.partial = append(w.partial, rest...)
			return len(p), nil
		}
		text := rest[:i]
		if len(w.partial) > 0 {
			text = append(w.partial, text...)
			w.partial = nil
		}
		w.line(text)
		rest = rest[i+1:]
	}
}

// Flush hands on a last line without line feed.
func (w *Writer) Flush() {
	text := w.partial
	w.partial = nil
	w.line(text)
}

func (w *Writer) line(text []byte) {
	if len(bytes.TrimSpace(text)) > 0 {
		w.emit(Parse(text))
	}
}
