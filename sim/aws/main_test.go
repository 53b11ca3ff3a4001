package aws_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"go.uber.org/goleak"

	"github.com/kubeopera/platform/shared/skip"
	"github.com/kubeopera/platform/sim/aws"
	"github.com/kubeopera/platform/sim/aws/eks"
	"github.com/kubeopera/platform/sim/aws/moto"
	"github.com/kubeopera/platform/sim/aws/sessionmanager"
)

const (
	region    = "eu-central-1"
	userARN   = "arn:aws:iam::123456789012:user/platform"
	keyID     = "AKIASIMULATOR0000001"
	keySecret = "simulator/secret+key/000000000000000001"
)

// shared is one account for all tests of the package: an emulator takes
// seconds to start. Tests use names of their own and remove their faults.
var shared struct {
	once    sync.Once
	dir     string
	account *aws.Account
	planes  *eks.Shared
	role    func() (string, error) // makes a role that the user may assume
	err     error
}

// block is where load balancers and elastic IPs of the shared account are.
var block = netip.MustParsePrefix("127.83.7.0/24")

// standIn is the API server of tests that have none.
var standIn = eks.Endpoint{URL: "https://127.0.0.1:6443", CA: []byte("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")}

// theAccount starts the account, or skips the test where there is no emulator.
func theAccount(t *testing.T) *aws.Account {
	t.Helper()
	shared.once.Do(func() { shared.err = start() })
	if errors.Is(shared.err, moto.ErrMissing) {
		skip.Missing(t, skip.Moto, shared.err.Error())
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.account
}

func start() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cache, err := cacheDir()
	if err != nil {
		return err
	}
	if shared.dir, err = os.MkdirTemp("", "sim-aws-"); err != nil {
		return err
	}
	shared.planes = &eks.Shared{}
	shared.planes.Set(standIn)
	shared.account, err = aws.Start(ctx, aws.Config{
		LogDir: shared.dir, CacheDir: cache, ControlPlanes: shared.planes, EKSDelay: time.Second,
		Addresses: block,
		Sessions:  sessionmanager.Config{ResendInterval: 5 * time.Millisecond}, // what is lost comes again soon
		Log:       slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	shared.role = sync.OnceValues(createRole)
	return shared.account.RegisterKey(keyID, keySecret, userARN)
}

// cacheDir is the same as the Makefile's.
func cacheDir() (string, error) {
	if dir, ok := os.LookupEnv("KUBEOPERA_CACHE"); ok {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "kubeopera"), err
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run says whether the account leaves anything behind.
func run(m *testing.M) int {
	code := m.Run()
	if shared.account != nil {
		if err := shared.account.Close(); err != nil {
			return fail(err)
		}
	}
	if err := os.RemoveAll(shared.dir); err != nil {
		return fail(err)
	}
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
		BaseEndpoint: new(theAccount(t).URL()),
		Credentials:  credentials.NewStaticCredentialsProvider(keyID, keySecret, ""),
		HTTPClient:   &http.Client{Transport: transport},
	}
}
