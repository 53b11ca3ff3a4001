package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	tfjson "github.com/hashicorp/terraform-json"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner"
	"github.com/kubeopera/platform/shared/runner/awsconfig"
	"github.com/kubeopera/platform/tfrunner/internal/ekskubeconfig"
	"github.com/kubeopera/platform/tfrunner/internal/eksversion"
	"github.com/kubeopera/platform/tfrunner/internal/events"
	"github.com/kubeopera/platform/tfrunner/internal/guard"
)

// Terraform is one environment's Terraform; package terraform has the real one.
type Terraform interface {
	Init(ctx context.Context, backend map[string]string) error
	Push(ctx context.Context, state []byte) error
	Plan(ctx context.Context, variables map[string]string, destroy bool) error
	ShowPlan(ctx context.Context) (*tfjson.Plan, error)
	PlanText(ctx context.Context) (string, error)
	Apply(ctx context.Context) error
	Outputs(ctx context.Context) (map[string]json.RawMessage, error)
}

// steps is the run, from the spec to what is published.
func (r *terraformRun) steps(ctx context.Context) error {
	if err := CheckSpec(r.Spec); err != nil {
		return &StepError{Code: runcontract.CodeInvalidSpec, Message: err.Error()}
	}
	switch r.Spec.Operation {
	case api.OperationUnlock:
		return r.unlock(ctx)
	case api.OperationDestroy:
		return r.destroy(ctx)
	case api.OperationPlan:
		return r.planOnly(ctx)
	default: // apply: CheckSpec has refused others
		return r.apply(ctx)
	}
}

// apply builds the environment and hands over its kubeconfig.
func (r *terraformRun) apply(ctx context.Context) error {
	tf, id, err := r.initialise(ctx, true)
	if err != nil {
		return err
	}
	if err := r.plan(ctx, tf, id, false); err != nil {
		return err
	}
	if err := r.guard(ctx, tf); err != nil {
		return err
	}
	r.Enter(api.PhaseApply)
	if err := r.carryOut(ctx, tf); err != nil {
		return r.failed(ctx, runcontract.CodeTerraformApply, "terraform apply", err)
	}
	if r.Spec.Topology == api.TopologyVanillaKubeadm {
		return r.bootstrap(ctx, tf)
	}
	return r.deliver(ctx, tf)
}

// planOnly says what an apply would change.
func (r *terraformRun) planOnly(ctx context.Context) error {
	tf, id, err := r.initialise(ctx, true)
	if err != nil {
		return err
	}
	if err := r.plan(ctx, tf, id, false); err != nil {
		return err
	}
	text, err := tf.PlanText(ctx)
	if err != nil {
		return r.failed(ctx, runcontract.CodeTerraformPlan, "read the plan", err)
	}
	r.Log.Printf("%s", text)
	if err := r.guard(ctx, tf); err != nil {
		return err
	}
	r.Say("plan: " + planned(r.tracker.Planned()))
	return nil
}

// initialise prepares Terraform and the state that it works on, with what earlier
// runs could not save. Without a bucket, which create forbids to make, tf is nil.
func (r *terraformRun) initialise(ctx context.Context, create bool) (tf Terraform, id awsconfig.Identity, err error) {
	id, backend, err := r.prepareState(ctx, create)
	if err != nil || r.objects == nil {
		return nil, id, err
	}
	if err := r.preflight(ctx); err != nil {
		return nil, id, err
	}
	if tf, err = r.Terraform(r.observe); err != nil {
		return nil, id, r.failed(ctx, runcontract.CodeInternal, "prepare Terraform", err)
	}
	r.Enter(api.PhaseInit)
	if err := tf.Init(ctx, backend); err != nil {
		return nil, id, r.failed(ctx, runcontract.CodeTerraformInit, "terraform init", err)
	}
	return tf, id, r.resume(ctx, tf)
}

// prepareState finds out whose credential it is and looks for the state bucket.
func (r *terraformRun) prepareState(ctx context.Context, create bool) (id awsconfig.Identity, backend map[string]string, err error) {
	id, err = r.AWS.Identity(ctx)
	if err != nil {
		return id, nil, r.failed(ctx, runcontract.CodeInternal, "check the AWS credential", err)
	}
	r.Log.Printf("AWS account %s, as %s", id.Account, id.Principal)
	bucket, objects, err := r.AWS.Bucket(ctx, id, create)
	if err != nil {
		return id, nil, r.failed(ctx, runcontract.CodeStateBucket, "prepare the state bucket", err)
	}
	if objects == nil {
		r.Log.Printf("there is no state bucket %s", r.Spec.State.Bucket)
		return id, nil, nil
	}
	r.objects, r.fresh = objects, bucket.Created
	found := "found"
	if bucket.Created {
		found = "created"
	}
	r.Log.Printf("state bucket %s in %s: %s", r.Spec.State.Bucket, bucket.Region, found)
	if bucket.Unhardened != "" {
		r.Log.Printf("warning: the settings of the state bucket are not known to be safe: %s", bucket.Unhardened)
	}
	backend = maps.Clone(r.Spec.State.BackendConfig)
	if backend == nil {
		backend = map[string]string{}
	}
	backend["bucket"], backend["key"], backend["region"] = r.Spec.State.Bucket, r.Spec.State.Key, bucket.Region
	return id, backend, nil
}

// plan makes the plan.
func (r *terraformRun) plan(ctx context.Context, tf Terraform, id awsconfig.Identity, destroy bool) error {
	r.Enter(api.PhasePlan)
	if !destroy {
		if err := r.checkVersion(ctx); err != nil {
			return err
		}
	}
	var variables map[string]string
	if r.Spec.Topology == api.TopologyEKS { // a kubeadm cluster gives access by its own CA
		variables = map[string]string{runcontract.VariablePrincipal: id.Principal}
	}
	err := r.underLock(ctx, func(ctx context.Context) error { return tf.Plan(ctx, variables, destroy) })
	if err != nil {
		r.salvage(ctx, err)
		return r.failed(ctx, runcontract.CodeTerraformPlan, "terraform plan", err)
	}
	return nil
}

// checkVersion refuses a Kubernetes version that EKS does not offer.
func (r *terraformRun) checkVersion(ctx context.Context) error {
	if r.Spec.Topology != api.TopologyEKS || r.Spec.KubernetesVersion == "" {
		return nil
	}
	err := r.AWS.CheckVersion(ctx, r.Spec.KubernetesVersion)
	if unsupported, ok := errors.AsType[*eksversion.UnsupportedError](err); ok {
		return &StepError{Code: runcontract.CodeVersionUnsupported, Message: unsupported.Error()}
	}
	if err != nil {
		r.Log.Printf("warning: the Kubernetes version is not checked: %v", err)
	}
	return nil
}

// carryOut carries out the plan.
func (r *terraformRun) carryOut(ctx context.Context, tf Terraform) error {
	err := r.underLock(ctx, tf.Apply)
	r.salvage(ctx, err)
	return err
}

// guard refuses a plan that would take down what must stay.
func (r *terraformRun) guard(ctx context.Context, tf Terraform) error {
	// Showing a plan starts every provider again, which takes seconds; a plan
	// that removes nothing, and so replaces nothing, needs no look.
	if c := r.tracker.Planned(); c != nil && c.Remove == 0 {
		return nil
	}
	plan, err := tf.ShowPlan(ctx)
	if err != nil {
		return r.failed(ctx, runcontract.CodeTerraformPlan, "read the plan", err)
	}
	violations := guard.Check(plan)
	var list []string
	for _, v := range violations {
		list = append(list, v.String())
	}
	text := strings.Join(list, ", ")
	switch {
	case len(violations) == 0:
		return nil
	case r.Spec.AllowReplacement:
		r.Log.Printf("warning: the plan would %s; this is allowed explicitly", text)
		return nil
	case r.Spec.Operation == api.OperationPlan:
		r.Log.Printf("warning: the plan would %s; an apply needs allow_replacement", text)
		return nil
	}
	return &StepError{
		Code:    runcontract.CodeReplacementRefused,
		Message: "the plan would " + text + "; nothing was changed. Set allow_replacement if this is meant",
	}
}

// deliver makes the kubeconfig. The cluster is there now: an interrupt or the
// deadline leaves the time to hand it over.
func (r *terraformRun) deliver(ctx context.Context, tf Terraform) error {
	done := applied(r.changes())
	r.Enter(api.PhasePublishing)
	ctx, cancel := runner.Lasting(ctx, deliverTimeout)
	defer cancel()
	kubeconfig, err := r.kubeconfig(ctx, tf)
	if err != nil {
		return r.failed(ctx, runcontract.CodeKubeconfig, "the cluster is there, but its kubeconfig cannot be made", err)
	}
	r.files[runcontract.KeyKubeconfig] = kubeconfig
	r.Say("applied: " + done)
	return nil
}

// outputsPoll is how often outputs are looked for that must be there.
const outputsPoll = 5 * time.Second

// outputs reads the outputs. In a bucket whose versioning was turned on minutes
// ago, S3 may say for a moment that there is no state.
func (r *terraformRun) outputs(ctx context.Context, tf Terraform) (map[string]json.RawMessage, error) {
	for {
		outputs, err := tf.Outputs(ctx)
		if err != nil || len(outputs) > 0 || !r.fresh {
			return outputs, err
		}
		select {
		case <-ctx.Done():
			return outputs, nil
		case <-time.After(outputsPoll):
		}
	}
}

func (r *terraformRun) kubeconfig(ctx context.Context, tf Terraform) ([]byte, error) {
	outputs, err := r.outputs(ctx, tf)
	if err != nil {
		return nil, err
	}
	cluster := ekskubeconfig.Cluster{Region: r.Spec.Region}
	for name, value := range map[string]*string{
		runcontract.OutputClusterName: &cluster.Name, runcontract.OutputClusterEndpoint: &cluster.Endpoint, runcontract.OutputClusterCACertificate: &cluster.CACertificate,
	} {
		raw, ok := outputs[name]
		if !ok {
			return nil, fmt.Errorf("the environment has no output %s", name)
		}
		if err := json.Unmarshal(raw, value); err != nil {
			return nil, fmt.Errorf("the output %s is no string: %w", name, err)
		}
	}
	options := ekskubeconfig.Options{Auth: r.Spec.KubeconfigAuth, Exec: r.Spec.KubeconfigExec}
	switch options.Auth {
	case "", api.KubeconfigAuthEmbedded:
		if options.Keys, err = r.AWS.Keys(ctx); err != nil {
			return nil, err
		}
	case api.KubeconfigAuthServiceAccount:
		if options.Token, err = r.AWS.ClusterToken(ctx, cluster); err != nil {
			return nil, err
		}
		r.Hide(options.Token)
		r.Log.Printf("the kubeconfig has a ServiceAccount's token; to revoke it: %s", ekskubeconfig.Revoke)
	case api.KubeconfigAuthExecOnly:
	}
	return ekskubeconfig.Build(cluster, options)
}

// observe takes Terraform's events. It runs while Terraform waits for its
// output to be read, so nothing in here may block.
func (r *terraformRun) observe(e events.Event) {
	r.mu.Lock()
	r.tracker.Observe(e)
	progress := r.tracker.Progress()
	r.mu.Unlock()
	switch {
	case e.Kind == events.KindApplyProgress && e.Address == progress.Current:
		r.Say(e.Text) // what everything waits for, and for how long already
	case e.Kind == events.KindApplyComplete || e.Kind == events.KindApplyErrored:
		r.Say(title(r.Phase()))
	}
	if line := Line(r.Phase(), e, progress); line != "" {
		r.Log.Printf("%s", line)
	}
	switch e.Kind {
	case events.KindChangeSummary, events.KindApplyStart, events.KindApplyProgress, events.KindApplyComplete, events.KindApplyErrored:
		r.Report()
	default: // tells nothing of progress
	}
}
