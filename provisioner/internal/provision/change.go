package provision

import (
	"context"
	"fmt"
	"strconv"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runs"
)

// checkChange refuses a run that would move an environment. In another region
// Terraform would find none of the resources of its state, take them for deleted,
// and build all anew, beside a cluster that nobody manages any more: a plan that
// removes nothing, so that the runner could not refuse it.
func (s *Service) checkChange(ctx context.Context, in Inputs) error {
	filter := runs.Filter{Environment: in.Environment, Limit: MaxPage}
	for {
		list, err := s.runs.List(ctx, filter)
		if err != nil {
			return fmt.Errorf("look for earlier runs: %w", err)
		}
		for _, run := range list {
			if !mayHaveBuilt(run) {
				continue
			}
			before, err := ReadInputs(run.Inputs)
			if err != nil {
				return fmt.Errorf("run %s: %w", run.ID, err)
			}
			for _, f := range []struct{ field, before, now string }{
				{"topology", string(before.Topology), string(in.Topology)},
				{"region", before.Region, in.Region},
				{"vpc_cidr", before.VPCCIDR, in.VPCCIDR},
				// Pods keep the range that the first control plane was made with.
				{"pod_cidr", before.PodCIDR, in.PodCIDR},
				{"control_plane_count", endpoint(before), endpoint(in)},
				// Nodes do not upgrade themselves, and new workers must not be newer.
				{"kubernetes_version", fixedVersion(before), fixedVersion(in)},
			} {
				if f.before != f.now {
					return &ImmutableError{Environment: in.Environment, Field: f.field, Settled: f.before, Run: run.ID}
				}
			}
			return nil // it passed this check itself
		}
		if len(list) < filter.Limit {
			return nil
		}
		filter.Before = list[len(list)-1].ID
	}
}

// mayHaveBuilt is false for a run that ended before its apply: it settles nothing.
// One whose pod is gone may have come further than anybody saw.
func mayHaveBuilt(run runs.Run) bool {
	if !runs.Final(run.Status) || run.ErrorCode == string(runs.CodeLost) {
		return true
	}
	switch run.Phase {
	case api.PhaseWaitingForSlot, api.PhaseStarting, api.PhasePulling, api.PhaseCloning,
		api.PhasePreparingState, api.PhaseInit, api.PhasePlan:
		return false
	case api.PhaseApply, api.PhaseWaitingForControlPlane, api.PhaseWaitingForNodes, api.PhasePublishing, api.PhaseDone:
	}
	return true
}

// endpoint says where a cluster's nodes find its API: one control plane's address
// and a load balancer's name are both for ever.
func endpoint(in Inputs) string {
	if in.ControlPlaneCount > 1 {
		return "3 or 5"
	}
	return strconv.Itoa(in.ControlPlaneCount)
}

// fixedVersion is the version of a cluster that cannot be upgraded by a run.
func fixedVersion(in Inputs) string {
	if in.Topology == api.TopologyVanillaKubeadm {
		return in.KubernetesVersion
	}
	return ""
}
