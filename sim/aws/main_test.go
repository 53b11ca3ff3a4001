package aws_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"go.uber.org/goleak"

	"github.com/kubeopera/platform/sim/aws"
	"github.com/kubeopera/platform/sim/aws/eks"
)

const (
	region    = "eu-central-1"
	userARN   = "arn:aws:iam::123456789012:user/platform"
	keyID     = "AKIASIMULATOR0000001"
	keySecret = "simulator/secret+key/000000000000000001"
)

// account is one for all tests of the package: an emulator takes seconds to
// start. Tests use names of their own and remove their faults.
var account *aws.Account

// controlPlane stands for an API server, which these tests have none of.
var controlPlane = eks.Endpoint{URL: "https://127.0.0.1:6443", CA: []byte("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")}

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "sim-aws-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cache, err := os.UserCacheDir()
	if err != nil {
		return fail(err)
	}
	planes := &eks.Shared{}
	planes.Set(controlPlane)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	if account, err = aws.Start(ctx, aws.Config{
		LogDir: dir, CacheDir: cache + "/kubeopera", ControlPlanes: planes, EKSDelay: time.Second, Log: log,
	}); err != nil {
		return fail(err)
	}
	if err := account.RegisterKey(keyID, keySecret, userARN); err != nil {
		return fail(err)
	}
	code := m.Run()
	if err := account.Close(); err != nil {
		return fail(err)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			return fail(err)
		}
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// config is an SDK configuration for the account, with connections that the
// test closes.
func config(t *testing.T) sdk.Config {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return sdk.Config{
		Region:       region,
		BaseEndpoint: new(account.URL()),
		Credentials:  credentials.NewStaticCredentialsProvider(keyID, keySecret, ""),
		HTTPClient:   &http.Client{Transport: transport},
	}
}
