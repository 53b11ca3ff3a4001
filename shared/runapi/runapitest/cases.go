package runapitest

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kubeopera/platform/shared/api"
)

// Case is a request that starts a run, with the answer that it must get.
type Case struct {
	Title      string            `json:"title"`
	Body       json.RawMessage   `json:"body"`
	RawBody    *string           `json:"raw_body"`
	Headers    map[string]string `json:"headers"`
	WantStatus statuses          `json:"want_status"`
	WantField  string            `json:"want_field"`
	Given      string            `json:"given"` // what must be true before
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

// ReadCases reads a file of cases, which has at least so many.
func ReadCases(tb testing.TB, file string, least int) []Case {
	tb.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	var content struct{ Cases []Case }
	if err := json.Unmarshal(data, &content); err != nil {
		tb.Fatal(err)
	}
	if len(content.Cases) < least {
		tb.Fatalf("only %d cases", len(content.Cases))
	}
	return content.Cases
}

// Text is the body as it is sent.
func (c Case) Text() string {
	if c.RawBody != nil {
		return *c.RawBody
	}
	return string(c.Body)
}

// Check sends the case's request and judges the answer, which it says is accepted
// or not.
func (c Case) Check(t *testing.T, a API, path string) (accepted bool) {
	t.Helper()
	w := a.Do(http.MethodPost, path, c.Text(), c.Headers)
	if !slices.Contains(c.WantStatus, w.Code) {
		t.Fatalf("status %d, want %v; answer %s", w.Code, c.WantStatus, w.Body)
	}
	if w.Code == http.StatusAccepted {
		return true
	}
	if got := w.Header().Get("Content-Type"); got != api.ProblemContentType {
		t.Errorf("content type %q", got)
	}
	p := Decode[api.Problem](t, w)
	if p.Code == "" || p.Detail == "" || p.Status != w.Code {
		t.Errorf("problem %+v lacks code, detail or status", p)
	}
	if c.WantField != "" && !slices.ContainsFunc(p.Errors, func(e api.FieldProblem) bool {
		return e.Location == "body."+c.WantField || e.Location == "header."+c.WantField || strings.HasPrefix(e.Location, "body."+c.WantField+".") || strings.HasPrefix(e.Location, "body."+c.WantField+"[")
	}) {
		t.Errorf("no problem names %s: %+v", c.WantField, p.Errors)
	}
	return false
}
