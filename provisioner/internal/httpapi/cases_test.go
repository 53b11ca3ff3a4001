package httpapi

import (
	"testing"

	"github.com/kubeopera/platform/shared/runapi/runapitest"
)

func readCases(tb testing.TB) []runapitest.Case {
	tb.Helper()
	return runapitest.ReadCases(tb, "testdata/provision-requests.json", 50)
}

// TestRequestCases sends every case of the file.
func TestRequestCases(t *testing.T) {
	t.Parallel()
	for _, c := range readCases(t) {
		t.Run(c.Title, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			if !c.Check(t, f.API, "/api/v1/provisions") && len(f.runs.started) > 0 {
				t.Error("a refused request has started a run")
			}
		})
	}
}
