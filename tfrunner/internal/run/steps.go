package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/tfrunner/internal/awsconfig"
	"github.com/kubeopera/platform/tfrunner/internal/ekskubeconfig"
	"github.com/kubeopera/platform/tfrunner/internal/events"
	"github.com/kubeopera/platform/tfrunner/internal/guard"
)

// Terraform is one environment's Terraform; package terraform has the real one.
type Terraform interface {
	Init(ctx context.Context, backend map[string]string) error
	Plan(ctx context.Context, variables map[string]string) error
	ShowPlan(ctx context.Context) (*tfjson.Plan, error)
	Apply(ctx context.Context) error
	Outputs(ctx context.Context) (map[string]json.RawMessage, error)
}

// steps is the run, from the spec to the kubeconfig.
func (r *runner) steps(ctx context.Context) error {
	if err := CheckSpec(r.Spec); err != nil {
		return &StepError{Code: runcontract.CodeInvalidSpec, Message: err.Error()}
	}
	id, backend, err := r.prepareState(ctx)
	if err != nil {
		return err
	}
	tf, err := r.Terraform(r.observe)
	if err != nil {
		return r.failed(ctx, runcontract.CodeInternal, "prepare Terraform", err)
	}
	r.enter(api.PhaseInit)
	if err := tf.Init(ctx, backend); err != nil {
		return r.failed(ctx, runcontract.CodeTerraformInit, "terraform init", err)
	}
	if err := r.plan(ctx, tf, id); err != nil {
		return err
	}
	if r.Spec.Operation == api.OperationPlan {
		r.say("planned: " + planned(r.tracker.Changes()))
		return nil
	}
	r.enter(api.PhaseApply)
	if err := tf.Apply(ctx); err != nil {
		return r.failed(ctx, runcontract.CodeTerraformApply, "terraform apply", err)
	}
	if r.Spec.Topology == api.TopologyVanillaKubeadm {
		return r.bootstrap(ctx, tf)
	}
	return r.deliver(ctx, tf)
}

// CheckSpec refuses what this runner cannot do.
func CheckSpec(s runcontract.Spec) error {
	var problems []error
	if s.Kind != runcontract.KindProvision {
		problems = append(problems, fmt.Errorf("kind %q is not this runner's", s.Kind))
	}
	switch s.Operation {
	case api.OperationApply, api.OperationPlan:
	default:
		problems = append(problems, fmt.Errorf("operation %q is not available in this version", s.Operation))
	}
	switch s.Topology {
	case api.TopologyEKS:
		if s.KubeconfigAuth == api.KubeconfigAuthServiceAccount {
			problems = append(problems, fmt.Errorf("kubeconfig_auth %s: %w", s.KubeconfigAuth, ekskubeconfig.ErrNotYet))
		}
	case api.TopologyVanillaKubeadm:
		if s.Name == "" {
			problems = append(problems, errors.New("name is empty"))
		}
	default:
		problems = append(problems, fmt.Errorf("topology %q is not available in this version", s.Topology))
	}
	for name, value := range map[string]string{
		"environment": s.Environment, "region": s.Region, "state.bucket": s.State.Bucket, "state.key": s.State.Key,
	} {
		if value == "" {
			problems = append(problems, fmt.Errorf("%s is empty", name))
		}
	}
	if s.TimeoutSeconds <= 0 || s.GraceSeconds <= 0 {
		problems = append(problems, errors.New("timeout_seconds and grace_seconds must be positive"))
	}
	if s.PollIntervalSeconds < 0 || s.ControlPlaneTimeoutSeconds < 0 {
		problems = append(problems, errors.New("poll_interval_seconds and control_plane_timeout_seconds must not be negative"))
	}
	return errors.Join(problems...)
}

// prepareState finds out whose credential it is and makes sure that there is a state bucket.
func (r *runner) prepareState(ctx context.Context) (awsconfig.Identity, map[string]string, error) {
	id, err := r.AWS.Identity(ctx)
	if err != nil {
		return id, nil, r.failed(ctx, runcontract.CodeInternal, "check the AWS credential", err)
	}
	r.Log.Printf("AWS account %s, as %s", id.Account, id.Principal)
	bucket, err := r.AWS.EnsureBucket(ctx, id)
	if err != nil {
		return id, nil, r.failed(ctx, runcontract.CodeStateBucket, "prepare the state bucket", err)
	}
	found := "found"
	if bucket.Created {
		found = "created"
	}
	r.Log.Printf("state bucket %s in %s: %s", r.Spec.State.Bucket, bucket.Region, found)
	if bucket.Unhardened != "" {
		r.Log.Printf("warning: the settings of the state bucket were not looked at: %s", bucket.Unhardened)
	}
	backend := maps.Clone(r.Spec.State.BackendConfig)
	if backend == nil {
		backend = map[string]string{}
	}
	backend["bucket"], backend["key"], backend["region"] = r.Spec.State.Bucket, r.Spec.State.Key, bucket.Region
	return id, backend, nil
}

// plan makes the plan and refuses one that would take down what must stay.
func (r *runner) plan(ctx context.Context, tf Terraform, id awsconfig.Identity) error {
	r.enter(api.PhasePlan)
	var variables map[string]string
	if r.Spec.Topology == api.TopologyEKS { // a kubeadm cluster gives access by its own CA
		variables = map[string]string{runcontract.VariablePrincipal: id.Principal}
	}
	if err := tf.Plan(ctx, variables); err != nil {
		return r.failed(ctx, runcontract.CodeTerraformPlan, "terraform plan", err)
	}
	// Showing a plan starts every provider again, which takes seconds; a plan
	// that removes nothing, and so replaces nothing, needs no look.
	if c := r.tracker.Changes(); c != nil && c.Remove == 0 {
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
func (r *runner) deliver(ctx context.Context, tf Terraform) error {
	done := applied(r.tracker.Changes())
	r.enter(api.PhasePublishing)
	ctx, cancel := lasting(ctx, deliverTimeout)
	defer cancel()
	kubeconfig, err := r.kubeconfig(ctx, tf)
	if err != nil {
		return r.failed(ctx, runcontract.CodeKubeconfig, "the cluster is there, but its kubeconfig cannot be made", err)
	}
	r.files[runcontract.KeyKubeconfig] = kubeconfig
	r.say("applied: " + done)
	return nil
}

func (r *runner) kubeconfig(ctx context.Context, tf Terraform) ([]byte, error) {
	outputs, err := tf.Outputs(ctx)
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
	if options.Auth == "" || options.Auth == api.KubeconfigAuthEmbedded {
		if options.Keys, err = r.AWS.Keys(ctx); err != nil {
			return nil, err
		}
	}
	return ekskubeconfig.Build(cluster, options)
}

// observe takes Terraform's events. It runs while Terraform waits for its
// output to be read, so nothing in here may block.
func (r *runner) observe(e events.Event) {
	r.mu.Lock()
	r.tracker.Observe(e)
	progress := r.tracker.Progress()
	switch {
	case e.Kind == events.KindApplyProgress && e.Address == progress.Current:
		r.message = e.Text // what everything waits for, and for how long already
	case e.Kind == events.KindApplyComplete || e.Kind == events.KindApplyErrored:
		r.message = title(r.phase)
	}
	r.mu.Unlock()
	if line := Line(r.phase, e, progress); line != "" {
		r.Log.Printf("%s", line)
	}
	switch e.Kind {
	case events.KindChangeSummary, events.KindApplyStart, events.KindApplyProgress, events.KindApplyComplete, events.KindApplyErrored:
		r.Publisher.Report(r.progress())
	default: // tells nothing of progress
	}
}
