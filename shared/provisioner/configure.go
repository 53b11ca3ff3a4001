package provisioner

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
)

// Labels that every node gets.
const (
	managedLabel    = "nvidia.com/holodeck.managed"
	roleLabel       = "nvidia.com/holodeck.role"
	workerRoleLabel = "node-role.kubernetes.io/worker"
)

// wantedLabels are the labels of a node of role in env. Those of the spec win.
func wantedLabels(spec *v1alpha1.ClusterSpec, role string) map[string]string {
	labels := map[string]string{managedLabel: "true", roleLabel: role}
	if role == roleControlPlane {
		maps.Copy(labels, spec.ControlPlane.Labels)
		return labels
	}
	labels[workerRoleLabel] = ""
	if spec.Workers != nil {
		maps.Copy(labels, spec.Workers.Labels)
	}
	return labels
}

// wantedTaints is current with the pool's taints, and on control planes with or
// without the one that keeps workloads away. Taints of others stay.
func wantedTaints(spec *v1alpha1.ClusterSpec, role string, current []kubeTaint) []kubeTaint {
	taints := slices.Clone(current)
	set := func(t kubeTaint) {
		i := slices.IndexFunc(taints, func(o kubeTaint) bool { return o.Key == t.Key && o.Effect == t.Effect })
		switch {
		case i < 0:
			taints = append(taints, t)
		case taints[i].Value != t.Value:
			taints[i] = t
		}
	}
	var pool []v1alpha1.Taint
	if role == roleControlPlane {
		pool = spec.ControlPlane.Taints
		dedicated := kubeTaint{Key: controlPlaneLabel, Effect: string(v1alpha1.TaintEffectNoSchedule)}
		if spec.ControlPlane.Dedicated {
			set(dedicated)
		} else {
			taints = slices.DeleteFunc(taints, func(t kubeTaint) bool { return t.Key == dedicated.Key && t.Effect == dedicated.Effect })
		}
	} else if spec.Workers != nil {
		pool = spec.Workers.Taints
	}
	for _, t := range pool {
		set(kubeTaint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	return taints
}

// nodePatch is the JSON merge patch that brings a node's labels and taints to
// what is wanted, nil if they are that. It holds only for the version of the
// node that it was made from, since a patch replaces the whole list of taints.
func nodePatch(spec *v1alpha1.ClusterSpec, role string, n *kubeNode) ([]byte, error) {
	labels := wantedLabels(spec, role)
	maps.DeleteFunc(labels, func(k, v string) bool {
		have, ok := n.Metadata.Labels[k]
		return ok && have == v
	})
	taints := wantedTaints(spec, role, n.Spec.Taints)
	sameTaints := slices.Equal(taints, n.Spec.Taints)
	if len(labels) == 0 && sameTaints {
		return nil, nil
	}
	metadata := map[string]any{"resourceVersion": n.Metadata.ResourceVersion}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	patch := map[string]any{"metadata": metadata}
	if !sameTaints {
		if taints == nil {
			taints = []kubeTaint{}
		}
		patch["spec"] = map[string]any{"taints": taints}
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("patch of node %s: %w", n.Metadata.Name, err)
	}
	return data, nil
}

// patchCommand applies the patch in $input: no shell ever reads it as text of its
// own.
func patchCommand(node string) string {
	return kubectl(`patch node '` + node + `' --type=merge --patch "$input"`)
}

// configureAll does what is done to nodes of a cluster, on all that have joined.
func (r *clusterRun) configureAll(ctx context.Context, scripts clusterScripts) {
	joined := func() []*member {
		return slices.DeleteFunc(slices.Clone(r.members), func(m *member) bool { return !m.going() || !m.joined })
	}
	r.each(ctx, joined(), r.parallel, PhaseConfiguring, func(ctx context.Context, m *member) error {
		if err := r.runAll(ctx, m, scripts.postKubernetes); err != nil {
			return err
		}
		r.step(m, "label")
		return r.label(ctx, m)
	})
	r.awaitReady(ctx, joined())
	r.each(ctx, joined(), r.parallel, PhaseConfiguring, func(ctx context.Context, m *member) error {
		return r.runAll(ctx, m, scripts.postInstall)
	})
	for _, m := range joined() {
		r.enter(m, PhaseReady)
	}
}

const (
	patchAttempts = 5
	patchPause    = time.Second
)

// label sets labels and taints of m's node.
func (r *clusterRun) label(ctx context.Context, m *member) error {
	var last error
	for attempt := range patchAttempts {
		if attempt > 0 {
			if err := pause(ctx, patchPause); err != nil {
				return err
			}
		}
		last = r.viaControlPlane(ctx, func(c *machine) error {
			nodes, err := c.nodes(ctx)
			if err != nil {
				return err
			}
			n, err := findNode(nodes, m.info)
			if err != nil {
				return err
			}
			if n == nil {
				return fmt.Errorf("the cluster has no node with its address %s or its name", strings.TrimSpace(m.info.PrivateIP+" "+m.info.PublicIP))
			}
			patch, err := nodePatch(r.env.Spec.Cluster, m.info.Role, n)
			if err != nil || patch == nil {
				return err
			}
			_, err = c.output(ctx, "label", patchCommand(n.Metadata.Name), patch)
			return err
		})
		// Someone else may have changed the node in between: again from what it is now.
		if last == nil || ctx.Err() != nil || r.cutOff() {
			return last
		}
	}
	return fmt.Errorf("set labels and taints: %w", last)
}

const (
	readyTimeout = 10 * time.Minute
	readyPause   = 3 * time.Second
)

// awaitReady waits until the nodes of all members say that they are ready.
func (r *clusterRun) awaitReady(ctx context.Context, members []*member) {
	for _, m := range members {
		r.step(m, "await ready")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("not ready within %s", readyTimeout))
	defer cancel()
	for state := make(map[*member]string); len(members) > 0; {
		var nodes []kubeNode
		err := r.viaControlPlane(ctx, func(c *machine) (err error) {
			nodes, err = c.nodes(ctx)
			return err
		})
		members = slices.DeleteFunc(slices.Clone(members), func(m *member) bool {
			if err != nil {
				state[m] = err.Error()
				return false
			}
			ready, why := nodeState(nodes, m.info)
			state[m] = why
			return ready
		})
		if len(members) == 0 {
			return
		}
		if r.cutOff() {
			for _, m := range members {
				r.fail(m, err)
			}
			return
		}
		if err := pause(ctx, readyPause); err != nil {
			for _, m := range members {
				r.fail(m, fmt.Errorf("%w: %s", err, state[m]))
			}
			return
		}
	}
}

// nodeState says whether the node of a machine is ready, and if not why.
func nodeState(nodes []kubeNode, info NodeInfo) (bool, string) {
	n, err := findNode(nodes, info)
	switch {
	case err != nil:
		return false, err.Error()
	case n == nil:
		return false, "the cluster has no such node"
	}
	ready, c := n.ready()
	return ready, strings.TrimSpace(fmt.Sprintf("Ready is %s: %s %s", c.Status, c.Reason, c.Message))
}

// pause waits, or returns why ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
