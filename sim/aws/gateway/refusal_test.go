package gateway_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/aws/protocol"
	"github.com/kubeopera/platform/sim/aws/sigv4"
)

// answer is an error as the SDK understood it.
type answer struct {
	code   string
	status int
}

func answerOf(t *testing.T, err error) answer {
	t.Helper()
	apiErr, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		t.Fatalf("no API error: %v", err)
	}
	resp, ok := errors.AsType[*awshttp.ResponseError](err)
	if !ok {
		t.Fatalf("no response: %v", err)
	}
	return answer{code: apiErr.ErrorCode(), status: resp.HTTPStatusCode()}
}

// The SDKs read a code only from where their protocol has it, so that they
// understand it says that the shape is right.
func TestRefusalsHaveTheShapeOfTheirProtocol(t *testing.T) {
	t.Parallel()
	calls := map[string]func(context.Context, aws.Config) error{
		"sts": func(ctx context.Context, cfg aws.Config) error {
			_, err := sts.NewFromConfig(cfg).GetCallerIdentity(ctx, nil)
			return err
		},
		"ec2": func(ctx context.Context, cfg aws.Config) error {
			_, err := ec2.NewFromConfig(cfg).DescribeVpcs(ctx, nil)
			return err
		},
		"eks": func(ctx context.Context, cfg aws.Config) error {
			_, err := eks.NewFromConfig(cfg).ListClusters(ctx, nil)
			return err
		},
		"s3": func(ctx context.Context, cfg aws.Config) error {
			_, err := s3.NewFromConfig(cfg).ListBuckets(ctx, nil)
			return err
		},
	}
	const expiredID = "ASIAGATEWAYTEST00002"
	tests := []struct {
		name              string
		id, secret, token string
		want              map[string]answer
	}{
		{name: "unknown key", id: "AKIAUNKNOWN000000000", secret: secret, want: map[string]answer{
			"sts": {"InvalidClientTokenId", 403}, "ec2": {"AuthFailure", 401},
			"eks": {"UnrecognizedClientException", 403}, "s3": {"InvalidAccessKeyId", 403},
		}},
		{name: "wrong secret", id: keyID, secret: "other", want: map[string]answer{
			"sts": {"SignatureDoesNotMatch", 403}, "ec2": {"AuthFailure", 401},
			"eks": {"InvalidSignatureException", 403}, "s3": {"SignatureDoesNotMatch", 403},
		}},
		{name: "expired session", id: expiredID, secret: secret, token: "token", want: map[string]answer{
			"sts": {"ExpiredToken", 403}, "ec2": {"RequestExpired", 400},
			"eks": {"ExpiredTokenException", 403}, "s3": {"ExpiredToken", 400},
		}},
		{name: "wrong session token", id: expiredID, secret: secret, token: "other", want: map[string]answer{
			"sts": {"InvalidClientTokenId", 403}, "ec2": {"AuthFailure", 401},
			"eks": {"UnrecognizedClientException", 403}, "s3": {"InvalidToken", 400},
		}},
	}
	f := setup(t)
	if err := f.keys.Register(keyring.Key{
		ID: expiredID, Secret: secret, SessionToken: "token", PrincipalARN: "arn:aws:sts::123456789012:assumed-role/r/s",
	}); err != nil {
		t.Fatal(err)
	}
	if err := f.keys.Expire(expiredID, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		for service, call := range calls {
			t.Run(tt.name+" at "+service, func(t *testing.T) {
				got := answerOf(t, call(t.Context(), f.config(tt.id, tt.secret, tt.token)))
				if got != tt.want[service] {
					t.Errorf("got %v, want %v", got, tt.want[service])
				}
			})
		}
	}
	if n := f.fallback.Load(); n > 0 {
		t.Errorf("%d refused calls were carried out", n)
	}
}

func TestRevokedKeyIsUnknown(t *testing.T) {
	t.Parallel()
	f := setup(t)
	client := sts.NewFromConfig(f.config(keyID, secret, ""))
	if _, err := client.GetCallerIdentity(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	f.keys.Revoke(keyID)
	_, err := client.GetCallerIdentity(t.Context(), nil)
	if got := answerOf(t, err); got.code != "InvalidClientTokenId" {
		t.Errorf("got %v", got)
	}
}

func TestUnsignedRequestsAreRefused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	tests := []struct {
		name   string
		header http.Header
		body   string
		status int
		want   string
	}{
		{name: "S3", status: 403, want: "<Code>AccessDenied</Code>"},
		{name: "query", header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, body: "Action=GetCallerIdentity", status: 403, want: "<Code>MissingAuthenticationToken</Code>"},
		{name: "JSON", header: http.Header{"X-Amz-Target": {"AmazonSSM.GetParameter"}}, body: "{}", status: 400, want: `"__type":"MissingAuthenticationTokenException"`},
		{name: "CBOR", header: http.Header{"Smithy-Protocol": {"rpc-v2-cbor"}}, status: 400, want: "MissingAuthenticationTokenException"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url, reader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if tt.header != nil {
				req.Header = tt.header
			}
			resp, err := f.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != tt.status || !contains(body, tt.want) {
				t.Errorf("status %d, body %q; want %d and %s", resp.StatusCode, body, tt.status, tt.want)
			}
		})
	}
}

// Every cause has a code of its own in every protocol.
func TestRefusalsAreComplete(t *testing.T) {
	t.Parallel()
	causes := []error{
		sigv4.ErrUnsigned, sigv4.ErrMalformed, sigv4.ErrUnknownKey, sigv4.ErrBadToken, sigv4.ErrExpiredToken, sigv4.ErrSkewed,
		sigv4.ErrExpiredURL, sigv4.ErrPayload, sigv4.ErrMismatch, sigv4.ErrUnsignedHeader,
	}
	for _, p := range []protocol.Protocol{
		protocol.Query, protocol.EC2, protocol.JSON, protocol.RESTJSON, protocol.RESTXML, protocol.S3, protocol.CBOR,
	} {
		for _, cause := range causes {
			e := protocol.Refusal(p, cause)
			if e.Code == "" || e.Message == "" || e.Status < 400 || e.Status > 403 {
				t.Errorf("%s, %v: %+v", p, cause, e)
			}
			w := httptest.NewRecorder()
			protocol.WriteError(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), p, "id", e)
			if !contains(w.Body.Bytes(), e.Code) && w.Header().Get(protocol.ErrorCodeHeader) != e.Code {
				t.Errorf("%s: %q does not tell the code", p, w.Body)
			}
		}
	}
}
