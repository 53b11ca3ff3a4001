// Package harness brings up the simulator for a package of whole-platform tests
// and has what those tests have in common.
package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/kubeopera/platform/sim"
	"github.com/kubeopera/platform/sim/machine"
)

// Platform is the running simulator that all tests of a package share. Tests
// that change how its services run put it back.
type Platform struct {
	*sim.Simulator

	root string // the checkout

	mu       sync.Mutex
	canaries map[string]string // secrets of tests, by what they are
}

// Main is a package's TestMain: it starts a platform, hands it to use, runs the
// tests, looks for secrets in all that the platform wrote, and stops it.
// configure, if not nil, changes the simulator's configuration. It ends the
// program.
func Main(m *testing.M, configure func(*sim.Config), use func(*Platform)) {
	// Everything lives in a PID namespace: nothing outlives the tests.
	if err := machine.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	code, err := run(m, configure, use)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M, configure func(*sim.Config), use func(*Platform)) (code int, err error) {
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
	p, err := start(ctx, root, filepath.Join(dir, "platform"), logFile, configure)
	if err != nil {
		return 1, err
	}
	fmt.Fprintln(os.Stderr, "e2e: AWS is moto behind the simulator's gateway, at", p.AWS.URL())
	use(p)

	watch, stopWatch := context.WithCancel(ctx)
	arguments := watchArguments(watch)
	code = m.Run()
	stopWatch()
	err = errors.Join(p.scan(ctx, dir, <-arguments), p.Stop(ctx))
	if code == 0 && err == nil {
		err = goleak.Find()
	}
	return code, err
}

func start(ctx context.Context, root, dir string, logTo io.Writer, configure func(*sim.Config)) (*Platform, error) {
	bin := filepath.Join(root, "bin")
	build := exec.CommandContext(ctx, "go", "build", "-o", bin+"/", "./provisioner/cmd/...", "./provisioner/internal/minimalprovisioner", "./tfrunner/cmd/...",
		"./scaffolder/cmd/...", "./scaffoldrunner/cmd/...")
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
	config := sim.Config{
		Root: root, Bin: bin, Dir: dir, Assets: assets, Cache: cache, Getenv: os.Getenv,
		Log: slog.New(slog.NewTextHandler(logTo, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if configure != nil {
		configure(&config)
	}
	simulator, err := sim.Start(ctx, config)
	if err != nil {
		return nil, err
	}
	return &Platform{Simulator: simulator, root: root, canaries: map[string]string{}}, nil
}
