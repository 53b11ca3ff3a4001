package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// expected is the signature that the holder of secret would have made for r.
func expected(r *http.Request, sig Signature, payloadHash, secret string) string {
	canonical := sha256.Sum256([]byte(canonicalRequest(r, sig, payloadHash)))
	toSign := strings.Join([]string{
		algorithm, sig.Time.Format(timeFormat), sig.path(), hex.EncodeToString(canonical[:]),
	}, "\n")
	key := []byte("AWS4" + secret)
	for _, part := range []string{sig.Date, sig.Region, sig.Service, terminator} {
		key = sum(key, part)
	}
	return hex.EncodeToString(sum(key, toSign))
}

func sum(key []byte, data string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(data))
	return mac.Sum(nil)
}

func canonicalRequest(r *http.Request, sig Signature, payloadHash string) string {
	var b strings.Builder
	b.WriteString(r.Method + "\n")
	b.WriteString(canonicalPath(r.URL, sig.Service) + "\n")
	b.WriteString(canonicalQuery(r.URL.RawQuery) + "\n")
	for _, name := range sig.SignedHeaders {
		b.WriteString(name + ":" + headerValue(r, name) + "\n")
	}
	b.WriteString("\n" + strings.Join(sig.SignedHeaders, ";") + "\n" + payloadHash)
	return b.String()
}

// canonicalPath encodes the path once for S3 and, as AWS has it, twice for
// every other service.
func canonicalPath(u *url.URL, service string) string {
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	if service == "s3" {
		// What arrived may be escaped more or less than the signer did: normalise.
		if decoded, err := url.PathUnescape(path); err == nil {
			return escape(decoded, true)
		}
		return path
	}
	return escape(path, true)
}

func canonicalQuery(raw string) string {
	var pairs []string
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		name, value = unescape(name), unescape(value)
		if name == "X-Amz-Signature" {
			continue
		}
		pairs = append(pairs, escape(name, false)+"="+escape(value, false))
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

func unescape(s string) string {
	decoded, err := url.QueryUnescape(s)
	if err != nil {
		return s
	}
	return decoded
}

// headerValue is a header as it was sent, with runs of spaces folded. Go's
// server takes Host out of the headers, and the length where it sets its own.
func headerValue(r *http.Request, name string) string {
	switch {
	case name == "host":
		return r.Host
	case name == "content-length" && r.Header.Get("Content-Length") == "":
		return strconv.FormatInt(r.ContentLength, 10)
	}
	values := slices.Clone(r.Header.Values(name))
	for i, v := range values {
		values[i] = strings.Join(strings.Fields(v), " ")
	}
	return strings.Join(values, ",")
}

// escape percent-encodes all but unreserved characters, as RFC 3986 has it.
func escape(s string, keepSlash bool) string {
	const hexDigits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			c == '-', c == '_', c == '.', c == '~', c == '/' && keepSlash:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	return b.String()
}
