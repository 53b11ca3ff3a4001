package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"go.uber.org/goleak"

	"github.com/kubeopera/platform/sim/aws/gateway"
	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/aws/sts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	keyID  = "AKIAGATEWAYTEST00001"
	secret = "secret"
	arn    = "arn:aws:iam::123456789012:user/test"
)

// fixture is a gateway with STS behind it, and a fallback that counts calls.
type fixture struct {
	gateway  *gateway.Gateway
	url      string
	keys     *keyring.Ring
	fallback atomic.Int64
	client   *http.Client
}

func setup(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{keys: keyring.New()}
	if err := f.keys.Register(keyring.Key{ID: keyID, Secret: secret, PrincipalARN: arn}); err != nil {
		t.Fatal(err)
	}
	service, err := sts.New(sts.Config{Keys: f.keys})
	if err != nil {
		t.Fatal(err)
	}
	f.gateway, err = gateway.New(gateway.Config{
		Keys:     f.keys,
		Services: map[string]http.Handler{"sts": service},
		Fallback: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { f.fallback.Add(1) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(f.gateway)
	t.Cleanup(server.Close)
	f.url = server.URL
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	f.client = &http.Client{Transport: transport, Timeout: 10 * time.Second}
	return f
}

// config is an SDK configuration that does not retry.
func (f *fixture) config(id, secret, token string) aws.Config {
	return aws.Config{
		Region:       "eu-central-1",
		BaseEndpoint: &f.url,
		Credentials:  credentials.NewStaticCredentialsProvider(id, secret, token),
		HTTPClient:   f.client,
		Retryer:      func() aws.Retryer { return aws.NopRetryer{} },
	}
}
