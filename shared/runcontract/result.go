package runcontract

import (
	"encoding/json"
	"time"

	"github.com/kubeopera/platform/shared/api"
)

// Outcome is how a run ended, in the runner's eyes.
type Outcome string

// The outcomes. A result without one belongs to a run that has not ended.
const (
	OutcomeSucceeded Outcome = "succeeded"
	OutcomeFailed    Outcome = "failed"
	OutcomeCancelled Outcome = "cancelled"
)

// Progress is progress.json, written at most every two seconds.
type Progress struct {
	Phase     api.Phase `json:"phase"`
	Done      int       `json:"done"`
	Total     int       `json:"total"`
	Current   string    `json:"current,omitempty"`
	Message   string    `json:"message,omitempty"`
	UpdatedAt time.Time `json:"updated_at"`
	// Nodes is what a cluster's nodes report of themselves while the runner waits
	// for them.
	Nodes []api.Node `json:"nodes,omitempty"`
	// Scaffold is what a scaffolding run has made so far.
	Scaffold *api.ScaffoldOutput `json:"scaffold,omitempty"`
}

// Result is result.json and, compact, the termination message.
type Result struct {
	Outcome    Outcome        `json:"outcome,omitempty"`
	Phase      api.Phase      `json:"phase,omitempty"`
	ErrorCode  ErrorCode      `json:"error_code,omitempty"`
	Message    string         `json:"message,omitempty"`
	Diagnostic *Diagnostic    `json:"diagnostic,omitempty"`
	Changes    *api.Changes   `json:"changes,omitempty"`
	Lock       *api.StateLock `json:"lock,omitempty"`
	// Scaffold is what a scaffolding run has made, also one that failed.
	Scaffold *api.ScaffoldOutput `json:"scaffold,omitempty"`
	// PhaseSeconds is how long each phase took.
	PhaseSeconds map[api.Phase]float64 `json:"phase_seconds,omitempty"`
	FinishedAt   time.Time             `json:"finished_at,omitzero"`
}

// Diagnostic is Terraform's first error, without source snippets.
type Diagnostic struct {
	Summary string `json:"summary"`
	Detail  string `json:"detail,omitempty"`
	Address string `json:"address,omitempty"`
}

// TerminationMessageLimit is how many bytes of a termination message the
// kubelet keeps (its last ones).
const TerminationMessageLimit = 4096

// Compact is the result as JSON of at most TerminationMessageLimit bytes; long
// texts are cut, so that what remains still parses.
func (r Result) Compact() []byte {
	r.PhaseSeconds = nil
	limit := 1500
	for {
		c := r
		c.Message = cut(c.Message, limit)
		if r.Diagnostic != nil {
			d := *r.Diagnostic
			d.Summary, d.Detail, d.Address = cut(d.Summary, limit), cut(d.Detail, limit), cut(d.Address, limit)
			c.Diagnostic = &d
		}
		out, err := json.Marshal(c)
		if err != nil { // no field can fail to marshal
			return nil
		}
		if len(out) <= TerminationMessageLimit || limit == 0 {
			return out
		}
		limit /= 2
	}
}

// cut shortens s to at most n bytes at a rune boundary.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}
