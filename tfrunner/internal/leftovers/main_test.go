package leftovers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"go.uber.org/goleak"

	"github.com/kubeopera/platform/shared/skip"
	simaws "github.com/kubeopera/platform/sim/aws"
	"github.com/kubeopera/platform/sim/aws/moto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	region    = "eu-west-1"
	keyID     = "AKIASIMULATOR0000001"
	keySecret = "simulator/secret+key/000000000000000001"
)

// simulated is a simulated account that ends with the test, and a configuration for it.
func simulated(t *testing.T) (*simaws.Account, aws.Config) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cache, ok := os.LookupEnv("KUBEOPERA_CACHE")
	if !ok {
		dir, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(dir, "kubeopera")
	}
	account, err := simaws.Start(ctx, simaws.Config{
		LogDir: t.TempDir(), CacheDir: cache, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if errors.Is(err, moto.ErrMissing) {
		skip.Missing(t, skip.Moto, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := account.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := account.RegisterKey(keyID, keySecret, fmt.Sprintf("arn:aws:iam::%s:user/platform", account.ID())); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return account, aws.Config{
		Region: region, BaseEndpoint: new(account.URL()), HTTPClient: &http.Client{Transport: transport},
		Credentials: credentials.NewStaticCredentialsProvider(keyID, keySecret, ""),
	}
}
