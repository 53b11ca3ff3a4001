// Package events reads the JSON lines that terraform prints with -json: what it
// plans, what it does and what goes wrong. It is pure: bytes in, values out.
//
// Three things are left out on purpose. Source snippets of diagnostics and the
// values of outputs never leave this package, since both may hold secrets; and
// a line that looks like JSON but cannot be parsed is dropped, not shown.
package events

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
)

// Kind is an event's type, in Terraform's own words.
type Kind string

// The kinds of events that the runner looks at; there are others.
const (
	KindVersion           Kind = "version"
	KindInit              Kind = "init_output"
	KindLog               Kind = "log"
	KindDiagnostic        Kind = "diagnostic"
	KindPlannedChange     Kind = "planned_change"
	KindDrift             Kind = "resource_drift"
	KindChangeSummary     Kind = "change_summary"
	KindOutputs           Kind = "outputs"
	KindApplyStart        Kind = "apply_start"
	KindApplyProgress     Kind = "apply_progress"
	KindApplyComplete     Kind = "apply_complete"
	KindApplyErrored      Kind = "apply_errored"
	KindProvisionProgress Kind = "provision_progress"
	// KindText is a line that is not JSON: Terraform prints a few of those as well.
	KindText Kind = "text"
	// KindUnreadable is JSON that could not be understood.
	KindUnreadable Kind = "unreadable"
)

// Operation says what a change summary sums up.
type Operation string

// The operations of a change summary.
const (
	OperationPlan    Operation = "plan"
	OperationApply   Operation = "apply"
	OperationDestroy Operation = "destroy"
)

// Event is one line of Terraform's output.
type Event struct {
	Kind Kind
	// Text is Terraform's own sentence.
	Text string
	// Address and Action name the resource and what happens to it, where the event has one.
	Address string
	Action  string
	Elapsed time.Duration
	// Diagnostic is set for KindDiagnostic.
	Diagnostic *Diagnostic
	// Summary is set for KindChangeSummary.
	Summary *Summary
}

// Diagnostic is a warning or an error, without source snippet.
type Diagnostic struct {
	Error   bool
	Summary string
	Detail  string
	Address string
}

// Summary counts changes that are planned, or that an apply made.
type Summary struct {
	Operation           Operation
	Add, Change, Remove int
}

// line is the wire form: the union of all kinds.
type line struct {
	Kind       Kind   `json:"type"`
	Text       string `json:"@message"`
	Diagnostic *struct {
		Severity string `json:"severity"`
		Summary  string `json:"summary"`
		Detail   string `json:"detail"`
		Address  string `json:"address"`
	} `json:"diagnostic"`
	Change *struct {
		Resource resource `json:"resource"`
		Action   string   `json:"action"`
	} `json:"change"`
	Hook *struct {
		Resource       resource `json:"resource"`
		Action         string   `json:"action"`
		ElapsedSeconds float64  `json:"elapsed_seconds"`
	} `json:"hook"`
	Changes *struct {
		Add       int       `json:"add"`
		Change    int       `json:"change"`
		Remove    int       `json:"remove"`
		Operation Operation `json:"operation"`
	} `json:"changes"`
}

type resource struct {
	Address string `json:"addr"`
}

// maxElapsed bounds what a line may claim, so that the arithmetic stays sane.
const maxElapsed = 365 * 24 * time.Hour

// Parse reads one line. It never fails: what is not JSON is KindText, and JSON
// that cannot be understood is KindUnreadable.
func Parse(data []byte) Event {
	data = bytes.TrimSpace(data)
	if !bytes.HasPrefix(data, []byte("{")) {
		return Event{Kind: KindText, Text: string(data)}
	}
	var l line
	if err := json.Unmarshal(data, &l); err != nil || l.Kind == "" {
		return Event{Kind: KindUnreadable}
	}
	e := Event{Kind: l.Kind, Text: strings.TrimSpace(l.Text)}
	switch {
	case l.Kind == KindDiagnostic && l.Diagnostic != nil:
		e.Diagnostic = &Diagnostic{
			Error:   l.Diagnostic.Severity == "error",
			Summary: l.Diagnostic.Summary,
			Detail:  l.Diagnostic.Detail,
			Address: l.Diagnostic.Address,
		}
		e.Address = l.Diagnostic.Address
	case l.Kind == KindChangeSummary && l.Changes != nil:
		e.Summary = &Summary{
			Operation: l.Changes.Operation,
			Add:       l.Changes.Add,
			Change:    l.Changes.Change,
			Remove:    l.Changes.Remove,
		}
	case l.Change != nil:
		e.Address, e.Action = l.Change.Resource.Address, l.Change.Action
	case l.Hook != nil:
		e.Address, e.Action = l.Hook.Resource.Address, l.Hook.Action
		if s := l.Hook.ElapsedSeconds; s > 0 && s < maxElapsed.Seconds() {
			e.Elapsed = time.Duration(s * float64(time.Second))
		}
	}
	return e
}
