package runserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/kubeopera/platform/shared/runs"
)

// TestReadyShowsNoDetails: anybody may ask, and a driver's error holds addresses.
func TestReadyShowsNoDetails(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		err, schemaErr error
		schema         int64
		says           string // empty: ready
	}{
		"all is well":                  {schema: 7},
		"an older backup was restored": {schema: 6, schemaErr: fmt.Errorf("%w: schema 6, of 10.1.2.3", runs.ErrDatabase), says: "database"},
		"the database is away":         {err: fmt.Errorf("%w: user=kubeopera host=10.1.2.3", runs.ErrDatabase), says: "database"},
		"the schema cannot be read":    {schemaErr: fmt.Errorf("%w: 10.1.2.3", runs.ErrDatabase), says: "database"},
		"Kubernetes is away":           {err: fmt.Errorf("%w: dial 10.1.2.3", runs.ErrKubernetes), says: "Kubernetes API"},
		"something else is off":        {err: errors.New("10.1.2.3"), says: "log"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			check := ready(func(context.Context) error { return c.err }, func(context.Context) (int64, error) { return c.schema, c.schemaErr },
				slog.New(slog.NewTextHandler(&log, nil)))
			details, err := check(t.Context())
			if c.says == "" {
				if err != nil || log.Len() > 0 || details["schema_version"] != fmt.Sprint(c.schema) {
					t.Errorf("error %v, details %v, log %s", err, details, &log)
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
