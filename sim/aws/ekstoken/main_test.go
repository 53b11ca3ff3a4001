package ekstoken_test

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"go.uber.org/goleak"

	"github.com/kubeopera/platform/sim/aws/ekstoken"
	"github.com/kubeopera/platform/sim/aws/keyring"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	keyID     = "AKIATOKENTEST0000001"
	sessionID = "ASIATOKENTEST0000002"
	secret    = "secret"
	userARN   = "arn:aws:iam::123456789012:user/platform"
	emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

var signedAt = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

func ring(t *testing.T) *keyring.Ring {
	t.Helper()
	keys := keyring.New()
	for _, k := range []keyring.Key{
		{ID: keyID, Secret: secret, PrincipalARN: userARN},
		{ID: sessionID, Secret: secret, SessionToken: "token", PrincipalARN: "arn:aws:sts::123456789012:assumed-role/admin/me", ExpiresAt: signedAt.Add(5 * time.Minute)},
	} {
		if err := keys.Register(k); err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

// spec is what a token is made of; zero fields are what a good one has.
type spec struct {
	url, method, cluster, header, secret, id, session string
	at                                                time.Time
}

// token makes one as `aws eks get-token` does.
func (s spec) token(t *testing.T) string {
	t.Helper()
	pick := func(v, byDefault string) string {
		if v == "" {
			return byDefault
		}
		return v
	}
	ctx := context.Background()
	req, err := http.NewRequestWithContext(ctx, pick(s.method, http.MethodGet),
		pick(s.url, "https://sts.eu-central-1.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Expires=60"), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(pick(s.header, "x-k8s-aws-id"), pick(s.cluster, "c"))
	at := s.at
	if at.IsZero() {
		at = signedAt
	}
	uri, _, err := v4.NewSigner().PresignHTTP(ctx, aws.Credentials{
		AccessKeyID: pick(s.id, keyID), SecretAccessKey: pick(s.secret, secret), SessionToken: s.session,
	}, req, emptyHash, "sts", "eu-central-1", at)
	if err != nil {
		t.Fatal(err)
	}
	return encode(uri)
}

func encode(uri string) string {
	return "k8s-aws-v1." + base64.RawURLEncoding.EncodeToString([]byte(uri))
}

// edit changes the URL inside a token.
func edit(t *testing.T, token, from, to string) string {
	t.Helper()
	uri, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "k8s-aws-v1."))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(uri), from) {
		t.Fatalf("%q is not in the token", from)
	}
	return encode(strings.Replace(string(uri), from, to, 1))
}

func verifier(t *testing.T, now time.Time) *ekstoken.Verifier {
	t.Helper()
	return &ekstoken.Verifier{Keys: ring(t), ExtraHosts: []string{"127.0.0.1:4566"}, Now: func() time.Time { return now }}
}
