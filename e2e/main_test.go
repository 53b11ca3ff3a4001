package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/kubeopera/platform/e2e/leak"
	"github.com/kubeopera/platform/shared/client"
	"github.com/kubeopera/platform/sim"
	"github.com/kubeopera/platform/sim/machine"
)

// platform is the simulator that all tests share. Tests that change how its
// service runs put it back.
var platform *sim.Simulator

func TestMain(m *testing.M) {
	// Everything lives in a PID namespace: nothing outlives the tests.
	if err := machine.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx := context.Background()
	root, err := sim.FindRoot(".")
	if err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "kubeopera-e2e-")
	if err != nil {
		return 1, err
	}
	defer func() {
		if code == 0 && err == nil {
			err = os.RemoveAll(dir)
		} else {
			fmt.Fprintln(os.Stderr, "e2e: logs are in", dir)
		}
	}()
	logFile, err := os.Create(filepath.Join(dir, "simulator.log"))
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, logFile.Close()) }()
	if platform, err = start(ctx, root, filepath.Join(dir, "platform"), logFile); err != nil {
		return 1, err
	}
	fmt.Fprintln(os.Stderr, "e2e: AWS is moto behind the simulator's gateway, at", platform.AWS.URL())

	code = m.Run()
	err = errors.Join(scanFiles(dir), platform.Stop(ctx))
	if code == 0 && err == nil {
		err = goleak.Find()
	}
	return code, err
}

func start(ctx context.Context, root, dir string, logTo io.Writer) (*sim.Simulator, error) {
	bin := filepath.Join(root, "bin")
	build := exec.CommandContext(ctx, "go", "build", "-o", bin+"/", "./provisioner/cmd/...", "./tfrunner/cmd/...")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the services and runners: %w\n%s", err, out)
	}
	cache, err := sim.CacheDir(os.Getenv)
	if err != nil {
		return nil, err
	}
	assets, err := sim.ControlPlaneAssets(ctx, root, os.Stderr)
	if err != nil {
		return nil, err
	}
	return sim.Start(ctx, sim.Config{
		Root: root, Bin: bin, Dir: dir, Assets: assets, Cache: cache, Getenv: os.Getenv,
		Log: slog.New(slog.NewTextHandler(logTo, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
}

// canaries are the secrets that must be nowhere.
func canaries() (*leak.Scanner, error) {
	return leak.New(map[string]string{
		"the AWS secret access key": platform.AccessKey.Secret.Reveal(),
		"the service's API key":     platform.Service.Key(),
	})
}

// scanFiles looks for the canaries in every file that the platform wrote in the
// whole run: logs, databases, volumes, repositories.
func scanFiles(dir string) error {
	scanner, err := canaries()
	if err != nil {
		return err
	}
	files, err := scanner.ScanDir(dir, func(path string) bool {
		// Secrets are meant to be in etcd's data; its log is scanned.
		return strings.Contains(path, "etcd") && !strings.Contains(path, "/logs/")
	})
	if err != nil {
		return err
	}
	if files < 10 {
		return fmt.Errorf("the leak scan saw only %d files in %s", files, dir)
	}
	return nil
}

// provisioner is a client of the service.
func provisioner(t *testing.T) *client.Provisioner {
	t.Helper()
	c, err := client.NewProvisioner(client.Config{BaseURL: platform.Service.URL(), APIKey: platform.Service.Key()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
