package provisioner

import (
	"context"
	"errors"
	"slices"

	"github.com/kubeopera/platform/shared/provisioner/internal/script"
)

// ResetCluster takes Kubernetes off all nodes: workers first, several at a time,
// then control planes one at a time, each leaving etcd before it goes. Container
// runtime, driver and packages stay. A node that has nothing of a cluster is done
// at once, so it may be called again. One that belongs to another environment, or to
// a cluster of others, is left alone. A node that fails stops no other. The result
// is nil only if the input is refused.
func (cp *ClusterProvisioner) ResetCluster(ctx context.Context, nodes []NodeInfo) (*ClusterResult, error) {
	return cp.call(nodes, func(r *clusterRun) error { return r.reset(ctx) })
}

func (r *clusterRun) reset(ctx context.Context) error {
	step, err := script.Reset(r.env)
	if err != nil {
		return err
	}
	if err := r.connectAll(ctx); err != nil {
		return err
	}
	r.each(ctx, r.members, r.parallel, PhaseConnecting, func(ctx context.Context, m *member) error {
		err := r.askOwner(ctx, m, false)
		if foreign, ok := errors.AsType[*foreignError](err); ok {
			m.foreign, err = foreign.Error(), nil
		}
		return err
	})
	do := func(ctx context.Context, m *member) error {
		if m.foreign != "" {
			r.cp.log.Warning("[%s] left alone: %s", m.info.Name, m.foreign)
			return nil
		}
		r.step(m, step.Name)
		return m.machine.runUntil(ctx, step, "! -e "+kubeletConf)
	}
	r.each(ctx, r.role(roleWorker), r.parallel, PhaseResetting, do)
	// The first control plane last: the others leave its etcd.
	for _, m := range slices.Backward(r.role(roleControlPlane)) {
		r.each(ctx, []*member{m}, 1, PhaseResetting, do)
	}
	for _, m := range r.members {
		if m.going() {
			r.enter(m, PhaseReset)
			if m.foreign != "" {
				r.progress(m, PhaseReset, "left alone: "+m.foreign)
			}
		}
	}
	if r.cp.found {
		r.cp.ControlPlaneEndpoint = ""
	}
	r.cp.kubeconfig, r.cp.JoinToken, r.cp.CertificateKey, r.cp.CACertHash = "", "", "", ""
	return nil
}
