package envcmd

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubeopera/platform/provisioner/internal/cli/progress"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/provisioner"
)

// watch turns what the library reports into what is shown.
type watch struct {
	mu   sync.Mutex
	run  progress.Run
	show func(progress.Run) // nil before there is a display
}

func newWatch(verb string, t *target) *watch {
	now := time.Now()
	w := &watch{run: progress.Run{
		Title:     verb + " " + t.env.Name,
		About:     []string{machinesOf(t)},
		RunStatus: api.RunStatus{Status: api.StatusRunning, Phase: provisioner.PhaseConnecting, CreatedAt: now, UpdatedAt: now, StartedAt: &now},
	}}
	for _, n := range t.nodes {
		w.run.Nodes = append(w.run.Nodes, api.Node{Name: n.Name, State: api.NodeWaiting})
	}
	return w
}

func machinesOf(t *target) string {
	if t.env.Spec.Cluster == nil {
		return t.env.Spec.HostUrl
	}
	return fmt.Sprintf("%d machines", len(t.nodes))
}

// on begins to show.
func (w *watch) on(show func(progress.Run)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.show = show
	w.update()
}

// update needs mu.
func (w *watch) update() {
	w.run.UpdatedAt = time.Now()
	if w.show != nil {
		run := w.run
		run.Nodes = slices.Clone(run.Nodes)
		w.show(run)
	}
}

// said is the library's last word.
func (w *watch) said(message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run.Message = strings.TrimSpace(message)
	w.update()
}

// node is a node's progress.
func (w *watch) node(p provisioner.NodeProgress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.run.Nodes, func(n api.Node) bool { return n.Name == p.Node })
	if i < 0 {
		return
	}
	state, phase := p.State(), api.Phase(p.Phase)
	var words []string
	for _, word := range []string{p.Phase, p.Step, firstLine(p.Message)} {
		if word != "" && word != string(state) && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	w.run.Nodes[i].State, w.run.Nodes[i].Message = state, strings.Join(words, ": ")
	if slices.Index(phases, phase) > slices.Index(phases, w.run.Phase) {
		w.run.Phase = phase
	}
	w.update()
}

// end is how it went.
func (w *watch) end(status api.Status, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.run.Status, w.run.Phase, w.run.Message, w.run.FinishedAt = status, api.PhaseDone, message, &now
	w.update()
}

// phases are those of nodes that are phases of the whole, too, in their order.
var phases = []api.Phase{
	provisioner.PhaseConnecting, provisioner.PhasePreparing, provisioner.PhaseInitializing, provisioner.PhaseJoining, provisioner.PhaseConfiguring, provisioner.PhaseResetting,
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
