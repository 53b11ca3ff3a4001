package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	duration *prometheus.HistogramVec
	refused  *prometheus.CounterVec
}

func newMetrics(registry *prometheus.Registry) (*metrics, error) {
	m := &metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "http_server_request_duration_seconds",
			Help:    "How long requests took, long polls and log streams included.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"method", "route", "status"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "http_server_auth_failures_total",
			Help: "Requests refused for their API key.",
		}, []string{"reason"}),
	}
	for _, c := range []prometheus.Collector{m.duration, m.refused} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("http api metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) observe(method, route string, status int, took time.Duration) {
	switch method { // anybody can send any word as a method
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
	default:
		method = "other"
	}
	m.duration.WithLabelValues(method, route, strconv.Itoa(status)).Observe(took.Seconds())
}

// levelOf keeps probes and scrapes, several a minute, out of an ordinary log.
func levelOf(route string, status int) slog.Level {
	switch {
	case route == "/ready" && status == http.StatusServiceUnavailable:
		return slog.LevelWarn
	case status >= http.StatusInternalServerError:
		return slog.LevelError
	case route == "/health" || route == "/ready" || route == "/metrics":
		return slog.LevelDebug
	}
	return slog.LevelInfo
}
