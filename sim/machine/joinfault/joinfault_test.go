package joinfault_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/kubeopera/platform/shared/skip"
	"github.com/kubeopera/platform/sim/machine/joinfault"
)

// standin is the program that TestMain builds, scripts are the real ones.
var standin, scripts string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "joinfault-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if scripts, err = filepath.Abs("../../../modules/compute/bootstrap"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	standin = filepath.Join(dir, "standin")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", standin, "./standin")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

// play plays a schedule and fails the test if a promise was broken.
func play(t *testing.T, schedule joinfault.Schedule) *joinfault.Result {
	t.Helper()
	result, err := joinfault.Run(t.Context(), joinfault.Config{Dir: t.TempDir(), Scripts: scripts, Standin: standin}, schedule)
	if err != nil {
		t.Fatalf("%s\n%v", schedule, err)
	}
	switch {
	case len(result.Violations) > 0:
		t.Errorf("%s", result)
	case testing.Verbose():
		t.Logf("%s", result)
	}
	return result
}

// TestRandomSchedules plays schedules that are drawn: some that are the same at every
// run, and some that nobody has seen before. KUBEOPERA_SEED plays one again.
func TestRandomSchedules(t *testing.T) {
	t.Parallel()
	seeds := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, rand.Uint64(), rand.Uint64()}
	if text, ok := os.LookupEnv("KUBEOPERA_SEED"); ok {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = []uint64{seed}
	}
	playAll(t, seeds)
}

// TestManyRandomSchedules plays 200 that nobody has seen before.
func TestManyRandomSchedules(t *testing.T) {
	skip.Soak(t)
	t.Parallel()
	seeds := make([]uint64, 200)
	for i := range seeds {
		seeds[i] = rand.Uint64()
	}
	playAll(t, seeds)
}

// TestASeedGivesTheSameRun is what makes a seed worth printing.
func TestASeedGivesTheSameRun(t *testing.T) {
	t.Parallel()
	hash := regexp.MustCompile(`[0-9a-f]{64}`) // of a CA, whose key is drawn by others
	timeline := func() string {
		return hash.ReplaceAllString(strings.Join(play(t, joinfault.Draw(3)).Timeline, "\n"), "")
	}
	if diff := cmp.Diff(timeline(), timeline()); diff != "" {
		t.Errorf("two runs differ:\n%s", diff)
	}
}

func playAll(t *testing.T, seeds []uint64) {
	t.Helper()
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("KUBEOPERA_SEED=%d", seed), func(t *testing.T) {
			t.Parallel()
			result := play(t, joinfault.Draw(seed))
			// The faults end, and with time every node can join.
			for _, n := range result.Failed() {
				t.Errorf("%s failed: %s\n%s", n.Name, n.Message, result)
			}
		})
	}
}
