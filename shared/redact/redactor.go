package redact

import (
	"io"
	"strings"
)

// Marker stands where a secret was.
const Marker = "[redacted]"

// MinLength is the length in bytes from which on a secret is masked.
const MinLength = 8

// Redactor masks a fixed set of secrets. It is safe for concurrent use.
type Redactor struct {
	auto *automaton
}

// New is a redactor for secrets. Those that are too short are ignored.
func New(secrets ...string) *Redactor {
	seen := make(map[string]bool)
	for _, s := range secrets {
		for _, form := range forms(s) {
			// A secret that is part of the marker cannot be hidden by it.
			if len(form) >= MinLength && !strings.Contains(Marker, form) {
				seen[form] = true
			}
		}
	}
	return &Redactor{auto: newAutomaton(seen)}
}

// String is s with all secrets masked. A start of a secret at the end of s, as
// a text that was cut may have, is masked too if it has MinLength bytes.
func (r *Redactor) String(s string) string {
	var b strings.Builder
	w := r.Writer(&b)
	_, _ = io.WriteString(w, s) // a strings.Builder does not fail
	_ = w.Close()
	return b.String()
}

// Writer masks what passes through to w.
func (r *Redactor) Writer(w io.Writer) *Writer {
	return &Writer{auto: r.auto, w: w}
}

// String is s with secrets masked; a Redactor is quicker for many strings.
func String(s string, secrets ...string) string {
	return New(secrets...).String(s)
}
