package runs

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/e2e/bench"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/sim"
)

// scaffold measures scaffolding runs and what of their time is the repository's:
// the clone and the pushes. Each run but the first moves the environment to
// another domain, so that there is something to push.
func scaffold(b *testing.B, table *bench.Table) {
	b.Helper()
	const repeat = 5
	if _, err := platform.GitOps(b.Context()); err != nil {
		b.Fatal(err)
	}
	kubeconfig, err := os.ReadFile(platform.TargetKubeconfig())
	if err != nil {
		b.Fatal(err)
	}
	run := func(domain string) scaffoldTimes {
		b.Helper()
		started := platform.StartScaffold(b, api.ScaffoldRequest{
			Environment: "bench", Domain: domain, Region: "eu-west-1", Email: "ops@" + domain,
			Target:   api.ScaffoldTarget{Kubeconfig: string(kubeconfig)},
			Registry: api.ScaffoldRegistry{Server: "registry.example.com", Username: "robot", Password: "the registry's password"},
		})
		ended := platform.WaitScaffold(b, started.ID, nil)
		if ended.Status != api.StatusSucceeded {
			b.Fatalf("the run ended %s (%s): %s", ended.Status, ended.ErrorCode, ended.Message)
		}
		return timesOf(b, ended)
	}
	first := run("bench-0.example.com")
	table.Add("scaffold into an empty repository: the whole run, from its Job to its end; of the runner's time the wait for sealed-secrets; clone and pushes",
		fmt.Sprintf("%s; %s; %s of %s: %.0f %%", bench.Seconds(first.whole), bench.Seconds(first.waiting), bench.Seconds(first.repository),
			bench.Seconds(first.runner), 100*first.share()), "")
	var wholes, runners, repositories bench.Samples
	for i := range repeat {
		t := run(fmt.Sprintf("bench-%d.example.com", i+1))
		wholes, runners, repositories = append(wholes, t.whole), append(runners, t.runner), append(repositories, t.repository)
	}
	share := 100 * float64(repositories.Median()) / float64(runners.Median())
	table.Add(fmt.Sprintf("scaffold with another domain: the whole run; of the runner's time clone and push; medians of %d", repeat),
		fmt.Sprintf("%s; %s of %s: %.0f %%", bench.Seconds(wholes.Median()), bench.Seconds(repositories.Median()), bench.Seconds(runners.Median()), share), "")
	again := run(fmt.Sprintf("bench-%d.example.com", repeat))
	table.Add("the same scaffold again, which pushes nothing: the whole run; of the runner's time the clone",
		fmt.Sprintf("%s; %s of %s: %.0f %%", bench.Seconds(again.whole), bench.Seconds(again.repository), bench.Seconds(again.runner), 100*again.share()), "")
}

// scaffoldTimes are how long the parts of a run have taken.
type scaffoldTimes struct {
	whole      time.Duration // from its Job to its end
	runner     time.Duration // all phases
	repository time.Duration // clone and pushes
	waiting    time.Duration // for sealed-secrets
}

func (t scaffoldTimes) share() float64 { return float64(t.repository) / float64(t.runner) }

// timesOf reads what the runner has published.
func timesOf(b *testing.B, run api.Scaffold) scaffoldTimes {
	b.Helper()
	outputs, err := platform.Kubernetes.CoreV1().Secrets(sim.RunNamespace).Get(b.Context(), runcontract.OutputsSecretName(runcontract.KindScaffold, run.ID), metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	var result runcontract.Result
	if err := json.Unmarshal(outputs.Data[runcontract.KeyResult], &result); err != nil {
		b.Fatal(err)
	}
	t := scaffoldTimes{whole: run.FinishedAt.Sub(*run.StartedAt)}
	for phase, seconds := range result.PhaseSeconds {
		took := time.Duration(seconds * float64(time.Second))
		t.runner += took
		switch phase {
		case api.PhaseClone, api.PhasePushInfrastructure, api.PhasePushComplete:
			t.repository += took
		case api.PhaseWaitingForSealedSecrets:
			t.waiting += took
		default:
		}
	}
	return t
}
