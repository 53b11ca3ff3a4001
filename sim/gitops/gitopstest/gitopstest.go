// Package gitopstest gives tests a target cluster.
package gitopstest

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubeopera/platform/shared/skip"
	"github.com/kubeopera/platform/sim/controlplane"
	"github.com/kubeopera/platform/sim/controlplane/controlplanetest"
	"github.com/kubeopera/platform/sim/gitops"
	"github.com/kubeopera/platform/sim/podnetwork"
	"github.com/kubeopera/platform/sim/sandbox"
)

// Tools finds the controllers as tools/build does, but does not build them, which
// may take longer than a test may. Without them the test is skipped.
func Tools(tb testing.TB) gitops.Tools {
	tb.Helper()
	var problem strings.Builder
	tools, err := gitops.FindTools(tb.Context(), controlplanetest.Root(tb), true, &problem)
	if err != nil {
		skip.Missing(tb, skip.GitOps, strings.TrimSpace(problem.String()))
	}
	return tools
}

// Start runs a control plane that is a target, without Flux, until the test ends.
// The test binary must have called sandbox.Enter.
func Start(tb testing.TB) *gitops.Target {
	tb.Helper()
	if !sandbox.Inside() {
		skip.Missing(tb, skip.Namespaces, "the test binary could not enter a sandbox")
	}
	tools := Tools(tb)
	dir := tb.TempDir()
	log := slog.New(slog.NewTextHandler(tb.Output(), nil))
	pods, err := podnetwork.Start(tb.Context(), filepath.Join(dir, "pods"), log)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := pods.Close(); err != nil {
			tb.Error(err)
		}
	})
	plane := controlplanetest.Start(tb, gitops.Workloads(controlplane.Config{Dir: filepath.Join(dir, "plane"), Log: log}, pods))
	target, err := gitops.Start(tb.Context(), gitops.Config{ControlPlane: plane, Pods: pods, Tools: tools, Dir: filepath.Join(dir, "target"), Log: log})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			showLogs(tb, target)
		}
		if err := target.Stop(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return target
}

// showLogs prints the end of what Flux's controllers have said.
func showLogs(tb testing.TB, target *gitops.Target) {
	tb.Helper()
	const lines = 40
	for _, name := range []string{"source-controller", "kustomize-controller"} {
		content, err := os.ReadFile(target.LogFile(name))
		if err != nil {
			continue // Flux was not installed
		}
		all := strings.Split(string(content), "\n")
		tb.Logf("%s:\n%s", name, strings.Join(all[max(0, len(all)-lines):], "\n"))
	}
}
