// Package progress shows how a run goes while somebody waits for it: a picture
// that is redrawn on a terminal (Live), lines elsewhere (Lines).
//
// What is drawn is a pure function, Frame, of what has been seen of the run
// (History), the time and the screen. Of what kind a run is makes no difference:
// Run is what all of them show.
package progress

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubeopera/platform/shared/api"
)

// Run is what is shown of a run.
type Run struct {
	ID    string
	Title string   // what it does to what, such as "apply acme-prod"
	About []string // more of what it is about, such as a region
	api.RunStatus
	Unit  string     // what RunStatus.Progress counts, such as "resources"
	Nodes []api.Node // of the cluster that is being built
	Made  []Fact     // what else there is already
}

// Fact is one thing that a run has made, such as a commit.
type Fact struct{ Name, Value string }

// Step is a phase that the run is or was in.
type Step struct {
	Name  string
	Began time.Time
	Ended time.Time // zero while the run is in it
}

// History is what has been seen of a run.
type History struct {
	Run   Run
	Steps []Step
}

// Seed adds the timeline of a run that has been going for a while, before the
// first Add.
func (h *History) Seed(events []api.Event) {
	for _, e := range events {
		h.enter(stepName(e.Status, e.Phase), e.At)
	}
}

// Add takes in the run as it is now.
func (h *History) Add(run Run) {
	h.Run = run
	if Final(run.Status) {
		h.leave(endOf(run.RunStatus))
		return
	}
	h.enter(stepName(run.Status, run.Phase), run.UpdatedAt)
}

func (h *History) enter(name string, at time.Time) {
	if name == "" || len(h.Steps) > 0 && h.Steps[len(h.Steps)-1].Name == name {
		return
	}
	h.leave(at)
	h.Steps = append(h.Steps, Step{Name: name, Began: at})
}

func (h *History) leave(at time.Time) {
	if n := len(h.Steps); n > 0 && h.Steps[n-1].Ended.IsZero() {
		h.Steps[n-1].Ended = at
	}
}

// stepName is a phase in words; empty for an end, which is no step.
func stepName(status api.Status, phase api.Phase) string {
	switch {
	case Final(status):
		return ""
	case status == api.StatusCancelling:
		return words(string(status))
	case phase == "" || phase == api.PhaseDone:
		return words(string(status))
	}
	return words(string(phase))
}

func words(s string) string { return strings.ReplaceAll(s, "_", " ") }

// Final is true for statuses that never change.
func Final(s api.Status) bool {
	return s == api.StatusSucceeded || s == api.StatusFailed || s == api.StatusCancelled
}

func endOf(run api.RunStatus) time.Time {
	if run.FinishedAt != nil {
		return *run.FinishedAt
	}
	return run.UpdatedAt
}

// Elapsed is how long the run has been going, in words.
func Elapsed(run api.RunStatus, now time.Time) string {
	if Final(run.Status) {
		now = endOf(run)
	}
	return Duration(now.Sub(run.CreatedAt))
}

// Duration is a duration as people say it: 9s, 4m05s, 1h02m. The clocks of two
// machines may differ: there is no time before a begin.
func Duration(d time.Duration) string {
	s := int(max(d, 0) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 48*3600:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd", s/86400)
}

// counts is how much is done; empty before that is known, and once they
// all are and the run is about something else.
func counts(run Run) string {
	p := run.Progress
	working := slices.Contains([]api.Phase{api.PhaseApply, api.PhaseDestroy, api.PhasePreparingMachines, api.PhaseResettingMachines}, run.Phase)
	if p == nil || p.Total <= 0 || Final(run.Status) || p.Done >= p.Total && !working {
		return ""
	}
	return fmt.Sprintf("%d of %d %s", p.Done, p.Total, run.Unit)
}

func place(run Run) string {
	return fmt.Sprintf("place %d in the queue", run.QueuePosition)
}
