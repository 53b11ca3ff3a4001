// Package machines is a run that makes a cluster of machines that exist
// (topology existing_machines), or resets them: without Terraform and without a
// state. What is there already is found on the machines themselves, so a run that
// ended early is resumed by the same run again.
package machines

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/provisioner"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner"
	"github.com/kubeopera/platform/shared/runner/runlog"
	"github.com/kubeopera/platform/tfrunner/internal/adminconf"
)

// Fleet is the machines of a run; NewFleet makes the real one.
type Fleet interface {
	// Plan is what Provision would execute where, in words.
	Plan(ctx context.Context) (string, error)
	// Connect logs in to every machine and changes nothing.
	Connect(ctx context.Context, seen func(provisioner.NodeProgress)) (*provisioner.ClusterResult, error)
	// Provision makes the cluster, or what it lacks.
	Provision(ctx context.Context, seen func(provisioner.NodeProgress)) (*provisioner.ClusterResult, error)
	// Reset takes the cluster down.
	Reset(ctx context.Context, seen func(provisioner.NodeProgress)) (*provisioner.ClusterResult, error)
	// Kubeconfig is that of the cluster's administrator, after Provision; empty
	// if there is none.
	Kubeconfig() redact.Secret
	// Close ends all connections.
	Close() error
}

// Config is what a run needs.
type Config struct {
	Spec      runcontract.Spec
	Fleet     Fleet
	Publisher runner.Publisher
	Log       *runlog.Log
	// Hide keeps secrets that the run comes to know out of log, progress and result.
	Hide func(secrets ...string)
	// Probe asks a cluster's API server whether it is ready; nil: adminconf.Probe.
	Probe func(ctx context.Context, kubeconfig []byte) error
	Now   func() time.Time // nil: time.Now
}

// deliverTimeout bounds what still happens after the work has ended.
const deliverTimeout = 2 * time.Minute

// titles are the phases in words.
var titles = map[api.Phase]string{
	api.PhaseConnecting:             "connect to the machines",
	api.PhasePreparingMachines:      "prepare the machines",
	api.PhaseWaitingForControlPlane: "make the control plane",
	api.PhaseWaitingForNodes:        "join the workers",
	api.PhaseResettingMachines:      "reset the machines",
	api.PhasePublishing:             "publish the kubeconfig",
}

func title(p api.Phase) string {
	if t, ok := titles[p]; ok {
		return t
	}
	return runner.Title(p)
}

// Run carries out the run and returns its result, which has been published
// unless the result says otherwise. When ctx ends, its cause should be runner.ErrInterrupted.
func Run(ctx context.Context, cfg Config) runcontract.Result {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Hide == nil {
		cfg.Hide = func(...string) {}
	}
	if cfg.Probe == nil {
		cfg.Probe = adminconf.Probe
	}
	r := &machinesRun{Config: cfg, files: map[string][]byte{}}
	for _, m := range cfg.Spec.Machines {
		r.nodes = append(r.nodes, api.Node{Name: m.Name, State: api.NodeWaiting})
	}
	r.Run = runner.New(runner.Config{Publisher: cfg.Publisher, Log: cfg.Log, Title: title, Progress: r.describe, Now: cfg.Now})
	err := r.Do(ctx, api.PhaseConnecting, time.Duration(cfg.Spec.TimeoutSeconds)*time.Second, r.steps)
	return r.finish(ctx, err)
}

type machinesRun struct {
	*runner.Run
	Config
	files map[string][]byte // what is published beside the result

	mu      sync.Mutex // guards what progress changes
	nodes   []api.Node
	current string
}

// StepError is why a run did not succeed, in the contract's terms.
type StepError struct {
	Code    runcontract.ErrorCode
	Message string
}

// Error is the message.
func (e *StepError) Error() string { return e.Message }

func (r *machinesRun) steps(ctx context.Context) error {
	if err := CheckSpec(r.Spec); err != nil {
		return &StepError{Code: runcontract.CodeInvalidSpec, Message: err.Error()}
	}
	switch r.Spec.Operation {
	case api.OperationDestroy:
		return r.destroy(ctx)
	case api.OperationPlan:
		return r.plan(ctx)
	default: // apply: CheckSpec has refused others
		return r.apply(ctx)
	}
}

// connect refuses to begin before every machine lets this run in: what can be
// corrected in the request should not be found out in the middle.
func (r *machinesRun) connect(ctx context.Context) error {
	result, err := r.Fleet.Connect(ctx, r.observe)
	if err != nil {
		return r.failed(ctx, runcontract.CodeMachinesUnreachable, "nothing was changed", result, err)
	}
	return nil
}

// plan says what an apply would execute.
func (r *machinesRun) plan(ctx context.Context) error {
	text, err := r.Fleet.Plan(ctx)
	if err != nil {
		return &StepError{Code: runcontract.CodeInvalidSpec, Message: err.Error()}
	}
	if err := r.connect(ctx); err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		r.Log.Printf("%s", strings.TrimRight(line, "\n"))
	}
	r.Say(fmt.Sprintf("plan: all %d machines can be reached; the log says what an apply would execute, and where", len(r.Spec.Machines)))
	return nil
}

// apply makes the cluster and hands over its kubeconfig. That is done as well when
// some machines have failed: the others are a cluster.
func (r *machinesRun) apply(ctx context.Context) error {
	if err := r.connect(ctx); err != nil {
		return err
	}
	r.Enter(api.PhasePreparingMachines)
	result, err := r.Fleet.Provision(ctx, r.observe)
	published, unusable := r.publishKubeconfig(ctx)
	switch {
	case err != nil:
		advice := "start the run again: it goes on where this one stopped"
		if published {
			advice = "the cluster is there without them; " + advice
		}
		return r.failed(ctx, runcontract.CodeMachinesFailed, advice, result, err)
	case unusable != nil:
		return &StepError{Code: runcontract.CodeKubeconfig, Message: "the cluster is there, but its kubeconfig cannot be used: " + unusable.Error()}
	}
	r.Say(fmt.Sprintf("applied: %d machines are nodes of the cluster", len(r.Spec.Machines)))
	return nil
}

// destroy resets all machines that can be reached.
func (r *machinesRun) destroy(ctx context.Context) error {
	r.Enter(api.PhaseResettingMachines)
	result, err := r.Fleet.Reset(ctx, r.observe)
	if err != nil {
		return r.failed(ctx, runcontract.CodeMachinesFailed, "what is reset stays reset; start the destroy again", result, err)
	}
	r.Say(fmt.Sprintf("destroyed: %d machines are reset", len(r.Spec.Machines)))
	return nil
}

// publishKubeconfig puts the kubeconfig beside the result, if there is one. An
// interrupt leaves the time to hand it over.
func (r *machinesRun) publishKubeconfig(ctx context.Context) (published bool, err error) {
	conf := r.Fleet.Kubeconfig()
	if conf == "" {
		return false, errors.New("the control plane has given none")
	}
	r.Hide(conf.Reveal())
	admin, err := adminconf.Read([]byte(conf.Reveal()))
	if err != nil {
		return false, err
	}
	r.Hide(admin.Secrets()...)
	kubeconfig, err := admin.Kubeconfig(r.Spec.Name, "https://"+r.Spec.ControlPlaneEndpoint)
	if err != nil {
		return false, err
	}
	if ctx.Err() == nil {
		r.Enter(api.PhasePublishing)
	}
	r.files[runcontract.KeyKubeconfig] = kubeconfig
	ctx, cancel := runner.Lasting(ctx, deliverTimeout)
	defer cancel()
	if err := r.Probe(ctx, kubeconfig); err != nil { // a private address is no fault
		r.Log.Printf("the kubeconfig could not be tried from here: %v", err)
	} else {
		r.Log.Printf("the API server answers the kubeconfig: it is ready")
	}
	return true, nil
}

// maxNamed is how many machines a message names.
const maxNamed = 5

// failed words why a step has failed, machine by machine.
func (r *machinesRun) failed(ctx context.Context, code runcontract.ErrorCode, advice string, result *provisioner.ClusterResult, err error) *StepError {
	r.record(result)
	e := &StepError{Code: code}
	switch {
	case errors.Is(context.Cause(ctx), runner.ErrDeadline):
		e.Code = runcontract.CodeDeadlineExceeded
		e.Message = fmt.Sprintf("stopped by its deadline of %d s (%s); %s", r.Spec.TimeoutSeconds, title(r.Phase()), advice)
		return e
	case ctx.Err() != nil:
		e.Code = runcontract.CodeInterrupted
		e.Message = fmt.Sprintf("interrupted (%s); %s", title(r.Phase()), advice)
		return e
	}
	var named []string
	failed := 0
	if result != nil {
		for _, n := range result.Nodes {
			if n.Err == nil {
				continue
			}
			failed++
			r.Log.Printf("error: %s: %s: %v", n.Name, n.Step, n.Err)
			if len(named) < maxNamed {
				named = append(named, fmt.Sprintf("%s: %s: %v", n.Name, n.Step, n.Err))
			}
		}
	}
	if failed == 0 { // an error that is no machine's
		e.Message = err.Error() + "; " + advice
		return e
	}
	if failed > len(named) {
		named = append(named, fmt.Sprintf("and %d more", failed-len(named)))
	}
	e.Message = fmt.Sprintf("%d of %d machines failed; %s. %s", failed, len(r.Spec.Machines), advice, strings.Join(named, "; "))
	return e
}

// finish publishes the result.
func (r *machinesRun) finish(ctx context.Context, err error) runcontract.Result {
	var result runcontract.Result
	step, isStep := errors.AsType[*StepError](err)
	publishing, isPublishing := errors.AsType[*runner.PublishError](err)
	switch {
	case err == nil:
		result = r.Succeeded()
	case isPublishing:
		result = r.Failed(runcontract.CodePublish, publishing.Error())
	case isStep:
		result = r.Failed(step.Code, step.Message)
	default:
		result = r.Failed(runcontract.CodeInternal, err.Error())
	}
	if tail, err := r.Log.Tail(); err == nil {
		r.files[runcontract.KeyLogTail] = tail
	}
	return r.Finish(ctx, result, r.files, nil)
}

// describe adds to a progress how far the machines are.
func (r *machinesRun) describe(p *runcontract.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.Nodes, p.Total, p.Current = slices.Clone(r.nodes), len(r.nodes), r.current
	for _, n := range r.nodes {
		if n.State == api.NodeJoined || n.State == api.NodeReset {
			p.Done++
		}
	}
}
