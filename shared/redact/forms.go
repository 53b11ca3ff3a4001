package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf16"
)

// longLine is the length from which on a line of a longer secret is a secret
// by itself. Lines of a PEM body have 64 bytes, its last one fewer.
const longLine = 32

// forms lists the texts by which a secret may be known. Surrounding white space
// is no part of it: files often end in a newline that the use of them does not.
func forms(secret string) []string {
	secret = strings.TrimSpace(secret)
	if len(secret) < MinLength {
		return nil
	}
	out := escapes(secret)
	for _, e := range jsonForms(secret) {
		out = append(out, jsonForms(e)...) // JSON in a JSON string
	}
	out = append(out, hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))))
	out = append(out, base64Forms(secret)...)
	if strings.Contains(secret, "\n") {
		for line := range strings.SplitSeq(secret, "\n") {
			line = strings.TrimSpace(line)
			if len(line) >= longLine && !strings.ContainsAny(line, " \t") {
				out = append(out, escapes(line)...)
			}
		}
	}
	return out
}

// escapes is s and s as formats other than base64 quote it.
func escapes(s string) []string {
	out := []string{s, html.EscapeString(s), inner(strconv.Quote(s)), inner(strconv.QuoteToASCII(s))}
	out = append(out, jsonForms(s)...)
	for _, e := range []string{url.QueryEscape(s), url.PathEscape(s), percent(s)} {
		out = append(out, e, lowerHex(e))
	}
	return out
}

// jsonForms is s inside a JSON string, by writers that escape for HTML, that
// do not, and that keep to ASCII.
func jsonForms(s string) []string {
	var plain strings.Builder
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil { // a string cannot fail to encode
		return nil
	}
	withHTML, err := json.Marshal(s)
	if err != nil {
		return nil
	}
	p := inner(strings.TrimSuffix(plain.String(), "\n"))
	return []string{p, inner(string(withHTML)), ascii(p), strings.ReplaceAll(p, "/", `\/`)}
}

// ascii replaces what is not ASCII by \u escapes.
func ascii(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < 0x80 {
			b.WriteRune(r)
			continue
		}
		for _, u := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, u)
		}
	}
	return b.String()
}

// inner is a quoted string without its quotes.
func inner(quoted string) string { return quoted[1 : len(quoted)-1] }

// percent encodes all but RFC 3986's unreserved characters, as AWS signatures do.
func percent(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// lowerHex writes the digits of %XX in lower case.
func lowerHex(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToLower(s[i+1:i+3]))
			i += 2
		}
	}
	return string(b)
}

// base64Forms is the whole value encoded, and the characters that encode it
// wherever it stands in longer encoded text. Three bytes are four characters,
// so there are three ways for it to stand; the first and the last character of
// the latter two also depend on its neighbours and are left out.
func base64Forms(secret string) []string {
	var out []string
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		out = append(out, enc.EncodeToString([]byte(secret)), enc.WithPadding(base64.NoPadding).EncodeToString([]byte(secret)))
		for shift := range 3 {
			text := enc.EncodeToString(append(make([]byte, shift), secret...))
			first := (8*shift + 5) / 6             // the first character without a bit of a neighbour
			end := (8 * (shift + len(secret))) / 6 // after the last one
			out = append(out, text[first:end])
		}
	}
	return out
}
