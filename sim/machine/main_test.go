package machine_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"go.uber.org/goleak"

	"github.com/kubeopera/platform/shared/skip"
	"github.com/kubeopera/platform/sim/aws"
	"github.com/kubeopera/platform/sim/aws/moto"
	"github.com/kubeopera/platform/sim/controlplane/controlplanetest"
	"github.com/kubeopera/platform/sim/machine"
	"github.com/kubeopera/platform/sim/sandbox"
)

const (
	region    = "eu-central-1"
	keyID     = "AKIASIMULATOR0000001"
	keySecret = "simulator/secret+key/000000000000000001"
)

// shared is one account with its machines for all tests.
var shared struct {
	once     sync.Once
	dir      string
	account  *aws.Account
	machines *machine.Machines
	stop     context.CancelFunc
	ended    chan error
	err      error
}

func TestMain(m *testing.M) {
	if err := machine.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, err) // the tests that need it are skipped
	}
	code := m.Run()
	if shared.stop != nil {
		shared.stop()
		if err := <-shared.ended; err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if shared.account != nil {
		if err := shared.account.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if code == 0 {
		if err := os.RemoveAll(shared.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	} else {
		fmt.Fprintln(os.Stderr, "logs are in", shared.dir)
	}
	os.Exit(code)
}

// theMachines starts the account and its machines, or skips the test.
func theMachines(t *testing.T) *machine.Machines {
	t.Helper()
	if !sandbox.Inside() {
		skip.Missing(t, skip.Namespaces, "the test binary could not enter a sandbox")
	}
	assets := controlplanetest.Assets(t)
	shared.once.Do(func() { shared.err = start(assets, controlplanetest.Root(t)) })
	if errors.Is(shared.err, moto.ErrMissing) {
		skip.Missing(t, skip.Moto, shared.err.Error())
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.machines
}

func start(assets, root string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var err error
	if shared.dir, err = os.MkdirTemp("", "sim-machine-"); err != nil {
		return err
	}
	cache, ok := os.LookupEnv("KUBEOPERA_CACHE")
	if !ok {
		if cache, err = os.UserCacheDir(); err != nil {
			return err
		}
		cache = filepath.Join(cache, "kubeopera")
	}
	logFile, err := os.Create(filepath.Join(shared.dir, "log"))
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(logFile, &slog.HandlerOptions{Level: slog.LevelDebug}))
	shared.account, err = aws.Start(ctx, aws.Config{
		LogDir: shared.dir, CacheDir: cache, Addresses: netip.MustParsePrefix("127.94.0.0/24"), Log: log,
	})
	if err != nil {
		return err
	}
	if err := shared.account.RegisterKey(keyID, keySecret, "arn:aws:iam::123456789012:user/platform"); err != nil {
		return err
	}
	shared.machines, err = machine.New(ctx, machine.Config{
		Account: shared.account, Dir: filepath.Join(shared.dir, "machines"), Assets: assets, KubeadmWait: 3 * time.Second, Log: log,
		SSHD: machine.FindSSHD(root, true),
	})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.Background())
	shared.stop, shared.ended = stop, make(chan error, 1)
	go func() { shared.ended <- shared.machines.Run(running) }()
	return nil
}

func client(t *testing.T) *ec2.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return ec2.NewFromConfig(sdk.Config{
		Region: region, BaseEndpoint: new(shared.account.URL()), HTTPClient: &http.Client{Transport: transport},
		Credentials: credentials.NewStaticCredentialsProvider(keyID, keySecret, ""),
	})
}

// launch launches an instance with this user_data and waits for its machine. The
// instance is terminated with the test.
func launch(t *testing.T, userData string) *machine.Machine {
	t.Helper()
	machines := theMachines(t)
	c := client(t)
	out, err := c.RunInstances(t.Context(), &ec2.RunInstancesInput{
		ImageId: new("ami-12c6146b"), InstanceType: types.InstanceTypeT3Medium, MinCount: new(int32(1)), MaxCount: new(int32(1)),
		UserData: new(base64.StdEncoding.EncodeToString([]byte(userData))),
	})
	if err != nil {
		t.Fatal(err)
	}
	id := *out.Instances[0].InstanceId
	t.Cleanup(func() {
		if _, err := c.TerminateInstances(context.Background(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
			t.Error(err)
		}
	})
	var m *machine.Machine
	until(t, "the machine is there", func() bool {
		var ok bool
		m, ok = machines.Machine(id)
		return ok
	})
	t.Cleanup(func() {
		if t.Failed() {
			log, err := m.Log()
			t.Logf("console of %s (%v):\n%s", id, err, log)
		}
	})
	return m
}

// until waits for something that must happen soon.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for !happened() {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// prints waits until the console has a text.
func prints(t *testing.T, m *machine.Machine, text string) {
	t.Helper()
	until(t, "the console has "+text, func() bool {
		log, err := m.Log()
		return err == nil && strings.Contains(log, text)
	})
}
