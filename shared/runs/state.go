package runs

import (
	"slices"
	"strings"

	"github.com/kubeopera/platform/shared/api"
)

// order lists the statuses as they occur in a run's life.
var order = []api.Status{
	api.StatusQueued, api.StatusRunning, api.StatusCancelling,
	api.StatusSucceeded, api.StatusFailed, api.StatusCancelled,
}

// transitions is the state machine of a run. A run becomes cancelled only when
// somebody asked for it: from the queue, or through cancelling.
var transitions = map[api.Status][]api.Status{
	api.StatusQueued:     {api.StatusRunning, api.StatusFailed, api.StatusCancelled},
	api.StatusRunning:    {api.StatusCancelling, api.StatusSucceeded, api.StatusFailed},
	api.StatusCancelling: {api.StatusSucceeded, api.StatusFailed, api.StatusCancelled},
	api.StatusSucceeded:  {},
	api.StatusFailed:     {},
	api.StatusCancelled:  {},
}

// phases lists the phases in the order in which a run passes them. A run has those
// of its kind only, so that one order does for both.
var phases = []api.Phase{
	api.PhaseWaitingForSlot, api.PhaseStarting, api.PhasePulling, api.PhaseCloning,
	api.PhasePreparingState, api.PhaseConnecting, api.PhasePreparingMachines, api.PhaseResettingMachines, api.PhaseInit, api.PhaseUnlock, api.PhasePlan, api.PhaseCleanUp, api.PhaseApply, api.PhaseDestroy,
	api.PhaseWaitingForControlPlane, api.PhaseWaitingForNodes,
	api.PhaseClone, api.PhaseGenerateInfrastructure, api.PhasePushInfrastructure, api.PhaseWaitingForSealedSecrets, api.PhaseSeal, api.PhasePushComplete,
	api.PhasePublishing, api.PhaseDone,
}

// Statuses are all statuses, in the order of a run's life.
func Statuses() []api.Status { return slices.Clone(order) }

// Final says whether a status never changes.
func Final(s api.Status) bool {
	next, known := transitions[s]
	return known && len(next) == 0
}

// LiveStatuses are those of a run that holds its environment.
func LiveStatuses() []api.Status {
	return slices.DeleteFunc(Statuses(), Final)
}

// FinalStatuses are those that never change.
func FinalStatuses() []api.Status {
	return slices.DeleteFunc(Statuses(), func(s api.Status) bool { return !Final(s) })
}

// Predecessors are the statuses whose rows may be rewritten with status s: those
// that may become s, and s itself while it is live.
func Predecessors(s api.Status) []api.Status {
	return slices.DeleteFunc(Statuses(), func(from api.Status) bool { return checkMove(from, s) != nil })
}

// checkMove says whether a row may go from one status to another. A live row may
// be rewritten without a change of status; a final one may not.
func checkMove(from, to api.Status) error {
	if from == to && !Final(from) || slices.Contains(transitions[from], to) {
		return nil
	}
	return &TransitionError{From: from, To: to}
}

// later is the later one of two phases. A phase that this version does not know
// never replaces one that it does.
func later(a, b api.Phase) api.Phase {
	if slices.Index(phases, b) > slices.Index(phases, a) {
		return b
	}
	return a
}

// Mermaid draws the state machine, for state_machine.md.
func Mermaid() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	b.WriteString("    [*] --> " + string(api.StatusQueued) + "\n")
	for _, from := range order {
		for _, to := range transitions[from] {
			b.WriteString("    " + string(from) + " --> " + string(to) + "\n")
		}
		if Final(from) {
			b.WriteString("    " + string(from) + " --> [*]\n")
		}
	}
	return b.String()
}
