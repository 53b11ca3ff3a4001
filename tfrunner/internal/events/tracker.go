package events

import (
	"slices"

	"github.com/kubeopera/platform/shared/api"
)

// Tracker folds events into progress: how many of the planned changes are done,
// and what is being worked on. The zero value is ready; it is not safe for
// concurrent use.
type Tracker struct {
	planned *api.Changes
	applied *api.Changes // by an apply that ran to its end
	done    map[change]bool
	// running is in the order of start: the first one is what everything waits for.
	running []string
}

// change tells the two halves of a replacement apart, which the plan counts as two.
type change struct{ address, action string }

// Observe takes the next event.
func (t *Tracker) Observe(e Event) {
	switch e.Kind {
	case KindChangeSummary:
		t.summary(e.Summary)
	case KindApplyStart:
		if counts(e.Action) && !slices.Contains(t.running, e.Address) {
			t.running = append(t.running, e.Address)
		}
	case KindApplyComplete:
		t.stop(e.Address)
		if counts(e.Action) {
			if t.done == nil {
				t.done = map[change]bool{}
			}
			t.done[change{e.Address, e.Action}] = true
		}
	case KindApplyErrored:
		t.stop(e.Address)
	default: // tells nothing of progress
	}
}

func (t *Tracker) summary(s *Summary) {
	if s == nil {
		return
	}
	switch s.Operation {
	case OperationPlan:
		t.planned = &api.Changes{Add: max(0, s.Add), Change: max(0, s.Change), Remove: max(0, s.Remove)}
	case OperationApply, OperationDestroy:
		// Terraform prints this one only after all went well.
		t.applied = &api.Changes{Add: max(0, s.Add), Change: max(0, s.Change), Remove: max(0, s.Remove)}
	}
}

func (t *Tracker) stop(address string) {
	if i := slices.Index(t.running, address); i >= 0 {
		t.running = slices.Delete(t.running, i, i+1)
	}
}

// counts is false for data sources that are read during an apply: the plan does not count them.
func counts(action string) bool {
	return action == "create" || action == "update" || action == "delete"
}

// Progress is how far the apply has come. Once it has ended well, all is done:
// what Terraform counts twice, such as the deletion of an object that an earlier
// replacement left behind, has one address only.
func (t *Tracker) Progress() api.Progress {
	if t.applied != nil {
		n := sum(t.applied)
		return api.Progress{Done: n, Total: n}
	}
	total := sum(t.planned)
	p := api.Progress{Done: min(len(t.done), total), Total: total}
	if len(t.running) > 0 {
		p.Current = t.running[0]
	}
	return p
}

func sum(c *api.Changes) int {
	if c == nil {
		return 0
	}
	return c.Add + c.Change + c.Remove
}

// Planned counts what the plan changes; nil before the plan is known.
func (t *Tracker) Planned() *api.Changes { return t.planned }

// Changes counts what was changed so far.
func (t *Tracker) Changes() api.Changes {
	if t.applied != nil {
		return *t.applied
	}
	var c api.Changes
	for change := range t.done {
		switch change.action {
		case "create":
			c.Add++
		case "update":
			c.Change++
		case "delete":
			c.Remove++
		}
	}
	return c
}
