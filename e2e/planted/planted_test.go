package planted

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/kubeopera/platform/e2e/harness"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/sim"
	"github.com/kubeopera/platform/sim/machine"
)

// leakyRunner makes of this program a suite of whole-platform tests, whose only
// test does one run with the terraform-runner that it names.
const leakyRunner = "KUBEOPERA_LEAKY_RUNNER"

var platform *harness.Platform

func TestMain(m *testing.M) {
	// Containers of the simulator are this program, too.
	if err := machine.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if _, ok := os.LookupEnv(leakyRunner); !ok {
		os.Exit(m.Run())
	}
	harness.Main(m, func(c *sim.Config) { c.Program = "minimalprovisioner" }, func(p *harness.Platform) { platform = p })
}

func TestLeaksAreFound(t *testing.T) {
	if leaky, ok := os.LookupEnv(leakyRunner); ok {
		runWith(t, leaky)
		return
	}
	root, err := sim.FindRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	suite := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestLeaksAreFound$", "-test.v")
	// What a failed suite leaves to be looked at goes with this test.
	suite.Env = append(os.Environ(), leakyRunner+"="+buildLeaky(t.Context(), t, root), "TMPDIR="+t.TempDir())
	out, err := suite.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); !failed {
		t.Fatalf("the suite ended with %v, want it to fail:\n%s", err, out)
	}
	if !strings.Contains(string(out), "--- PASS: TestLeaksAreFound") {
		t.Fatalf("the suite failed before its scan:\n%s", out)
	}
	for _, m := range mutations() {
		if !regexp.MustCompile(m.found).Match(out) {
			t.Errorf("the scan did not see the runner leak %s:\n%s", m.name, out)
		}
	}
}

// runWith does one run with another terraform-runner.
func runWith(t *testing.T, runner string) {
	t.Helper()
	image := platform.Image
	image.Binds = maps.Clone(image.Binds)
	for inside := range image.Binds {
		if path.Base(inside) == "terraform-runner" {
			image.Binds[inside] = runner
		}
	}
	platform.Node.AddImage(sim.RunnerImage, image)
	request := platform.Request("leaky")
	request.Tags = map[string]string{"seconds": "2"} // the scan looks at arguments every 50 ms
	run := platform.Wait(t, platform.Start(t, request).ID, nil)
	if run.Status != api.StatusSucceeded {
		t.Errorf("the run ended %s (%s): %s\n%s", run.Status, run.ErrorCode, run.Message, platform.Logs(t, run.ID))
	}
}
