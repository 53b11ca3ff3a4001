package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner"
	"github.com/kubeopera/platform/tfrunner/internal/adminconf"
	"github.com/kubeopera/platform/tfrunner/internal/bootstrap"
)

// Defaults of the run spec.
const (
	defaultPollInterval        = 20 * time.Second
	defaultControlPlaneTimeout = 20 * time.Minute
)

// clockSkew is by how much nodes' clocks may be behind.
const clockSkew = time.Minute

// kubeadmCluster is what Terraform built for a kubeadm cluster.
type kubeadmCluster struct {
	internal, public string // https URLs
	layout           bootstrap.Layout
}

// bootstrap waits until the nodes that Terraform has started have made a cluster
// of themselves, and hands over its kubeconfigs. Nothing that happens here touches
// the Terraform state: a run that ends here is resumed by the same run again.
func (r *terraformRun) bootstrap(ctx context.Context, tf Terraform) error {
	done := applied(r.changes())
	r.Enter(api.PhaseWaitingForControlPlane)
	built, watch, err := r.watch(ctx, tf)
	switch {
	case ctx.Err() != nil:
		return r.waited(ctx, runcontract.CodeKubeconfig, "", bootstrap.Cluster{}, context.Cause(ctx))
	case err != nil:
		return r.failed(ctx, runcontract.CodeKubeconfig, "the nodes are there, but cannot be followed", err)
	}
	seen, err := watch.Until(ctx, bootstrap.Cluster.Published)
	if err != nil {
		return r.waited(ctx, runcontract.CodeKubeconfig, "the cluster has published no kubeconfig", seen, err)
	}
	// Before the long wait: one that cannot be used will not become better.
	if _, err := r.kubeconfigs(seen, built); err != nil {
		return unusable(err)
	}
	r.Enter(api.PhaseWaitingForNodes)
	all, err := watch.Until(ctx, bootstrap.Cluster.Complete)
	if all.Published() { // the newest counts: the first node may have begun anew
		seen = all
	}
	files, unfit := r.kubeconfigs(seen, built)
	if unfit != nil {
		return unusable(unfit)
	}
	if err != nil {
		incomplete := r.waited(ctx, runcontract.CodeControlPlaneIncomplete, "the cluster is there, but not all of its control plane", seen, err)
		if incomplete.Code == runcontract.CodeControlPlaneIncomplete {
			r.publishKubeconfigs(ctx, files)
		}
		return incomplete
	}
	r.Enter(api.PhasePublishing)
	r.publishKubeconfigs(ctx, files)
	r.Say(fmt.Sprintf("applied: %s; %d of %d control-plane nodes joined", done, seen.Joined(), len(seen.Nodes)))
	return nil
}

// watch is how to follow the cluster that Terraform built.
func (r *terraformRun) watch(ctx context.Context, tf Terraform) (kubeadmCluster, bootstrap.Watch, error) {
	ctx, cancel := runner.Lasting(ctx, deliverTimeout)
	defer cancel()
	outputs, err := r.outputs(ctx, tf)
	if err != nil {
		return kubeadmCluster{}, bootstrap.Watch{}, err
	}
	built, err := readKubeadmOutputs(outputs)
	if err != nil {
		return kubeadmCluster{}, bootstrap.Watch{}, err
	}
	built.layout.Since = r.begun.Add(-clockSkew)
	parameters, err := r.AWS.Parameters(ctx)
	if err != nil {
		return kubeadmCluster{}, bootstrap.Watch{}, err
	}
	troubled := false
	return built, bootstrap.Watch{
		Parameters: parameters,
		Layout:     built.layout,
		Interval:   seconds(r.Spec.PollIntervalSeconds, defaultPollInterval),
		Timeout:    seconds(r.Spec.ControlPlaneTimeoutSeconds, defaultControlPlaneTimeout),
		Observe: func(c bootstrap.Cluster) {
			troubled = false
			r.see(c)
		},
		Trouble: func(err error) {
			if !troubled { // once per outage
				r.Log.Printf("warning: %v (trying again)", err)
			}
			troubled = true
		},
		Unseen: func(err error) { r.Log.Printf("warning: workers are not shown: %v", err) },
	}, nil
}

func seconds(n int, otherwise time.Duration) time.Duration {
	if n == 0 {
		return otherwise
	}
	return time.Duration(n) * time.Second
}

func readKubeadmOutputs(outputs map[string]json.RawMessage) (kubeadmCluster, error) {
	var c kubeadmCluster
	var problems []error
	read := func(name string, into any) {
		raw, ok := outputs[name]
		if !ok {
			problems = append(problems, fmt.Errorf("the environment has no output %s", name))
			return
		}
		if err := json.Unmarshal(raw, into); err != nil {
			problems = append(problems, fmt.Errorf("the output %s is of another type: %w", name, err))
		}
	}
	read(runcontract.OutputAPIEndpointInternal, &c.internal)
	read(runcontract.OutputAPIEndpointPublic, &c.public)
	read(runcontract.OutputParameterPrefix, &c.layout.Prefix)
	read(runcontract.OutputControlPlaneCount, &c.layout.ControlPlanes)
	if _, ok := outputs[runcontract.OutputControlPlaneInstanceIDs]; ok {
		read(runcontract.OutputControlPlaneInstanceIDs, &c.layout.Instances)
	}
	if len(problems) == 0 && (!strings.HasPrefix(c.layout.Prefix, "/") || c.layout.ControlPlanes < 1) {
		problems = append(problems, fmt.Errorf("the outputs %s and %s name no nodes", runcontract.OutputParameterPrefix, runcontract.OutputControlPlaneCount))
	}
	return c, errors.Join(problems...)
}

// see takes a new picture of the cluster over into the progress.
func (r *terraformRun) see(c bootstrap.Cluster) {
	if c.Published() && c.Kubeconfig != r.hidden { // before any word of this picture is shown
		r.hidden = c.Kubeconfig
		r.Hide(c.Kubeconfig.Reveal())
		if admin, err := adminconf.Parse(c.Kubeconfig.Reveal()); err == nil { // what is wrong with it is said later
			r.Hide(admin.Secrets()...)
		}
	}
	text := c.String()
	r.mu.Lock()
	r.current, r.nodes = "", nil
	if n, ok := c.Focus(); ok {
		r.current = n.Name
	}
	for _, n := range slices.Concat(c.Nodes, c.Workers) {
		r.nodes = append(r.nodes, n.Node)
	}
	r.mu.Unlock()
	if r.Say(text) {
		r.Log.Printf("%s", text)
	}
	r.Report()
}

// kubeconfigs are the files to publish: the kubeconfig for the public address, if
// there is one, and the one for the internal address.
func (r *terraformRun) kubeconfigs(c bootstrap.Cluster, built kubeadmCluster) (map[string][]byte, error) {
	admin, err := adminconf.Parse(c.Kubeconfig.Reveal())
	if err != nil {
		return nil, err
	}
	internal, err := admin.Kubeconfig(r.Spec.Name, built.internal)
	if err != nil {
		return nil, err
	}
	if built.public == "" {
		return map[string][]byte{runcontract.KeyKubeconfig: internal}, nil
	}
	public, err := admin.Kubeconfig(r.Spec.Name, built.public)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{runcontract.KeyKubeconfig: public, runcontract.KeyKubeconfigInternal: internal}, nil
}

func unusable(err error) *StepError {
	return &StepError{
		Code:    runcontract.CodeKubeconfig,
		Message: "the cluster is there, but its kubeconfig cannot be used: " + err.Error(),
	}
}

// publishKubeconfigs puts the kubeconfigs beside the result, and notes whether
// the first one works from here. It need not: a private address is no fault.
func (r *terraformRun) publishKubeconfigs(ctx context.Context, files map[string][]byte) {
	maps.Copy(r.files, files)
	ctx, cancel := runner.Lasting(ctx, deliverTimeout)
	defer cancel()
	err := r.Probe(ctx, files[runcontract.KeyKubeconfig])
	switch untrusted, ok := errors.AsType[*adminconf.UntrustedError](err); {
	case err == nil:
		r.Log.Printf("the API server answers the kubeconfig: it is ready")
	case ok:
		r.Log.Printf("warning: the API server answers, but not as the cluster's own: %v", untrusted)
	default:
		r.Log.Printf("the kubeconfig could not be tried from here: %v", err)
	}
}

// waited words why a wait ended before the cluster was as it should be.
func (r *terraformRun) waited(ctx context.Context, code runcontract.ErrorCode, what string, seen bootstrap.Cluster, err error) *StepError {
	if ctx.Err() != nil {
		f := &StepError{}
		r.interrupted(ctx, f, nil)
		if len(seen.Nodes) > 0 {
			f.Message += "; " + seen.String()
		}
		f.Message += "; what was built is in the saved state: start the run again to resume"
		return f
	}
	f := &StepError{Code: code, Message: what + ": " + err.Error()}
	if gaveUp, ok := errors.AsType[*bootstrap.FailedError](err); ok {
		f.Message += fmt.Sprintf(" (%d of %d control-plane nodes joined)", seen.Joined(), len(seen.Nodes))
		// A cluster whose only control plane is lost does not come back by itself.
		if id := gaveUp.Node.Instance; id != "" && (len(seen.Nodes) > 1 || !seen.Ready) {
			f.Message += fmt.Sprintf("; reboot the instance %s, or terminate it to have it replaced, and start the run again", id)
		}
		return f
	}
	if _, ok := errors.AsType[*bootstrap.TimeoutError](err); ok && len(seen.Nodes) > 0 {
		f.Message += "; " + seen.String() + "; start the run again to go on waiting"
	}
	return f
}
