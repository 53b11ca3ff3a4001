package progress

import (
	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
	"github.com/kubeopera/platform/shared/api"
)

// Display shows a run.
type Display interface {
	// Seed adds the timeline of a run that has been going for a while, before Run.
	Seed(events []api.Event)
	// Run shows the run while watch is busy, which calls show whenever it has changed.
	Run(watch func(show func(Run)) error) error
}

// On is the display for a terminal's Err: a picture if it can show one, else lines;
// nothing at all if it is to be quiet.
func On(t terminal.Terminal, quiet bool) Display {
	if quiet {
		return nothing{}
	}
	if _, ok := t.Screen(); !ok {
		return NewLines(t.Err)
	}
	return NewLive(t.Err, func() terminal.Screen {
		screen, _ := t.Screen()
		return screen
	})
}

type nothing struct{}

func (nothing) Seed([]api.Event)                      {}
func (nothing) Run(watch func(func(Run)) error) error { return watch(func(Run) {}) }
