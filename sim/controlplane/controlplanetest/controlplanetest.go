// Package controlplanetest gives tests a control plane.
package controlplanetest

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubeopera/platform/shared/skip"
	"github.com/kubeopera/platform/sim/controlplane"
)

// Assets finds the binaries as tools/control-plane does, but neither downloads
// nor builds them, which may take longer than a test may. Without them the test
// is skipped.
func Assets(tb testing.TB) string {
	tb.Helper()
	var problem strings.Builder
	command := exec.CommandContext(tb.Context(), filepath.Join(Root(tb), "tools", "control-plane"), "--cached")
	command.Stderr = &problem
	output, err := command.Output()
	if err != nil {
		skip.Missing(tb, skip.ControlPlane, strings.TrimSpace(problem.String()))
	}
	return strings.TrimSpace(string(output))
}

// Root is the checkout, which holds the directory that tests run in.
func Root(tb testing.TB) string {
	tb.Helper()
	start, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for dir := start; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir
		}
	}
	tb.Fatalf("no go.work in %s or above", start)
	return ""
}

// Start runs a control plane until the test ends. Assets, Dir and Log are set
// where config leaves them empty.
func Start(tb testing.TB, config controlplane.Config) *controlplane.ControlPlane {
	tb.Helper()
	if config.Assets == "" {
		config.Assets = Assets(tb)
	}
	if config.Dir == "" {
		config.Dir = tb.TempDir()
	}
	if config.Log == nil {
		config.Log = slog.New(slog.NewTextHandler(tb.Output(), nil))
	}
	plane, err := controlplane.Start(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := plane.Stop(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return plane
}
