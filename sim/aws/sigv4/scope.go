// Package sigv4 reads and verifies AWS Signature Version 4 on requests that
// arrive: signed in the Authorization header, or presigned in the query.
//
// It is the verifying side only; what a correct signature is, the AWS SDK's
// signer decides in this package's tests. Chunk signatures inside a streamed
// body are not checked, the signature of the request's head is. Errors tell
// the causes apart, because each AWS service answers them with other codes.
package sigv4

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Why a request was not accepted.
var (
	ErrUnsigned     = errors.New("request is not signed")
	ErrMalformed    = errors.New("signature is malformed")
	ErrUnknownKey   = errors.New("access key is unknown")
	ErrBadToken     = errors.New("session token does not belong to the access key")
	ErrExpiredToken = errors.New("credentials have expired")
	ErrSkewed       = errors.New("signing time is too far from the server's")
	ErrExpiredURL   = errors.New("presigned URL has expired")
	ErrPayload      = errors.New("body is not the one that was signed")
	ErrMismatch     = errors.New("signature does not match")
	// ErrUnsignedHeader is S3's refusal of headers that the signature does not cover.
	ErrUnsignedHeader = errors.New("header is not signed")
)

const (
	algorithm  = "AWS4-HMAC-SHA256"
	terminator = "aws4_request"
	timeFormat = "20060102T150405Z"
	// maxExpires is AWS's upper bound for a presigned URL's life.
	maxExpires = 7 * 24 * time.Hour
)

// Scope is a credential scope: who signed, and for what.
type Scope struct {
	AccessKeyID string
	Date        string // yyyymmdd
	Region      string
	Service     string
}

// ParseScope reads "AKID/20060102/region/service/aws4_request".
func ParseScope(s string) (Scope, error) {
	parts := strings.Split(s, "/")
	if len(parts) != 5 || slices.Contains(parts, "") || parts[4] != terminator {
		return Scope{}, fmt.Errorf("credential scope: %w", ErrMalformed)
	}
	if _, err := time.Parse("20060102", parts[1]); err != nil {
		return Scope{}, fmt.Errorf("date of the credential scope: %w", ErrMalformed)
	}
	return Scope{AccessKeyID: parts[0], Date: parts[1], Region: parts[2], Service: parts[3]}, nil
}

// String gives the scope as it is written in a request.
func (s Scope) String() string { return s.AccessKeyID + "/" + s.path() }

// path is the scope without the key, as the string to sign has it.
func (s Scope) path() string {
	return strings.Join([]string{s.Date, s.Region, s.Service, terminator}, "/")
}

// Signature is what a request says about how it was signed. Nothing in it has
// been verified.
type Signature struct {
	Scope
	SignedHeaders []string // lower case, sorted
	Value         string   // hex
	Time          time.Time
	Expires       time.Duration // presigned only
	Presigned     bool
	SessionToken  string
}

// Parse reads the signature of a request; ErrUnsigned if it has none.
func Parse(r *http.Request) (Signature, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		return parseHeader(header, r)
	}
	query := r.URL.Query()
	if query.Has("X-Amz-Signature") || query.Has("X-Amz-Credential") {
		return parseQuery(query)
	}
	return Signature{}, ErrUnsigned
}

func parseHeader(header string, r *http.Request) (Signature, error) {
	rest, ok := strings.CutPrefix(header, algorithm+" ")
	if !ok {
		return Signature{}, fmt.Errorf("authorization header's algorithm: %w", ErrMalformed)
	}
	fields := map[string]string{}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, found := strings.Cut(strings.TrimSpace(part), "=")
		if !found {
			return Signature{}, fmt.Errorf("authorization header: %w", ErrMalformed)
		}
		fields[name] = value
	}
	date := r.Header.Get("X-Amz-Date")
	if date == "" {
		date = r.Header.Get("Date")
	}
	return newSignature(fields["Credential"], fields["SignedHeaders"], fields["Signature"], date,
		r.Header.Get("X-Amz-Security-Token"))
}

func parseQuery(query url.Values) (Signature, error) {
	if query.Get("X-Amz-Algorithm") != algorithm {
		return Signature{}, fmt.Errorf("query's algorithm: %w", ErrMalformed)
	}
	sig, err := newSignature(query.Get("X-Amz-Credential"), query.Get("X-Amz-SignedHeaders"),
		query.Get("X-Amz-Signature"), query.Get("X-Amz-Date"), query.Get("X-Amz-Security-Token"))
	if err != nil {
		return Signature{}, err
	}
	sig.Presigned = true
	seconds, err := strconv.Atoi(query.Get("X-Amz-Expires"))
	if err != nil || seconds < 0 || seconds > int(maxExpires/time.Second) {
		return Signature{}, fmt.Errorf("query's expiry: %w", ErrMalformed)
	}
	sig.Expires = time.Duration(seconds) * time.Second
	return sig, nil
}

func newSignature(credential, signedHeaders, value, date, token string) (Signature, error) {
	scope, err := ParseScope(credential)
	if err != nil {
		return Signature{}, err
	}
	at, err := parseTime(date)
	if err != nil {
		return Signature{}, fmt.Errorf("signing time: %w", ErrMalformed)
	}
	headers := strings.Split(signedHeaders, ";")
	if !slices.IsSorted(headers) || !slices.Contains(headers, "host") || len(value) != 64 {
		return Signature{}, fmt.Errorf("signed headers or signature value: %w", ErrMalformed)
	}
	return Signature{Scope: scope, SignedHeaders: headers, Value: value, Time: at, SessionToken: token}, nil
}

func parseTime(s string) (time.Time, error) {
	if at, err := time.Parse(timeFormat, s); err == nil {
		return at, nil
	}
	return http.ParseTime(s)
}
