package redact

import (
	"io"
	"strings"
	"sync"
	"sync/atomic"
)

// Marker stands where a secret was.
const Marker = "[redacted]"

// MinLength is the length in bytes from which on a secret is masked.
const MinLength = 8

// Redactor masks a set of secrets, which may grow. It is safe for concurrent use.
type Redactor struct {
	auto atomic.Pointer[automaton]

	mu    sync.Mutex
	forms map[string]bool // all that is masked
}

// New is a redactor for secrets. Those that are too short are ignored.
func New(secrets ...string) *Redactor {
	r := &Redactor{forms: make(map[string]bool)}
	r.Add(secrets...)
	return r
}

// Add masks more secrets from now on: in every later String, and by writers that
// are made later.
func (r *Redactor) Add(secrets ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := len(r.forms)
	for _, s := range secrets {
		for _, form := range forms(s) {
			// A secret that is part of the marker cannot be hidden by it.
			if len(form) >= MinLength && !strings.Contains(Marker, form) {
				r.forms[form] = true
			}
		}
	}
	if r.auto.Load() == nil || len(r.forms) > known {
		r.auto.Store(newAutomaton(r.forms))
	}
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
	return &Writer{auto: r.auto.Load(), w: w}
}

// String is s with secrets masked; a Redactor is quicker for many strings.
func String(s string, secrets ...string) string {
	return New(secrets...).String(s)
}
