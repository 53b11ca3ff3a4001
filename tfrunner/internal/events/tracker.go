package events

import (
	"slices"

	"github.com/kubeopera/platform/shared/api"
)

// Tracker folds events into progress: how many of the planned changes are done,
// and what is being worked on. The zero value is ready; it is not safe for
// concurrent use.
type Tracker struct {
	total   int
	changes *api.Changes
	applied bool
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
		t.total = max(0, s.Add) + max(0, s.Change) + max(0, s.Remove)
		t.changes = &api.Changes{Add: s.Add, Change: s.Change, Remove: s.Remove}
	case OperationApply, OperationDestroy:
		// Terraform prints this one only after all went well.
		t.applied = true
		t.changes = &api.Changes{Add: s.Add, Change: s.Change, Remove: s.Remove}
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

// Progress is how far the apply has come.
func (t *Tracker) Progress() api.Progress {
	p := api.Progress{Done: min(len(t.done), t.total), Total: t.total}
	if len(t.running) > 0 {
		p.Current = t.running[0]
	}
	return p
}

// Changes counts what the plan changes, or what the apply changed once it has
// finished; nil before the plan is known.
func (t *Tracker) Changes() *api.Changes { return t.changes }

// Applied says that an apply ran to its end without an error.
func (t *Tracker) Applied() bool { return t.applied }
