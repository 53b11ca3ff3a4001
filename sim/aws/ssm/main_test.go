package ssm_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/aws/smithy-go"
	"go.uber.org/goleak"

	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/aws/ssm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	accountID = "123456789012"
	region    = "eu-central-1"
	userARN   = "arn:aws:iam::123456789012:user/platform"
	name      = "/kubeopera/e/join_token"
)

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// clock is moved by the test.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

type fixture struct {
	*sdk.Client

	service *ssm.Service
	clock   *clock
}

// setup serves the fake as the gateway does, for one caller. Nothing is
// throttled unless the test says so.
func setup(t *testing.T, change func(*ssm.Config)) *fixture {
	t.Helper()
	f := &fixture{clock: &clock{now: start}}
	cfg := ssm.Config{AccountID: accountID, Now: f.clock.Now, Limits: ssm.Limits{Put: ssm.Unlimited, Get: ssm.Unlimited}}
	if change != nil {
		change(&cfg)
	}
	var err error
	if f.service, err = ssm.New(cfg); err != nil {
		t.Fatal(err)
	}
	f.Client = f.in(t, region)
	return f
}

// in is a client for another region.
func (f *fixture) in(t *testing.T, region string) *sdk.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.service.ServeHTTP(w, r.WithContext(keyring.WithCaller(r.Context(), keyring.Caller{Region: region, PrincipalARN: userARN})))
	}))
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return sdk.New(sdk.Options{
		Region: region, BaseEndpoint: &server.URL, HTTPClient: &http.Client{Transport: transport}, Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider("AKIA", "secret", ""),
	})
}

// input is a request that is good; change makes it another one.
func input(change func(*sdk.PutParameterInput)) *sdk.PutParameterInput {
	in := &sdk.PutParameterInput{Name: new(name), Value: new("PENDING"), Type: types.ParameterTypeSecureString}
	if change != nil {
		change(in)
	}
	return in
}

// put writes a parameter and fails the test if it cannot.
func (f *fixture) put(t *testing.T, change func(*sdk.PutParameterInput)) *sdk.PutParameterOutput {
	t.Helper()
	out, err := f.PutParameter(t.Context(), input(change))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (f *fixture) get(ctx context.Context, name string) (types.Parameter, error) {
	out, err := f.GetParameter(ctx, &sdk.GetParameterInput{Name: &name, WithDecryption: new(true)})
	if err != nil {
		return types.Parameter{}, err
	}
	return *out.Parameter, nil
}

// code is the error's code, or "ok".
func code(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return "ok"
	}
	apiErr, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		t.Fatalf("no API error: %v", err)
	}
	return apiErr.ErrorCode()
}
