package runs

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kubeopera/platform/shared/runcontract"
)

// metrics are what an engine counts. What it says of all runs is the same in each
// replica; ends and durations are counted by the replica that stored them.
type metrics struct {
	store   Reader
	waiters *waiters

	runs     *prometheus.Desc
	waiting  *prometheus.Desc
	failed   prometheus.Counter
	ends     *prometheus.CounterVec
	queued   *prometheus.HistogramVec
	duration *prometheus.HistogramVec
}

// runSeconds are buckets from a plan of seconds to a cluster of two hours.
var runSeconds = []float64{10, 30, 60, 120, 300, 600, 900, 1200, 1800, 2700, 3600, 5400, 7200}

func newMetrics(kind runcontract.Kind, store Reader, waiters *waiters) *metrics {
	kinds := prometheus.Labels{"kind": string(kind)}
	return &metrics{
		store: store, waiters: waiters,
		runs:    prometheus.NewDesc("kubeopera_runs", "Runs in the database by status; every replica says the same.", []string{"status"}, kinds),
		waiting: prometheus.NewDesc("kubeopera_run_waiters", "Callers that wait for a run to change, in this process.", nil, kinds),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kubeopera_runs_scrape_errors_total", Help: "Scrapes for which the database did not answer.", ConstLabels: kinds,
		}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubeopera_run_ends_total", Help: "Runs that have ended.", ConstLabels: kinds,
		}, []string{"operation", "status", "error_code"}),
		queued: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubeopera_run_queue_seconds", Help: "Time from the acceptance of a run to its Job.", ConstLabels: kinds,
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 1800, 3600, 7200},
		}, []string{"operation"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubeopera_run_duration_seconds", Help: "Time from the Job of a run to its end.", ConstLabels: kinds, Buckets: runSeconds,
		}, []string{"operation", "status"}),
	}
}

// Collector gives the engine's metrics.
func (e *Engine) Collector() prometheus.Collector { return e.metrics }

// note counts a change of a run.
func (m *metrics) note(was, now Run) {
	operation := string(now.Operation)
	if was.StartedAt.IsZero() && !now.StartedAt.IsZero() {
		m.queued.WithLabelValues(operation).Observe(now.StartedAt.Sub(now.CreatedAt).Seconds())
	}
	if Final(was.Status) || !Final(now.Status) {
		return
	}
	m.ends.WithLabelValues(operation, string(now.Status), label(now.ErrorCode)).Inc()
	if !now.StartedAt.IsZero() {
		m.duration.WithLabelValues(operation, string(now.Status)).Observe(now.FinishedAt.Sub(now.StartedAt).Seconds())
	}
}

// label is an error code as a label: what a runner reports may be anything.
func label(code string) string {
	if code == "" || known(runcontract.ErrorCode(code)) {
		return code
	}
	return "other"
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	out <- m.runs
	out <- m.waiting
	for _, c := range m.parts() {
		c.Describe(out)
	}
}

// Collect implements prometheus.Collector. If the database does not answer, the
// rest is given all the same.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // a scrape has no context
	defer cancel()
	counts, err := m.store.Count(ctx)
	if err != nil {
		m.failed.Inc()
	}
	for _, status := range Statuses() {
		if err == nil {
			out <- prometheus.MustNewConstMetric(m.runs, prometheus.GaugeValue, float64(counts[status]), string(status))
		}
	}
	out <- prometheus.MustNewConstMetric(m.waiting, prometheus.GaugeValue, float64(m.waiters.waiting()))
	for _, c := range m.parts() {
		c.Collect(out)
	}
}

func (m *metrics) parts() []prometheus.Collector {
	return []prometheus.Collector{m.failed, m.ends, m.queued, m.duration}
}
