package provisioner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/provisioner/internal/script"
)

// provision goes through the phases. Its error is of no single node.
func (r *clusterRun) provision(ctx context.Context) error {
	scripts, err := renderCluster(ctx, r.env, r.tasks, newTemplateSource(r.cp.BaseDir))
	if err != nil {
		return err
	}
	if err := r.connectAll(ctx); err != nil {
		return err
	}
	r.checkOwners(ctx, true)
	r.examineAll(ctx)
	r.prepareAll(ctx, scripts.base)
	err = r.initialize(ctx)
	if r.live != nil {
		r.joinControlPlanes(ctx)
		r.joinWorkers(ctx)
	}
	r.configureAll(ctx, scripts)
	if r.live == nil {
		return err
	}
	return r.readKubeconfig(ctx)
}

// clusterScripts is what is known before anything is connected to. Templates run
// at the phase that they name, so those after Kubernetes run once the node is part
// of the cluster.
type clusterScripts struct {
	// base is for all nodes and ends with the prerequisites of Kubernetes.
	base           []job
	postKubernetes []job
	postInstall    []job
}

func renderCluster(ctx context.Context, env v1alpha1.Environment, tasks []task, source *templateSource) (clusterScripts, error) {
	var out clusterScripts
	for _, t := range tasks {
		var j job
		var err error
		if t.component == kubernetes {
			j.step, err = script.Prerequisites(env)
		} else {
			j, err = t.render(ctx, env, script.Node{}, source)
		}
		switch {
		case err != nil:
			return out, err
		case t.in(v1alpha1.TemplatePhasePostKubernetes):
			out.postKubernetes = append(out.postKubernetes, j)
		case t.in(v1alpha1.TemplatePhasePostInstall):
			out.postInstall = append(out.postInstall, j)
		default:
			out.base = append(out.base, j)
		}
	}
	return out, nil
}

// runAll executes scripts on a member, one after the other.
func (r *clusterRun) runAll(ctx context.Context, m *member, jobs []job) error {
	for _, j := range jobs {
		r.step(m, j.step.Name)
		if err := m.machine.tryRun(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// examineAll finds out what of a cluster there is, and by whom it can be asked.
func (r *clusterRun) examineAll(ctx context.Context) {
	r.each(ctx, r.role(roleControlPlane), r.parallel, PhaseConnecting, func(ctx context.Context, m *member) (err error) {
		r.step(m, "examine")
		m.initialized, m.begun, err = m.machine.initialized(ctx)
		m.examined = err == nil
		return err
	})
	var nodes []kubeNode
	for _, m := range r.role(roleControlPlane) {
		if !m.initialized || m.begun || m.machine.apiReady(ctx) != nil {
			continue
		}
		var err error
		if nodes, err = m.machine.nodes(ctx); err == nil {
			r.live = m
			break
		}
	}
	if r.live == nil {
		return
	}
	r.existed = true
	r.cp.log.Info("the cluster exists, node %s answers for it", r.live.info.Name)
	for _, m := range r.members {
		n, err := findNode(nodes, m.info)
		switch {
		case !m.going():
		case err != nil:
			r.fail(m, err)
		case n != nil && n.role() != m.info.Role:
			r.fail(m, fmt.Errorf("it is a %s of the cluster and shall be a %s: reset it first", n.role(), m.info.Role))
		case n != nil:
			ready, _ := n.ready()
			m.joined = ready && (m.info.Role == roleWorker || m.initialized)
		}
	}
}

// begunFile is there while init has begun and has not come to its end.
const begunFile = "/var/lib/kubeopera/cluster/begun"

// initialized says whether the machine has been made a control plane, and whether
// that has not come to its end.
func (m *machine) initialized(ctx context.Context) (initialized, begun bool, err error) {
	out, err := m.output(ctx, "look for a control plane", "for f in "+adminConf+" "+begunFile+"; do if [ -e $f ]; then echo $f; fi; done", nil)
	found := strings.Fields(string(out))
	return len(found) > 0, slices.Contains(found, begunFile), err
}

// prepareAll brings every node to where Kubernetes can be set up. Members of a
// cluster at work are prepared one at a time if they may be rebooted.
func (r *clusterRun) prepareAll(ctx context.Context, base []job) {
	prepare := func(ctx context.Context, m *member) error { return r.runAll(ctx, m, base) }
	members, fresh := slices.Clone(r.members), slices.Clone(r.members)
	members = slices.DeleteFunc(members, func(m *member) bool { return !m.joined })
	fresh = slices.DeleteFunc(fresh, func(m *member) bool { return m.joined })
	limit := r.parallel
	if slices.ContainsFunc(base, func(j job) bool { return j.step.Reboots }) {
		limit = 1
	}
	r.each(ctx, fresh, r.parallel, PhasePreparing, prepare)
	r.each(ctx, members, limit, PhasePreparing, prepare)
}

// initialize makes the first control plane, unless there is a cluster. It is not
// made while any control plane may hold one that does not answer: two clusters
// would be worse than none.
func (r *clusterRun) initialize(ctx context.Context) error {
	if r.live != nil {
		return nil
	}
	// Preparing has waited for what an earlier run left at work, or has failed because
	// of it: it may have been this.
	r.examineAll(ctx)
	for _, m := range r.members {
		if m.info.Role == roleControlPlane && m.machine != nil && !m.going() {
			var err error
			m.initialized, m.begun, err = m.machine.initialized(ctx)
			m.examined = err == nil
		}
	}
	if r.live != nil {
		return nil
	}
	first, err := r.first()
	if err == nil {
		r.each(ctx, []*member{first}, 1, PhaseInitializing, r.initOn)
		if first.going() {
			r.live = first
			return nil
		}
		err = fmt.Errorf("the first control plane, node %s, was not initialized", first.info.Name)
	}
	r.skip(r.members, PhaseJoining, err)
	return err
}

// first is the control plane to initialize, or to go on initializing.
func (r *clusterRun) first() (*member, error) {
	var unknown, initialized []string
	var chosen *member
	for _, m := range r.members {
		switch {
		case m.info.Role != roleControlPlane:
		case !m.examined:
			unknown = append(unknown, m.info.Name)
		case m.initialized:
			initialized = append(initialized, m.info.Name)
			chosen = m
		case chosen == nil && m.going():
			chosen = m
		}
	}
	switch {
	case len(unknown) > 0:
		return nil, fmt.Errorf("no cluster answers, and node %s, which may hold one, could not be examined", strings.Join(unknown, ", "))
	case len(initialized) > 1:
		return nil, fmt.Errorf("the cluster of the nodes %s does not answer", strings.Join(initialized, ", "))
	case chosen == nil || !chosen.going():
		return nil, errors.New("no control plane could be prepared")
	}
	return chosen, nil
}

func (r *clusterRun) initOn(ctx context.Context, m *member) error {
	if r.cp.ControlPlaneEndpoint == "" || r.cp.found {
		r.cp.ControlPlaneEndpoint, r.cp.found = r.wantedEndpoint(m), true
	}
	step, err := script.Init(r.env, script.InitParameters{
		Node: m.node(), Endpoint: r.cp.ControlPlaneEndpoint,
	})
	if err != nil {
		return err
	}
	r.step(m, step.Name)
	if err := m.machine.runUntil(ctx, step, "-e "+adminConf); err != nil {
		return err
	}
	m.joined = true
	return nil
}

// node is what scripts know of m.
func (m *member) node() script.Node {
	n := script.Node{Name: m.info.Name, ControlPlane: m.info.Role == roleControlPlane}
	if net.ParseIP(m.info.address()) != nil { // of a name the machine's default route decides
		n.Address = m.info.address()
	}
	return n
}

// wantedEndpoint is where all nodes reach the API server if nobody has said so.
func (r *clusterRun) wantedEndpoint(first *member) string {
	if e := r.env.Spec.Cluster.ControlPlaneEndpoint; e != "" {
		return e
	}
	if c := r.env.Status.Cluster; c != nil && c.LoadBalancerDNS != "" {
		return c.LoadBalancerDNS
	}
	if len(r.role(roleControlPlane)) > 1 {
		r.cp.log.Warning("no spec.cluster.controlPlaneEndpoint: all nodes depend on %s, the address of the first control plane", first.info.address())
	}
	return first.info.address()
}
