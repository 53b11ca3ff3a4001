package envcmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/output"
	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/provisioner"
)

// result is what became of the machines, for programs.
type result struct {
	Environment string                     `json:"environment"`
	Nodes       []node                     `json:"nodes"`
	Components  *v1alpha1.ComponentsStatus `json:"components,omitempty"`
}

type node struct {
	Name    string   `json:"name"`
	Role    string   `json:"role,omitempty"`
	Phase   string   `json:"phase"`
	Step    string   `json:"step,omitempty"`
	Error   string   `json:"error,omitempty"`
	Skipped bool     `json:"skipped,omitempty"` // because of another node
	Output  []string `json:"output,omitempty"`  // the last lines of the script that failed
}

// maxTail is how many lines of a script's output people are shown.
const maxTail = 5

func nodeOf(n provisioner.NodeResult) node {
	out := node{Name: n.Name, Role: n.Role, Phase: n.Phase, Skipped: n.Skipped}
	if n.Err == nil {
		return out
	}
	out.Step, out.Error = n.Step, n.Err.Error()
	if failed, ok := errors.AsType[*provisioner.StepError](n.Err); ok && !n.Skipped {
		out.Output = failed.Tail
	}
	return out
}

// table is the result for people: a cluster's nodes, or a machine's components.
func (r result) table() output.Result {
	out := output.Result{Value: r}
	for _, n := range r.Nodes {
		out.Names = append(out.Names, n.Name)
	}
	if r.Components == nil {
		out.Rows = [][]string{{"node", "role", "phase", "step", "error"}}
		for _, n := range r.Nodes {
			out.Rows = append(out.Rows, []string{n.Name, n.Role, n.Phase, n.Step, firstLine(n.Error)})
		}
		return out
	}
	out.Rows = [][]string{{"component", "source", "version", "from"}}
	for _, c := range []struct {
		name string
		p    *v1alpha1.ComponentProvenance
	}{
		{"driver", r.Components.Driver}, {"runtime", r.Components.Runtime}, {"toolkit", r.Components.Toolkit}, {"kubernetes", r.Components.Kubernetes},
	} {
		if c.p != nil {
			out.Rows = append(out.Rows, []string{c.name, c.p.Source, c.p.Version, strings.TrimSpace(strings.Join([]string{c.p.Repo, c.p.Branch, c.p.Ref, c.p.Commit}, " "))})
		}
	}
	return out
}

// failure is an error with exit code 3 that has what failed on which node; nil if
// nothing did.
func (r result) failure() error {
	var b strings.Builder
	failed := 0
	for _, n := range r.Nodes {
		if n.Error == "" {
			continue
		}
		failed++
		if n.Skipped {
			continue
		}
		fmt.Fprintf(&b, "\n  %s: %s: %s", n.Name, n.Step, strings.ReplaceAll(n.Error, "\n", "\n    "))
		for _, line := range n.Output[max(0, len(n.Output)-maxTail):] {
			fmt.Fprintf(&b, "\n    | %s", line)
		}
	}
	if failed == 0 {
		return nil
	}
	return &exit.Error{Code: exit.RunFailed, Err: fmt.Errorf("%d of %d machines are not done%s\n  the same command goes on from here", failed, len(r.Nodes), b.String())}
}
