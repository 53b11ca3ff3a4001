package redact

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is a string that prints as Marker in fmt (every verb), slog, JSON and
// text encodings. It decodes from JSON as a string does. An unexported struct
// field of this type is no protection: fmt cannot call methods on those.
type Secret string

// Reveal is the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String is Marker; empty for an empty secret, so that absence stays visible.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Marker
}

// Format implements fmt.Formatter: verbs and flags change nothing, since %x or
// %#v would otherwise print the value.
func (s Secret) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, s.String())
}

// MarshalText implements encoding.TextMarshaler, and by it JSON.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
