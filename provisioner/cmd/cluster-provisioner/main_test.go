package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/kubeopera/platform/shared/runs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func none(string) string { return "" }

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{"--help": "MODULES_REPOSITORY_URL", "-h": "(required)", "--version": "devel"} {
		var stdout, stderr bytes.Buffer
		if err := run(t.Context(), []string{arg}, none, &stdout, &stderr); err != nil || !strings.Contains(stdout.String(), want) || stderr.Len() > 0 {
			t.Errorf("%s: error %v, stdout %q, stderr %q", arg, err, &stdout, &stderr)
		}
	}
}

func TestWrongUse(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		args []string
		says string
	}{
		"an unknown flag":           {[]string{"--port=1"}, "--help"},
		"an argument":               {[]string{"serve"}, "--help"},
		"nothing configured at all": {nil, "AUTH_SERVICE_URL is required"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			if err := run(context.WithoutCancel(t.Context()), c.args, none, &out, &out); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that says %q", err, c.says)
			}
		})
	}
}

// TestReadyShowsNoDetails: anybody may ask, and a driver's error holds addresses.
func TestReadyShowsNoDetails(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		err  error
		says string
	}{
		"all is well":           {nil, ""},
		"the database is away":  {fmt.Errorf("%w: user=kubeopera host=10.1.2.3", runs.ErrDatabase), "database"},
		"Kubernetes is away":    {fmt.Errorf("%w: dial 10.1.2.3", runs.ErrKubernetes), "Kubernetes API"},
		"something else is off": {errors.New("10.1.2.3"), "log"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			err := ready(func(context.Context) error { return c.err }, slog.New(slog.NewTextHandler(&log, nil)))(t.Context())
			if c.err == nil {
				if err != nil || log.Len() > 0 {
					t.Errorf("error %v, log %s", err, &log)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "10.1.2.3") {
				t.Errorf("error %v, want one that says %q and no address", err, c.says)
			}
			if !strings.Contains(log.String(), "10.1.2.3") {
				t.Errorf("the log lacks the reason: %s", &log)
			}
		})
	}
}
