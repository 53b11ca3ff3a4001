package provisioner

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/redact"
)

// clusterRun is one call of ProvisionCluster or ResetCluster.
type clusterRun struct {
	cp       *ClusterProvisioner
	env      v1alpha1.Environment
	tasks    []task
	parallel int
	masks    *redact.Redactor
	members  []*member
	bastion  func(ctx context.Context, address string) (net.Conn, error)
	hangUp   func() error
	existed  bool          // there was a cluster before
	asking   chan struct{} // who asks a control plane puts its token in

	mu   sync.Mutex // live and calls of OnProgress
	live *member    // the control plane that is asked; nil without a cluster
}

// member is one node. Within a phase only its own goroutine touches it.
type member struct {
	info    NodeInfo
	machine *machine // nil before it is connected
	result  NodeResult

	examined    bool   // whether the next two are known
	initialized bool   // has been made a control plane, if perhaps not to its end
	begun       bool   // init has not come to its end: nobody can join by it
	foreign     string // who it belongs to, if that is not the environment: it is left alone
	gone        error  // a control plane that could not be reached any more; needs the run's lock
	joined      bool   // part of the cluster
}

// going says that nothing has gone wrong with m.
func (m *member) going() bool { return m.result.Err == nil }

func (cp *ClusterProvisioner) newRun(nodes []NodeInfo) (*clusterRun, error) {
	if err := checkNodes(nodes); err != nil {
		return nil, err
	}
	resolved, err := resolve(cp.Environment)
	if err != nil {
		return nil, err
	}
	if resolved.env.Spec.Cluster == nil {
		return nil, v1alpha1.FieldErrors{{Field: "spec.cluster", Message: "is needed for a cluster"}}
	}
	for _, w := range resolved.warnings {
		cp.log.Warning("%s", w)
	}
	r := &clusterRun{
		cp: cp, env: resolved.env, tasks: resolved.tasks, parallel: cp.Parallel, masks: cp.Connection.redactor(),
		hangUp: func() error { return nil }, asking: make(chan struct{}, maxAsking),
	}
	if r.parallel <= 0 {
		r.parallel = defaultParallel
	}
	maskTemplates(r.masks, &r.env)
	for _, n := range nodes {
		r.members = append(r.members, &member{info: n, result: NodeResult{Name: n.Name, Role: n.Role, Phase: PhasePending}})
	}
	return r, nil
}

const (
	defaultParallel = 8
	// maxAsking is well below the ten sessions of a connection that sshd allows.
	maxAsking = 4
)

func (r *clusterRun) close() {
	for _, m := range r.members {
		if m.machine != nil {
			_ = m.machine.host.Close() // all that counts has been said
		}
	}
	_ = r.hangUp()
}

// result joins what went wrong, err being of no node.
func (r *clusterRun) result(err error) (*ClusterResult, error) {
	out := new(ClusterResult)
	errs := []error{err}
	for _, m := range r.members {
		out.Nodes = append(out.Nodes, m.result)
		if m.result.Err != nil && !m.result.Skipped {
			errs = append(errs, &NodeError{Node: m.result.Name, Step: m.result.Step, Err: m.result.Err})
		}
	}
	return out, errors.Join(errs...)
}

// role is the members that have the role and go on.
func (r *clusterRun) role(role string) []*member {
	return slices.DeleteFunc(slices.Clone(r.members), func(m *member) bool { return m.info.Role != role || !m.going() })
}

// each does the same on members, so many at a time, and waits for all. One that
// fails stops no other. When ctx ends no more are begun.
func (r *clusterRun) each(ctx context.Context, members []*member, limit int, phase string, do func(context.Context, *member) error) {
	slots := make(chan struct{}, limit)
	var wg sync.WaitGroup
	for _, m := range members {
		if !m.going() {
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			r.enter(m, phase)
			r.fail(m, context.Cause(ctx))
			continue
		}
		wg.Go(func() {
			defer func() { <-slots }()
			r.enter(m, phase)
			if err := do(ctx, m); err != nil {
				r.fail(m, err)
			}
		})
	}
	wg.Wait()
}

// enter moves a member into a phase.
func (r *clusterRun) enter(m *member, phase string) {
	m.result.Phase, m.result.Step = phase, phase
	r.progress(m, phase, "")
}

// step names what is done next.
func (r *clusterRun) step(m *member, name string) {
	m.result.Step = name
	r.progress(m, m.result.Phase, "")
}

func (r *clusterRun) fail(m *member, err error) {
	m.result.Err = err
	r.cp.log.Warning("[%s] %s: %v", m.info.Name, m.result.Step, err)
	r.progress(m, PhaseFailed, err.Error())
}

// skip gives up members because of something that is not their fault.
func (r *clusterRun) skip(members []*member, phase string, reason error) {
	for _, m := range members {
		if m.going() {
			m.result.Phase, m.result.Step, m.result.Skipped = phase, phase, true
			m.result.Err = reason
			r.cp.log.Warning("[%s] skipped: %v", m.info.Name, reason)
			r.progress(m, PhaseFailed, "skipped: "+reason.Error())
		}
	}
}

func (r *clusterRun) progress(m *member, phase, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cp.OnProgress != nil {
		r.cp.OnProgress(NodeProgress{Node: m.info.Name, Role: m.info.Role, Phase: phase, Step: m.result.Step, Message: message, At: time.Now()})
	}
}

// connectAll connects to every node, by the bastion if there is one. Its error is
// the bastion's: then all are given up.
func (r *clusterRun) connectAll(ctx context.Context) error {
	var err error
	if r.bastion, r.hangUp, err = r.cp.Connection.dialBastion(ctx, r.cp.log, r.cp.UserName, r.cp.KeyPath); err != nil {
		r.hangUp = func() error { return nil }
		r.skip(r.members, PhaseConnecting, err)
		return err
	}
	r.each(ctx, r.members, r.parallel, PhaseConnecting, func(ctx context.Context, m *member) (err error) {
		if err = r.connect(ctx, m); err == nil && m.info.address() == "" {
			r.step(m, "find the address")
			m.info.PrivateIP, err = m.machine.address(ctx)
		}
		return err
	})
	return nil
}

func (r *clusterRun) connect(ctx context.Context, m *member) error {
	n := m.info
	e := endpoint{name: n.Name, user: r.cp.UserName, keyPath: r.cp.KeyPath, hostKeys: n.HostKeys, transport: n.Transport}
	if n.SSHUsername != "" {
		e.user = n.SSHUsername
	}
	if e.transport == nil {
		direct := NewDirectTransport(n.dialAddress())
		e.transport = direct
		if r.bastion != nil {
			e.transport = &bastionTransport{direct: direct, dial: r.bastion}
		}
	}
	e.target = target(e.transport)
	dial := r.cp.dial
	if dial == nil {
		dial = dialHost(r.cp.log)
	}
	h, err := dial(ctx, r.cp.Connection, e)
	if err != nil {
		return err
	}
	m.machine = &machine{name: n.Name, host: h, log: r.cp.log, masks: r.masks, scope: scope(&r.env)}
	return nil
}
