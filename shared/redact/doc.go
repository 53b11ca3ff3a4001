// Package redact keeps secrets out of text.
//
// A Redactor knows some secrets and replaces each of them, and each of its
// usual encodings, by Marker: in a string, or in a stream of any length, where
// a secret may be torn apart by the borders of writes. Secret is a string that
// does not print itself.
//
// What it finds: the value itself; base64 in both alphabets, with and without
// padding, also in the middle of longer encoded text; percent-encoded, JSON,
// Go and HTML escaped; hexadecimal; and each long line of a value of several
// lines, such as a private key that is printed with indentation. What it does
// not find: encrypted, compressed or hashed secrets, parts of a secret inside a
// text, and base64 that is wrapped into lines.
//
// Secrets shorter than MinLength bytes are ignored: masking them would garble
// ordinary text, and where they stood would give them away.
package redact
