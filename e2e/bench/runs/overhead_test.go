package runs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/e2e/bench"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/sim"
)

// The goals of a run against bare Terraform.
const (
	mostSeconds = 1.5 // more time
	mostCPU     = 5   // percent more
)

// overhead measures runs of a minimal cluster: what they cost is nearly all ours.
func overhead(b *testing.B, table *bench.Table) {
	b.Helper()
	const repeat = 5
	var ended bench.Samples
	var last api.Provision
	for i := range repeat {
		run := platform.Start(b, request(fmt.Sprintf("whole-%d", i), 0))
		last = platform.Wait(b, run.ID, nil)
		if last.Status != api.StatusSucceeded {
			b.Fatalf("the run ended %s: %s", last.Status, last.Message)
		}
		ended = append(ended, last.FinishedAt.Sub(*last.StartedAt))
	}
	w := newWorkspace(b, last.ID, nil)
	compare(b, table, w, "minimal module", repeat)
	table.Add(fmt.Sprintf("minimal module: the whole run, from its Job to its end, median of %d", repeat), bench.Seconds(ended.Median()), "")
}

// overheadOfEKS measures runs of the smallest EKS cluster, where the provider does
// most of the work.
func overheadOfEKS(b *testing.B, table *bench.Table) {
	b.Helper()
	run := platform.Wait(b, platform.Start(b, request("eks", 0)).ID, nil)
	root, err := sim.FindRoot(".")
	if err != nil {
		b.Fatal(err)
	}
	// Files that a test holds the renderer to; the backend is the run's own.
	rendered, err := filepath.Glob(filepath.Join(root, "provisioner/internal/terraformenv/testdata/environments/smallest/*.tf"))
	if err != nil || len(rendered) == 0 {
		b.Fatal("no rendered EKS environment", err)
	}
	files := map[string]string{}
	for _, file := range rendered {
		data, err := os.ReadFile(file)
		if err != nil {
			b.Fatal(err)
		}
		files[filepath.Base(file)] = string(data)
	}
	w := newWorkspace(b, run.ID, files)
	if err := os.CopyFS(filepath.Join(w.modules, "modules"), os.DirFS(filepath.Join(root, "modules"))); err != nil {
		b.Fatal(err)
	}
	compare(b, table, w, "EKS", 2)
}

// compare builds an environment in three ways in turn, and destroys it each time.
// The runner plans first and applies what it has checked, so that it is compared
// with bare Terraform in two steps as well.
func compare(b *testing.B, table *bench.Table, w *workspace, what string, repeat int) {
	b.Helper()
	ways := []func(){
		func() {
			w.bare(b, "init")
			w.bare(b, "apply")
		},
		func() {
			w.bare(b, "init")
			w.bare(b, "plan", "-out=plan")
			w.bare(b, "apply", "plan")
		},
		func() { w.run(b) },
	}
	destroy := func() { w.bare(b, "apply", "-destroy") }
	w.bare(b, "init")
	destroy() // what the run has made
	times, cpus := make([]bench.Samples, len(ways)), make([]bench.Samples, len(ways))
	for range repeat {
		for i, build := range ways {
			began := w.spent
			build()
			times[i] = append(times[i], w.spent.time-began.time)
			cpus[i] = append(cpus[i], w.spent.cpu-began.cpu)
			destroy()
		}
	}
	medians := func(of []bench.Samples) (bare, planned, run time.Duration) {
		return of[0].Median(), of[1].Median(), of[2].Median()
	}
	bare, planned, run := medians(times)
	more := (run - bare).Seconds()
	table.Add(fmt.Sprintf("%s: time of bare init and apply; of init, plan and apply; of terraform-runner; medians of %d", what, repeat),
		fmt.Sprintf("%s; %s; %s: %+.2f s", bench.Seconds(bare), bench.Seconds(planned), bench.Seconds(run), more),
		bench.Verdict(fmt.Sprintf("at most %.1f s more", mostSeconds), more <= mostSeconds))
	bare, planned, run = medians(cpus)
	percent := 100 * (float64(run)/float64(bare) - 1)
	table.Add(fmt.Sprintf("%s: processor time of the same", what),
		fmt.Sprintf("%s; %s; %s: %+.0f %%", bench.Seconds(bare), bench.Seconds(planned), bench.Seconds(run), percent),
		bench.Verdict(fmt.Sprintf("at most %d %% more", mostCPU), percent <= mostCPU))
}

// cost is what processes have taken.
type cost struct{ time, cpu time.Duration }

// config reads what the service has rendered for a run.
func config(b *testing.B, id string) map[string]string {
	b.Helper()
	made, err := platform.Kubernetes.CoreV1().ConfigMaps(sim.RunNamespace).Get(b.Context(), runcontract.JobName(runcontract.KindProvision, id), metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return maps.Clone(made.Data)
}
