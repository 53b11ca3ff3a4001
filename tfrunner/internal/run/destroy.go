package run

import (
	"context"
	"fmt"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

// Leftovers is what a cluster has made in AWS by itself, of which Terraform knows
// nothing; package leftovers has the real one.
type Leftovers interface {
	// Remove removes what there is.
	Remove(ctx context.Context, report func(string)) error
	// RemoveDuring removes what becomes removable while destroy works.
	RemoveDuring(ctx context.Context, report func(string), destroy func(context.Context) error) error
	// RemoveParameters removes what the nodes of a kubeadm cluster have written.
	RemoveParameters(ctx context.Context, report func(string)) error
}

const nothingToDestroy = "nothing to destroy"

// destroy takes the environment down. It may be repeated after any failure: what
// is gone already is no obstacle.
func (r *terraformRun) destroy(ctx context.Context) error {
	tf, id, err := r.initialise(ctx, false)
	if err != nil {
		return err
	}
	if tf == nil {
		r.Say(nothingToDestroy)
		return nil
	}
	if err := r.plan(ctx, tf, id, true); err != nil {
		return err
	}
	plan, err := tf.ShowPlan(ctx)
	if err != nil {
		return r.failed(ctx, runcontract.CodeTerraformPlan, "read the plan", err)
	}
	var left Leftovers = noLeftovers{}
	if usesAWS(plan) {
		if left, err = r.AWS.Leftovers(ctx); err != nil {
			return r.failed(ctx, runcontract.CodeLeftovers, "look for what the cluster has made by itself", err)
		}
	}
	report := func(line string) { r.Log.Printf("%s", line) }
	// Load balancers go while nothing waits for them.
	r.Enter(api.PhaseCleanUp)
	if err := left.Remove(ctx, report); err != nil {
		return r.failed(ctx, runcontract.CodeLeftovers, "before anything was destroyed", err)
	}
	destroyed := nothingToDestroy
	if c := r.tracker.Planned(); c != nil && c.Remove > 0 {
		r.Enter(api.PhaseDestroy)
		err := left.RemoveDuring(ctx, report, func(ctx context.Context) error { return r.carryOut(ctx, tf) })
		if err != nil {
			return r.failed(ctx, runcontract.CodeTerraformApply, "terraform apply (of the plan to destroy)", err)
		}
		destroyed = fmt.Sprintf("destroyed: %d removed", r.tracker.Changes().Remove)
		// Volumes, now that no machine uses them.
		r.Say(title(api.PhaseCleanUp))
		if err := left.Remove(ctx, report); err != nil {
			return r.failed(ctx, runcontract.CodeLeftovers, "the environment is destroyed", err)
		}
	}
	if r.Spec.Topology == api.TopologyVanillaKubeadm {
		if err := left.RemoveParameters(ctx, report); err != nil {
			return r.failed(ctx, runcontract.CodeLeftovers, "the environment is destroyed, but not what its nodes have written", err)
		}
	}
	r.Say(destroyed)
	return nil
}

// usesAWS tells whether an environment is of AWS at all. Its configuration says
// so, whatever is left of its resources.
func usesAWS(plan *tfjson.Plan) bool {
	if plan.Config == nil {
		return false
	}
	for _, p := range plan.Config.ProviderConfigs {
		if p != nil && strings.HasSuffix(p.FullName, "/hashicorp/aws") {
			return true
		}
	}
	return false
}

// noLeftovers is for environments in which no cluster can have made anything.
type noLeftovers struct{}

// Remove has nothing to do.
func (noLeftovers) Remove(context.Context, func(string)) error { return nil }

// RemoveDuring only destroys.
func (noLeftovers) RemoveDuring(ctx context.Context, _ func(string), destroy func(context.Context) error) error {
	return destroy(ctx)
}

// RemoveParameters has nothing to do.
func (noLeftovers) RemoveParameters(context.Context, func(string)) error { return nil }
