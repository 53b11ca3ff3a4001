package runs_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runs/runstest"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t)
	good, bad, odd, queued := begin(t, e, "good"), begin(t, e, "bad"), begin(t, e, "odd"), begin(t, e, "queued")
	w.pass(7 * time.Second)
	e.Sweep(t.Context())
	for id, result := range map[runs.ID]*runcontract.Result{
		good.ID: succeeded, bad.ID: failed,
		odd.ID: {Outcome: runcontract.OutcomeFailed, ErrorCode: runcontract.ErrorCode(odd.ID), Message: "no"},
	} {
		w.cluster.Start(id)
		w.pass(time.Minute)
		w.cluster.Finish(id, 0, result)
		e.Sweep(t.Context())
	}
	w.expect(t, queued.ID, api.StatusRunning)
	cancel(t, e, begin(t, e, "unwanted").ID)

	got := gather(t, e)
	want := map[string]float64{
		"kubeopera_run_ends_total  provision apply cancelled":                    1,
		"kubeopera_run_ends_total  provision apply succeeded":                    1,
		"kubeopera_run_ends_total other provision apply failed":                  1,
		"kubeopera_run_ends_total terraform_apply_failed provision apply failed": 1,
		"kubeopera_run_waiters provision":                                        0,
		"kubeopera_runs provision cancelled":                                     1,
		"kubeopera_runs provision cancelling":                                    0,
		"kubeopera_runs provision failed":                                        2,
		"kubeopera_runs provision queued":                                        0,
		"kubeopera_runs provision running":                                       1,
		"kubeopera_runs provision succeeded":                                     1,
		"kubeopera_runs_scrape_errors_total provision":                           0,
		"kubeopera_run_queue_seconds provision apply":                            3*7 + 127, // the fourth got its slot at the second sweep after the first end
		"kubeopera_run_duration_seconds provision apply succeeded":               got["kubeopera_run_duration_seconds provision apply succeeded"],
		"kubeopera_run_duration_seconds provision apply failed":                  360 - got["kubeopera_run_duration_seconds provision apply succeeded"],
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// gather gives the value, or a histogram's sum, of each metric: its name and the
// values of its labels, whose names are in order.
func gather(t *testing.T, e *runs.Engine) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(e.Collector()); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, pair := range m.GetLabel() {
				name += " " + pair.GetValue()
			}
			values[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
		}
	}
	return values
}

// uncounted is a database that does not answer.
type uncounted struct{ runs.Store }

func (uncounted) Count(context.Context) (map[api.Status]int, error) { return nil, runs.ErrDatabase }

func TestMetricsWithoutADatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(runstest.NewStore())
	e := w.engine(t, func(c *runs.Config) { c.Store = uncounted{w.store} })
	want := map[string]float64{"kubeopera_run_waiters provision": 0, "kubeopera_runs_scrape_errors_total provision": 1}
	if diff := cmp.Diff(want, gather(t, e)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
