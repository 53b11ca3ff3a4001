package s3_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"go.uber.org/goleak"

	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/aws/s3"
	"github.com/kubeopera/platform/sim/aws/sigv4"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	accountID = "123456789012"
	frankfurt = "eu-central-1"
	virginia  = "us-east-1"
)

type fixture struct {
	service *s3.Service
	url     string
	client  *http.Client
}

// setup serves the fake as the gateway does, but believes every signature.
func setup(t *testing.T) *fixture {
	t.Helper()
	service, err := s3.New(s3.Config{AccountID: accountID})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sig, err := sigv4.Parse(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		service.ServeHTTP(w, r.WithContext(keyring.WithCaller(r.Context(), keyring.Caller{Region: sig.Region})))
	}))
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &fixture{service: service, url: server.URL, client: &http.Client{Transport: transport}}
}

// in is a client for a region.
func (f *fixture) in(region string) *sdk.Client {
	return sdk.New(sdk.Options{
		Region: region, BaseEndpoint: &f.url, UsePathStyle: true, HTTPClient: f.client, Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider("AKIA", "secret", ""),
	})
}

func create(name, constraint string) *sdk.CreateBucketInput {
	in := &sdk.CreateBucketInput{Bucket: &name}
	if constraint != "" {
		in.CreateBucketConfiguration = &types.CreateBucketConfiguration{LocationConstraint: types.BucketLocationConstraint(constraint)}
	}
	return in
}

// bucket makes a bucket in Frankfurt.
func (f *fixture) bucket(t *testing.T, name string) {
	t.Helper()
	if _, err := f.in(frankfurt).CreateBucket(t.Context(), create(name, frankfurt)); err != nil {
		t.Fatal(err)
	}
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

func status(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return http.StatusOK
	}
	resp, ok := errors.AsType[*awshttp.ResponseError](err)
	if !ok {
		t.Fatalf("no response: %v", err)
	}
	return resp.HTTPStatusCode()
}

func regionOf(t *testing.T, err error) string {
	t.Helper()
	resp, ok := errors.AsType[*awshttp.ResponseError](err)
	if !ok {
		t.Fatalf("no response: %v", err)
	}
	return resp.Response.Header.Get("X-Amz-Bucket-Region")
}
