package redact

import (
	"io"
	"sync"
)

// Writer masks secrets in what is written to it. It holds back only what may
// be the start of a secret, so ordinary text passes at once, and how the text
// is cut into writes does not change what comes out. Secrets that overlap or
// touch become one Marker. It is safe for concurrent use.
type Writer struct {
	auto *automaton
	w    io.Writer

	mu     sync.Mutex
	at     int    // the automaton's node
	held   []byte // the last bytes read, an end of the text that at stands for
	masked []bool // for each held byte, whether it belongs to a secret
	inMask bool   // whether the last byte that left was masked
	out    []byte // what one call passes on, kept to reuse its memory
	err    error  // the first error of w; there is no going on after it
}

// NewWriter masks secrets in what passes through to w.
func NewWriter(w io.Writer, secrets ...string) *Writer {
	return New(secrets...).Writer(w)
}

// Write passes p on with secrets masked. It fails only if the writer below does.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	for _, b := range p {
		w.at = w.auto.next(w.at, b)
		if w.at == 0 && len(w.held) == 0 { // the common case
			w.release(b, false)
			continue
		}
		w.held, w.masked = append(w.held, b), append(w.masked, false)
		n := w.auto.nodes[w.at]
		for i := max(0, len(w.masked)-n.match); i < len(w.masked); i++ {
			w.masked[i] = true
		}
		w.releaseHeld(len(w.held) - n.depth)
	}
	return len(p), w.pass()
}

// Flush flushes the writer below if it can. What may be the start of a secret
// stays held back: its rest would be unrecognisable. Close lets go of it.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if f, ok := w.w.(interface{ Flush() error }); ok {
		w.err = f.Flush()
	}
	return w.err
}

// Close ends the text: what is still held back is passed on, masked if it is
// MinLength bytes or more of a secret's start. The writer below is not closed.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if w.auto.nodes[w.at].depth >= MinLength {
		for i := range w.masked {
			w.masked[i] = true
		}
	}
	w.releaseHeld(len(w.held))
	w.at, w.inMask = 0, false
	return w.pass()
}

// releaseHeld lets go of the first n held bytes, and of those after them that
// are masked: nothing can unmask them.
func (w *Writer) releaseHeld(n int) {
	n = max(n, 0)
	for n < len(w.masked) && w.masked[n] {
		n++
	}
	for i := range n {
		w.release(w.held[i], w.masked[i])
	}
	w.held = w.held[:copy(w.held, w.held[n:])]
	w.masked = w.masked[:copy(w.masked, w.masked[n:])]
}

func (w *Writer) release(b byte, masked bool) {
	switch {
	case !masked:
		w.out = append(w.out, b)
	case !w.inMask:
		w.out = append(w.out, Marker...)
	}
	w.inMask = masked
}

// pass writes out what was released.
func (w *Writer) pass() error {
	if len(w.out) > 0 {
		_, w.err = w.w.Write(w.out)
		w.out = w.out[:0]
	}
	return w.err
}
