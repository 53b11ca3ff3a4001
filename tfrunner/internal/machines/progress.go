package machines

import (
	"slices"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/provisioner"
)

// observe takes what a machine is doing over into the progress. The library calls
// it for one machine at a time.
func (r *machinesRun) observe(p provisioner.NodeProgress) {
	r.mu.Lock()
	i := slices.IndexFunc(r.nodes, func(n api.Node) bool { return n.Name == p.Node })
	if i < 0 {
		r.mu.Unlock()
		return
	}
	before := r.nodes[i]
	r.nodes[i].State, r.nodes[i].Message = p.State(), message(p)
	now := r.nodes[i]
	if now.State == api.NodeJoined || now.State == api.NodeReset || now.State == api.NodeFailed {
		if r.current == p.Node {
			r.current = ""
		}
	} else {
		r.current = p.Node
	}
	r.mu.Unlock()
	if phase, ok := phaseOf(p); ok && r.Spec.Operation == api.OperationApply && later(phase, r.Phase()) {
		r.Enter(phase)
	}
	if now != before {
		r.Log.Printf("%s: %s", p.Node, now.Message)
	}
	r.Report()
}

// record takes the end of every machine over, of those too that no progress told of.
func (r *machinesRun) record(result *provisioner.ClusterResult) {
	if result == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range result.Nodes {
		i := slices.IndexFunc(r.nodes, func(known api.Node) bool { return known.Name == n.Name })
		if i < 0 || n.Err == nil {
			continue
		}
		r.nodes[i].State, r.nodes[i].Message = api.NodeFailed, n.Step+": "+n.Err.Error()
	}
	r.current = ""
}

func message(p provisioner.NodeProgress) string {
	text := p.Phase
	if p.Step != "" {
		text += ": " + p.Step
	}
	if p.Message != "" {
		text += ": " + p.Message
	}
	return text
}

// phases are those of an apply that machines bring about, in their order.
var phases = []api.Phase{api.PhasePreparingMachines, api.PhaseWaitingForControlPlane, api.PhaseWaitingForNodes}

// phaseOf is the phase of a run that a machine's progress shows.
func phaseOf(p provisioner.NodeProgress) (api.Phase, bool) {
	switch {
	case p.Phase == provisioner.PhaseInitializing, p.Phase == provisioner.PhaseJoining && p.Role == string(api.RoleControlPlane):
		return api.PhaseWaitingForControlPlane, true
	case p.Phase == provisioner.PhaseJoining, p.Phase == provisioner.PhaseConfiguring:
		return api.PhaseWaitingForNodes, true
	}
	return "", false
}

// later says whether a phase comes after the current one: phases never go back.
func later(phase, current api.Phase) bool {
	return slices.Contains(phases, current) && slices.Index(phases, phase) > slices.Index(phases, current)
}
