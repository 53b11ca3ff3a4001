package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"go.uber.org/goleak"
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
