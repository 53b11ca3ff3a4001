package sigv4_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/aws/sigv4"
)

const (
	keyID  = "AKIASIGV4TEST0000001"
	secret = "a/secret+with=signs"
	token  = "a session token"
	arn    = "arn:aws:iam::123456789012:user/test"
)

var signedAt = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

func verifier(t *testing.T, now time.Time) *sigv4.Verifier {
	t.Helper()
	ring := keyring.New()
	for _, k := range []keyring.Key{
		{ID: keyID, Secret: secret, PrincipalARN: arn},
		{ID: "ASIASIGV4TEST0000002", Secret: secret, SessionToken: token, PrincipalARN: arn, ExpiresAt: signedAt.Add(time.Minute)},
	} {
		if err := ring.Register(k); err != nil {
			t.Fatal(err)
		}
	}
	return &sigv4.Verifier{Keys: ring, Now: func() time.Time { return now }}
}

// request is what a test signs with the SDK's signer.
type request struct {
	method, url, body, service string
	header                     http.Header
	credentials                aws.Credentials
	presign                    bool
}

func (q request) withDefaults() request {
	if q.method == "" {
		q.method = http.MethodPost
	}
	if q.url == "" {
		q.url = "http://127.0.0.1:4566/"
	}
	if q.service == "" {
		q.service = "sts"
	}
	if q.credentials.AccessKeyID == "" {
		q.credentials = aws.Credentials{AccessKeyID: keyID, SecretAccessKey: secret}
	}
	return q
}

// sign gives the request as a server would see it.
func (q request) sign(t *testing.T) *http.Request {
	t.Helper()
	q = q.withDefaults()
	ctx := context.Background()
	r, err := http.NewRequestWithContext(ctx, q.method, q.url, strings.NewReader(q.body))
	if err != nil {
		t.Fatal(err)
	}
	if q.header != nil {
		r.Header = q.header.Clone()
	}
	sum := sha256.Sum256([]byte(q.body))
	hash := hex.EncodeToString(sum[:])
	s3Style := func(o *v4.SignerOptions) { o.DisableURIPathEscaping = q.service == "s3" }
	signer := v4.NewSigner()
	if q.presign {
		if q.service == "s3" {
			hash = "UNSIGNED-PAYLOAD"
		}
		query := r.URL.Query()
		query.Set("X-Amz-Expires", "60")
		r.URL.RawQuery = query.Encode()
		signed, headers, err := signer.PresignHTTP(ctx, q.credentials, r, hash, q.service, "eu-central-1", signedAt, s3Style)
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewRequestWithContext(ctx, q.method, signed, strings.NewReader(q.body))
		server.Header = headers
		return server
	}
	if q.service == "s3" {
		r.Header.Set("X-Amz-Content-Sha256", hash)
	}
	if err := signer.SignHTTP(ctx, q.credentials, r, hash, q.service, "eu-central-1", signedAt, s3Style); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewRequestWithContext(ctx, q.method, r.URL.String(), strings.NewReader(q.body))
	server.Header = r.Header
	return server
}

func TestVerifyAcceptsWhatTheSDKSigned(t *testing.T) {
	t.Parallel()
	session := aws.Credentials{AccessKeyID: "ASIASIGV4TEST0000002", SecretAccessKey: secret, SessionToken: token}
	tests := []struct {
		name string
		in   request
	}{
		{name: "form body", in: request{body: "Action=GetCallerIdentity&Version=2011-06-15"}},
		{name: "empty body", in: request{method: http.MethodGet}},
		{name: "query with spaces, plus and empty values", in: request{method: http.MethodGet, url: "http://127.0.0.1/?b=x%20y&a=%2B&c&a=1&%C3%A4=%C3%B6"}},
		{name: "escaped ARN in the path", in: request{method: http.MethodGet, service: "eks", url: "http://127.0.0.1/clusters/c/access-entries/arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fpath%2Fname"}},
		{name: "S3 key with special characters", in: request{method: http.MethodPut, service: "s3", url: "http://127.0.0.1/bucket/a%20dir/k%2Bey%3D%C3%A4~", body: "object"}},
		{name: "folded header", in: request{service: "ssm", header: http.Header{"X-Amz-Target": {"AmazonSSM.GetParameter"}, "X-Two": {"  a   b ", "c"}}, body: "{}"}},
		{name: "session token", in: request{credentials: session, body: "x"}},
		{name: "presigned", in: request{method: http.MethodGet, presign: true, url: "http://127.0.0.1/?Action=GetCallerIdentity&Version=2011-06-15"}},
		{name: "presigned with session token and header", in: request{method: http.MethodGet, presign: true, credentials: session, header: http.Header{"X-K8s-Aws-Id": {"cluster"}}}},
		{name: "presigned S3", in: request{method: http.MethodGet, presign: true, service: "s3", url: "http://127.0.0.1/bucket/key%20x"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sig, key, err := verifier(t, signedAt.Add(30*time.Second)).Verify(tt.in.sign(t), []byte(tt.in.body))
			if err != nil {
				t.Fatal(err)
			}
			if key.PrincipalARN != arn || sig.Region != "eu-central-1" || sig.Presigned != tt.in.presign {
				t.Errorf("got %+v of %s", sig, key.PrincipalARN)
			}
		})
	}
}

func TestVerifyRefusesWhatWasChanged(t *testing.T) {
	t.Parallel()
	header := request{
		method: http.MethodPut, service: "s3", url: "http://127.0.0.1/bucket/key?x=1", body: "object",
		header: http.Header{"X-Amz-Meta-A": {"b"}},
	}
	presigned := request{method: http.MethodGet, presign: true, url: "http://127.0.0.1/?Action=GetCallerIdentity", header: http.Header{"X-K8s-Aws-Id": {"cluster"}}}
	session := request{credentials: aws.Credentials{AccessKeyID: "ASIASIGV4TEST0000002", SecretAccessKey: secret, SessionToken: token}}
	tests := []struct {
		name   string
		in     request
		now    time.Time // zero: when it was signed
		change func(r *http.Request)
		body   string // empty: the signed one
		want   error
	}{
		{name: "no signature", in: header, change: func(r *http.Request) { r.Header.Del("Authorization") }, want: sigv4.ErrUnsigned},
		{name: "another scheme", in: header, change: func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }, want: sigv4.ErrMalformed},
		{name: "another method", in: header, change: func(r *http.Request) { r.Method = http.MethodDelete }, want: sigv4.ErrMismatch},
		{name: "another path", in: header, change: func(r *http.Request) { r.URL.Path = "/bucket/other" }, want: sigv4.ErrMismatch},
		{name: "another query", in: header, change: func(r *http.Request) { r.URL.RawQuery = "x=2" }, want: sigv4.ErrMismatch},
		{name: "another parameter", in: header, change: func(r *http.Request) { r.URL.RawQuery += "&y=1" }, want: sigv4.ErrMismatch},
		{name: "another host", in: header, change: func(r *http.Request) { r.Host = "elsewhere" }, want: sigv4.ErrMismatch},
		{name: "another signed header", in: header, change: func(r *http.Request) { r.Header.Set("X-Amz-Meta-A", "c") }, want: sigv4.ErrMismatch},
		{name: "another date", in: header, change: func(r *http.Request) { r.Header.Set("X-Amz-Date", "20261130T100001Z") }, want: sigv4.ErrMismatch},
		{name: "another body", in: header, body: "other", want: sigv4.ErrPayload},
		{name: "another body with its hash", in: header, body: "other", change: func(r *http.Request) {
			sum := sha256.Sum256([]byte("other"))
			r.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
		}, want: sigv4.ErrMismatch},
		{name: "an added header that S3 minds", in: header, change: func(r *http.Request) { r.Header.Set("X-Amz-Acl", "public-read") }, want: sigv4.ErrUnsignedHeader},
		{name: "another region in the scope", in: header, change: rewrite("eu-central-1", "us-east-1"), want: sigv4.ErrMismatch},
		{name: "another service in the scope", in: header, change: rewrite("/s3/", "/ec2/"), want: sigv4.ErrMismatch},
		{name: "another signature", in: header, change: func(r *http.Request) {
			h := r.Header.Get("Authorization")
			r.Header.Set("Authorization", h[:len(h)-1]+flip(h[len(h)-1]))
		}, want: sigv4.ErrMismatch},
		{name: "another secret", in: request{credentials: aws.Credentials{AccessKeyID: keyID, SecretAccessKey: "other"}}, want: sigv4.ErrMismatch},
		{name: "an unknown key", in: request{credentials: aws.Credentials{AccessKeyID: "AKIAUNKNOWN000000000", SecretAccessKey: secret}}, want: sigv4.ErrUnknownKey},
		{name: "a missing session token", in: request{credentials: aws.Credentials{AccessKeyID: "ASIASIGV4TEST0000002", SecretAccessKey: secret}}, want: sigv4.ErrBadToken},
		{name: "a session token too many", in: request{credentials: aws.Credentials{AccessKeyID: keyID, SecretAccessKey: secret, SessionToken: token}}, want: sigv4.ErrBadToken},
		{name: "an expired session", in: session, now: signedAt.Add(time.Minute), want: sigv4.ErrExpiredToken},
		{name: "an old request", in: header, now: signedAt.Add(16 * time.Minute), want: sigv4.ErrSkewed},
		{name: "a request of the future", in: header, now: signedAt.Add(-16 * time.Minute), want: sigv4.ErrSkewed},
		{name: "an expired URL", in: presigned, now: signedAt.Add(61 * time.Second), want: sigv4.ErrExpiredURL},
		{name: "a longer life", in: presigned, change: func(r *http.Request) {
			r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "X-Amz-Expires=60", "X-Amz-Expires=600", 1)
		}, want: sigv4.ErrMismatch},
		{name: "a life beyond all bounds", in: presigned, change: func(r *http.Request) {
			r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "X-Amz-Expires=60", "X-Amz-Expires=9999999", 1)
		}, want: sigv4.ErrMalformed},
		{name: "another header of a URL", in: presigned, change: func(r *http.Request) { r.Header.Set("X-K8s-Aws-Id", "other") }, want: sigv4.ErrMismatch},
		{name: "a missing header of a URL", in: presigned, change: func(r *http.Request) { r.Header.Del("X-K8s-Aws-Id") }, want: sigv4.ErrMismatch},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now, body := tt.now, tt.body
			if now.IsZero() {
				now = signedAt
			}
			if body == "" {
				body = tt.in.body
			}
			r := tt.in.sign(t)
			if tt.change != nil {
				tt.change(r)
			}
			if _, key, err := verifier(t, now).Verify(r, []byte(body)); !errors.Is(err, tt.want) || key.ID != "" {
				t.Errorf("got key %q and error %v, want %v", key.ID, err, tt.want)
			}
		})
	}
}

func rewrite(from, to string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), from, to, 1))
	}
}

func flip(c byte) string {
	if c == '0' {
		return "1"
	}
	return "0"
}

func FuzzParseScope(f *testing.F) {
	for _, s := range []string{
		"AKIASIGV4TEST0000001/20261130/eu-central-1/s3/aws4_request", "", "////", "a/20261301/r/s/aws4_request", "a/20260101/r/s/aws4", "a/20260101/r/s/aws4_request/",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		scope, err := sigv4.ParseScope(s)
		if err != nil {
			if !errors.Is(err, sigv4.ErrMalformed) || scope != (sigv4.Scope{}) {
				t.Errorf("%q: %+v, %v", s, scope, err)
			}
			return
		}
		if scope.String() != s {
			t.Errorf("%q came back as %q", s, scope.String())
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("AWS4-HMAC-SHA256 Credential=AKIASIGV4TEST0000001/20261130/eu-central-1/s3/aws4_request, SignedHeaders=host;x-amz-date, Signature="+strings.Repeat("0", 64), "20261130T100000Z", "")
	f.Add("", "", "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=0")
	f.Add("AWS4-HMAC-SHA256 ,=,,", "", "%zz;&X-Amz-Credential=/")
	f.Fuzz(func(t *testing.T, header, date, query string) {
		r := &http.Request{Method: http.MethodGet, Host: "h", URL: &url.URL{Path: "/", RawQuery: query}, Header: http.Header{}, Body: http.NoBody}
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		r.Header.Set("X-Amz-Date", date)
		ring := keyring.New()
		v := sigv4.Verifier{Keys: ring, Now: func() time.Time { return signedAt }}
		if _, key, err := v.Verify(r, bytes.Repeat([]byte("x"), 3)); err == nil {
			t.Errorf("an empty ring verified %+v", key)
		}
	})
}
