package httpapi

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kubeopera/platform/shared/api"
)

type requestCase struct {
	Title      string            `json:"title"`
	Body       json.RawMessage   `json:"body"`
	RawBody    *string           `json:"raw_body"`
	Headers    map[string]string `json:"headers"`
	WantStatus statuses          `json:"want_status"`
	WantField  string            `json:"want_field"`
	Why        string            `json:"why"`
}

// statuses is one status or a list of them.
type statuses []int

func (s *statuses) UnmarshalJSON(data []byte) error {
	var one int
	if json.Unmarshal(data, &one) == nil {
		*s = statuses{one}
		return nil
	}
	return json.Unmarshal(data, (*[]int)(s))
}

func readCases(tb testing.TB) []requestCase {
	tb.Helper()
	data, err := os.ReadFile("testdata/provision-requests.json")
	if err != nil {
		tb.Fatal(err)
	}
	var file struct{ Cases []requestCase }
	if err := json.Unmarshal(data, &file); err != nil {
		tb.Fatal(err)
	}
	if len(file.Cases) < 50 {
		tb.Fatalf("only %d cases", len(file.Cases))
	}
	return file.Cases
}

func (c requestCase) text() string {
	if c.RawBody != nil {
		return *c.RawBody
	}
	return string(c.Body)
}

// TestRequestCases sends every case of the file.
func TestRequestCases(t *testing.T) {
	t.Parallel()
	for _, c := range readCases(t) {
		t.Run(c.Title, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			w := f.do(http.MethodPost, "/api/v1/provisions", c.text(), c.Headers)
			if !slices.Contains(c.WantStatus, w.Code) {
				t.Fatalf("status %d, want %v; answer %s", w.Code, c.WantStatus, w.Body)
			}
			if w.Code == http.StatusAccepted {
				return
			}
			if got := w.Header().Get("Content-Type"); got != api.ProblemContentType {
				t.Errorf("content type %q", got)
			}
			var p api.Problem
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
				t.Fatal(err)
			}
			if p.Code == "" || p.Detail == "" || p.Status != w.Code {
				t.Errorf("problem %+v lacks code, detail or status", p)
			}
			if c.WantField != "" && !slices.ContainsFunc(p.Errors, func(e api.FieldProblem) bool {
				return e.Location == "body."+c.WantField || strings.HasPrefix(e.Location, "body."+c.WantField+".") || strings.HasPrefix(e.Location, "body."+c.WantField+"[")
			}) {
				t.Errorf("no problem names %s: %+v", c.WantField, p.Errors)
			}
			if len(f.runs.started) > 0 {
				t.Error("a refused request has started a run")
			}
		})
	}
}
