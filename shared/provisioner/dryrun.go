package provisioner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/logger"
	"github.com/kubeopera/platform/shared/provisioner/internal/script"
)

// Plan is which scripts run on which node in which order.
type Plan struct {
	Stages   []Stage
	Warnings []string
}

// Stage is what happens before the next one begins.
type Stage struct {
	Phase    string // one of the phases
	Nodes    []string
	Parallel int // how many nodes at a time
	Scripts  []PlannedScript
}

// PlannedScript is one script of a stage.
type PlannedScript struct {
	Name    string
	Timeout time.Duration
	// Digest is the sha256 of its text; empty if that is only known once the
	// cluster has an endpoint and a CA.
	Digest string
	// Reboots says that the machine may be rebooted after it.
	Reboots bool
}

// Dryrun validates the environment configuration without making changes, and logs
// the plan. It connects to no machine; templates are read, and those with a url
// fetched.
func Dryrun(log *logger.FunLogger, env v1alpha1.Environment) error {
	ctx, cancel := context.WithTimeout(context.Background(), functionTimeout)
	defer cancel()
	plan, err := NewPlan(ctx, &env, nil, "")
	if err != nil {
		return err
	}
	for _, w := range plan.Warnings {
		log.Warning("%s", w)
	}
	var b strings.Builder
	PrintPlan(&b, plan)
	for line := range strings.Lines(b.String()) {
		log.Info("%s", strings.TrimSuffix(line, "\n"))
	}
	log.Check("the environment is valid")
	return nil
}

// NewPlan is what Run, or with nodes ProvisionCluster, would do on machines
// that have nothing yet. Without nodes a cluster's are named by its counts.
// Templates are looked for in baseDir.
func NewPlan(ctx context.Context, env *v1alpha1.Environment, nodes []NodeInfo, baseDir string) (Plan, error) {
	r, err := resolve(env)
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{Warnings: r.warnings}
	source := newTemplateSource(baseDir)
	if r.env.Spec.Cluster == nil {
		jobs, err := renderAll(ctx, r.env, r.tasks, script.Node{Address: r.env.Spec.HostUrl}, source)
		if err != nil {
			return Plan{}, err
		}
		name := r.env.Spec.HostUrl
		if name == "" {
			name = r.env.Name
		}
		stage := Stage{Phase: PhasePreparing, Nodes: []string{name}, Parallel: 1}
		if stage.Scripts = plannedScripts(jobs); len(jobs) > 0 {
			plan.Stages = append(plan.Stages, stage)
		}
		return plan, nil
	}
	if nodes == nil {
		nodes = expectedNodes(r.env.Spec.Cluster)
	} else if err := checkNodes(nodes); err != nil {
		return Plan{}, err
	}
	scripts, err := renderCluster(ctx, r.env, r.tasks, source)
	if err != nil {
		return Plan{}, err
	}
	plan.addCluster(scripts, nodes)
	return plan, nil
}

// addCluster adds the stages of ProvisionCluster.
func (p *Plan) addCluster(scripts clusterScripts, nodes []NodeInfo) {
	var all, controlPlanes, workers []string
	for _, n := range nodes {
		all = append(all, n.Name)
		if n.Role == roleControlPlane {
			controlPlanes = append(controlPlanes, n.Name)
		} else {
			workers = append(workers, n.Name)
		}
	}
	add := func(phase string, nodes []string, parallel int, scripts []PlannedScript) {
		if len(nodes) > 0 && len(scripts) > 0 {
			p.Stages = append(p.Stages, Stage{Phase: phase, Nodes: nodes, Parallel: min(parallel, len(nodes)), Scripts: scripts})
		}
	}
	unknown := func(name string) []PlannedScript { return []PlannedScript{{Name: name}} }
	add(PhasePreparing, all, defaultParallel, plannedScripts(scripts.base))
	add(PhaseInitializing, controlPlanes[:1], 1, unknown("kubernetes init"))
	add(PhaseJoining, controlPlanes[1:], 1, unknown("kubernetes join control plane"))
	add(PhaseJoining, workers, defaultParallel, unknown("kubernetes join worker"))
	add(PhaseConfiguring, all, defaultParallel, append(plannedScripts(scripts.postKubernetes), unknown("label")...))
	add(PhaseConfiguring, all, defaultParallel, plannedScripts(scripts.postInstall))
}

func plannedScripts(jobs []job) []PlannedScript {
	var out []PlannedScript
	for _, j := range jobs {
		sum := sha256.Sum256(j.step.Body)
		out = append(out, PlannedScript{Name: j.step.Name, Timeout: j.step.Timeout, Digest: hex.EncodeToString(sum[:]), Reboots: j.step.Reboots})
	}
	return out
}

// expectedNodes are the nodes that a cluster's counts ask for.
func expectedNodes(c *v1alpha1.ClusterSpec) []NodeInfo {
	var nodes []NodeInfo
	for i := range c.ControlPlane.Count {
		nodes = append(nodes, NodeInfo{Name: fmt.Sprintf("control-plane-%d", i), Role: roleControlPlane})
	}
	if c.Workers != nil {
		for i := range c.Workers.Count {
			nodes = append(nodes, NodeInfo{Name: fmt.Sprintf("worker-%d", i), Role: roleWorker})
		}
	}
	return nodes
}

// PrintPlan writes a plan for people.
func PrintPlan(w io.Writer, p Plan) {
	n := 0
	for _, stage := range p.Stages {
		how := "one at a time"
		if stage.Parallel > 1 {
			how = fmt.Sprintf("%d at a time", stage.Parallel)
		}
		if len(stage.Nodes) == 1 {
			how = "alone"
		}
		_, _ = fmt.Fprintf(w, "%s, %s: %s\n", stage.Phase, how, strings.Join(stage.Nodes, ", "))
		for _, s := range stage.Scripts {
			n++
			_, _ = fmt.Fprintf(w, "  %2d. %s", n, s.Name)
			if s.Timeout > 0 {
				_, _ = fmt.Fprintf(w, ", at most %s", s.Timeout)
			}
			if s.Digest != "" {
				_, _ = fmt.Fprintf(w, ", sha256 %.12s", s.Digest)
			}
			if s.Reboots {
				_, _ = io.WriteString(w, ", may reboot")
			}
			_, _ = io.WriteString(w, "\n")
		}
	}
	if n == 0 {
		_, _ = io.WriteString(w, "nothing to do\n")
	}
}
