package provision

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
)

// checkChange refuses a run that would move an environment. In another region
// Terraform would find none of the resources of its state, take them for deleted,
// and build all anew, beside a cluster that nobody manages any more: a plan that
// removes nothing, so that the runner could not refuse it.
func (s *Service) checkChange(ctx context.Context, in Inputs) error {
	built, err := s.built(ctx, in.Environment)
	if err != nil || built == nil {
		return err
	}
	before := built.inputs
	for _, f := range []struct{ field, before, now string }{
		{"topology", string(before.Topology), string(in.Topology)},
		{"region", before.Region, in.Region},
		{"vpc_cidr", before.VPCCIDR, in.VPCCIDR},
		// Pods keep the range that the first control plane was made with.
		{"pod_cidr", before.PodCIDR, in.PodCIDR},
		{"control_plane_count", endpoint(before), endpoint(in)},
		// Nodes do not upgrade themselves, and new workers must not be newer.
		{"kubernetes_version", fixedVersion(before), fixedVersion(in)},
		{"control_plane_endpoint", before.ControlPlaneEndpoint, in.ControlPlaneEndpoint},
		{"machines", settled(before, before.Machines, in.AllowReplacement), settled(before, in.Machines, in.AllowReplacement)},
	} {
		if f.before != f.now {
			return &ImmutableError{Environment: in.Environment, Field: f.field, Settled: f.before, Run: built.run}
		}
	}
	return nil
}

// building is an apply that made an environment what it is.
type building struct {
	run    runs.ID
	inputs Inputs
}

// built finds the newest apply that may have built something, nil if there is
// none or all was destroyed since. It passed checkChange itself.
func (s *Service) built(ctx context.Context, environment string) (*building, error) {
	for run, err := range s.history(ctx, environment) {
		if err != nil {
			return nil, err
		}
		if run.Operation == api.OperationDestroy && run.Status == api.StatusSucceeded {
			return nil, nil //nolint:nilnil // nothing is there, which is no error
		}
		if !mayHaveBuilt(run) {
			continue
		}
		inputs, err := ReadInputs(run.Inputs)
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", run.ID, err)
		}
		return &building{run: run.ID, inputs: inputs}, nil
	}
	return nil, nil //nolint:nilnil // the same
}

// mayHaveBuilt is false for a run that changes nothing, or that ended before its
// apply: it settles nothing. One whose pod is gone may have come further than
// anybody saw.
func mayHaveBuilt(run runs.Run) bool {
	if run.Operation != api.OperationApply {
		return false
	}
	switch code := runcontract.ErrorCode(run.ErrorCode); {
	case !runs.Final(run.Status), code == runs.CodeLost, code == runs.CodeEvicted:
		return true
	}
	switch run.Phase {
	case api.PhaseWaitingForSlot, api.PhaseStarting, api.PhasePulling, api.PhaseCloning,
		api.PhasePreparingState, api.PhaseConnecting, api.PhaseInit, api.PhaseUnlock, api.PhasePlan, api.PhaseCleanUp:
		return false
	default:
	}
	return true
}

// endpoint says where a cluster's nodes find its API: one control plane's address
// and a load balancer's name are both for ever.
func endpoint(in Inputs) string {
	if in.Topology == api.TopologyExistingMachines {
		return "" // control_plane_endpoint says it
	}
	if in.ControlPlaneCount > 1 {
		return "3 or 5"
	}
	return strconv.Itoa(in.ControlPlaneCount)
}

// fixedVersion is the version of a cluster that cannot be upgraded by a run.
func fixedVersion(in Inputs) string {
	if in.Topology == api.TopologyEKS {
		return ""
	}
	return in.KubernetesVersion
}

// settled are those of a cluster's machines that are still named, in the same role.
// All must be: one that is left out would stay a node that nobody manages. Workers
// may be left out on purpose, since machines break.
func settled(before Inputs, now []api.Machine, workersMayGo bool) string {
	var still []string
	for _, m := range before.Machines {
		if workersMayGo && m.Role == api.RoleWorker {
			continue
		}
		if slices.ContainsFunc(now, func(n api.Machine) bool {
			return n.Role == m.Role && n.Address == m.Address && n.Port == m.Port && n.InstanceID == m.InstanceID
		}) {
			still = append(still, cmp.Or(m.Address, m.InstanceID))
		}
	}
	return strings.Join(still, ", ")
}
