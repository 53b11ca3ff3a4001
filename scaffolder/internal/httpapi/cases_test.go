package httpapi

import (
	"testing"

	"github.com/kubeopera/platform/scaffolder/internal/scaffold"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runapi/runapitest"
)

func readCases(tb testing.TB) []runapitest.Case {
	tb.Helper()
	return runapitest.ReadCases(tb, "testdata/scaffold-requests.json", 30)
}

// TestRequestCases sends every case of the file.
func TestRequestCases(t *testing.T) {
	t.Parallel()
	for _, c := range readCases(t) {
		t.Run(c.Title, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			switch c.Given {
			case "", "the provision exists and has succeeded":
			case "the provision exists and is running":
				w.clusters.fail = &scaffold.ClusterError{Provision: provisionID, Status: api.StatusRunning, Reason: "wait until it has succeeded"}
			default:
				t.Fatalf("nothing is known of %q", c.Given)
			}
			if !c.Check(t, w.API, "/api/v1/scaffolds") && len(w.Recent(t, nil)) > 0 {
				t.Error("a refused request has started a run")
			}
		})
	}
}
