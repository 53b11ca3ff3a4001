package run

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"sync"
	"time"

	tfjson "github.com/hashicorp/terraform-json"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner/awsconfig"
	"github.com/kubeopera/platform/shared/runner/runlog"
	"github.com/kubeopera/platform/sim/pki"
	"github.com/kubeopera/platform/tfrunner/internal/ekskubeconfig"
	"github.com/kubeopera/platform/tfrunner/internal/events"
	"github.com/kubeopera/platform/tfrunner/internal/statebucket"
)

// world is everything around a run. Each step is noted in calls and does what
// its entry in on says.
type world struct {
	on      map[string]func(ctx context.Context) error
	outputs map[string]json.RawMessage
	changes []*tfjson.ResourceChange // of the plan, which removes as many
	backend map[string]string
	vars    map[string]string
	emit    func(events.Event)
	store   map[string]string // the Parameter Store
	hidden  []string
	aws     bool // the environment has AWS's provider
	empty   bool // there is nothing to change
	bucket  *bucket
	pod     string
	rescues string        // folder of the mounted rescued state
	wait    time.Duration // for locks
	memory  Memory
	fresh   bool
	log     lines

	mu       sync.Mutex
	calls    []string
	progress []runcontract.Progress
	message  runcontract.Result // the termination message
	result   runcontract.Result
	files    map[string][]byte
}

func newWorld() *world {
	text := func(s string) json.RawMessage {
		data, _ := json.Marshal(s)
		return data
	}
	authority, err := pki.New("cluster")
	if err != nil {
		panic(err) // no randomness
	}
	ca := base64.StdEncoding.EncodeToString(authority.PEM())
	return &world{
		bucket: newBucket(),
		on:     map[string]func(context.Context) error{},
		outputs: map[string]json.RawMessage{
			runcontract.OutputClusterName: text("acme"), runcontract.OutputClusterEndpoint: text("https://example.org"), runcontract.OutputClusterCACertificate: text(ca),
		},
	}
}

func (w *world) step(ctx context.Context, name string) error {
	w.mu.Lock()
	w.calls = append(w.calls, name)
	do := w.on[name]
	w.mu.Unlock()
	if do != nil {
		return do(ctx)
	}
	return ctx.Err()
}

// Identity implements AWS.
func (w *world) Identity(ctx context.Context) (awsconfig.Identity, error) {
	return awsconfig.Identity{Account: "123456789012", Principal: "arn:aws:iam::123456789012:role/r"}, w.step(ctx, "identity")
}

// Bucket implements AWS.
func (w *world) Bucket(ctx context.Context, _ awsconfig.Identity, create bool) (statebucket.Bucket, Objects, error) {
	err := w.step(ctx, "bucket")
	if err != nil || w.bucket == nil && !create {
		return statebucket.Bucket{}, nil, err
	}
	return statebucket.Bucket{Region: "us-east-2", Created: w.fresh}, w.bucket, nil
}

// Leftovers implements AWS.
func (w *world) Leftovers(ctx context.Context) (Leftovers, error) {
	return w, w.step(ctx, "leftovers")
}

// Remove implements Leftovers.
func (w *world) Remove(ctx context.Context, report func(string)) error {
	report("removed a load balancer")
	return w.step(ctx, "remove")
}

// RemoveDuring implements Leftovers.
func (w *world) RemoveDuring(ctx context.Context, _ func(string), destroy func(context.Context) error) error {
	return destroy(ctx)
}

// RemoveParameters implements Leftovers.
func (w *world) RemoveParameters(ctx context.Context, _ func(string)) error {
	return w.step(ctx, "parameters removed")
}

// Keys implements AWS.
func (w *world) Keys(ctx context.Context) (ekskubeconfig.Keys, error) {
	return ekskubeconfig.Keys{AccessKeyID: "AKIA", SecretAccessKey: "secret"}, w.step(ctx, "keys")
}

// CheckVersion implements AWS.
func (w *world) CheckVersion(ctx context.Context, version string) error {
	return w.step(ctx, "version "+version)
}

// ClusterToken implements AWS.
func (w *world) ClusterToken(ctx context.Context, cluster ekskubeconfig.Cluster) (string, error) {
	return "token-of-" + cluster.Name, w.step(ctx, "token")
}

// Init implements Terraform.
func (w *world) Init(ctx context.Context, backend map[string]string) error {
	w.backend = backend
	return w.step(ctx, "init")
}

// Push implements Terraform.
func (w *world) Push(ctx context.Context, state []byte) error {
	if err := w.step(ctx, "push"); err != nil {
		return err
	}
	w.bucket.state = state
	return nil
}

// Plan implements Terraform.
func (w *world) Plan(ctx context.Context, variables map[string]string, destroy bool) error {
	w.vars = variables
	name, summary := "plan", events.Summary{Operation: events.OperationPlan, Add: 2, Remove: len(w.changes)}
	if destroy {
		name, summary = "plan to destroy", events.Summary{Operation: events.OperationPlan, Remove: 2}
	}
	if w.empty {
		summary = events.Summary{Operation: events.OperationPlan}
	}
	w.emit(events.Event{Kind: events.KindChangeSummary, Summary: &summary})
	return w.step(ctx, name)
}

// ShowPlan implements Terraform.
func (w *world) ShowPlan(ctx context.Context) (*tfjson.Plan, error) {
	plan := &tfjson.Plan{ResourceChanges: w.changes}
	if w.aws {
		plan.Config = &tfjson.Config{ProviderConfigs: map[string]*tfjson.ProviderConfig{"aws": {FullName: "registry.terraform.io/hashicorp/aws"}}}
	}
	return plan, w.step(ctx, "show")
}

// PlanText implements Terraform.
func (w *world) PlanText(ctx context.Context) (string, error) {
	return "# aws_vpc.this will be created", w.step(ctx, "text")
}

// Apply implements Terraform.
func (w *world) Apply(ctx context.Context) error {
	action := "create"
	if slices.Contains(w.calls, "plan to destroy") {
		action = "delete"
	}
	w.emit(events.Event{Kind: events.KindApplyComplete, Address: "a", Action: action})
	if err := w.step(ctx, "apply"); err != nil {
		return err
	}
	w.emit(events.Event{Kind: events.KindApplyComplete, Address: "b", Action: action})
	return nil
}

// Outputs implements Terraform.
func (w *world) Outputs(ctx context.Context) (map[string]json.RawMessage, error) {
	err := w.step(ctx, "outputs")
	return w.outputs, err
}

// Open implements Publisher.
func (w *world) Open(ctx context.Context, p runcontract.Progress) error {
	w.Report(p)
	return w.step(ctx, "open")
}

// Run implements Publisher.
func (w *world) Run(ctx context.Context) { <-ctx.Done() }

// Report implements Publisher.
func (w *world) Report(p runcontract.Progress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.progress = append(w.progress, p)
}

// Finish implements Publisher.
func (w *world) Finish(ctx context.Context, p runcontract.Progress, r runcontract.Result, files map[string][]byte) error {
	w.Report(p)
	w.result, w.files = r, files
	return w.step(ctx, "finish")
}

// Terminate implements Publisher.
func (w *world) Terminate(r runcontract.Result) error {
	w.message = r
	return nil
}

func spec() runcontract.Spec {
	return runcontract.Spec{
		Version: 1, ID: "1", Kind: runcontract.KindProvision, Operation: api.OperationApply, Environment: "acme",
		Topology: api.TopologyEKS, Region: "eu-west-1",
		State:          runcontract.State{Bucket: "b", Key: "k", BackendConfig: map[string]string{"use_path_style": "true", "region": "ignored"}},
		TimeoutSeconds: 3600, GraceSeconds: 1200,
	}
}

func (w *world) run(ctx context.Context, s runcontract.Spec) runcontract.Result {
	log := runlog.New(&w.log, redact.New())
	defer log.Close()
	return Run(ctx, Config{
		Spec: s, AWS: w, Publisher: w, Log: log,
		RescueDir: w.rescues, Pod: w.pod, LockTimeout: w.wait, Memory: w.memory,
		Terraform: func(onEvent func(events.Event)) (Terraform, error) {
			w.emit = onEvent
			return w, w.step(ctx, "prepare")
		},
		Hide:  func(secrets ...string) { w.hidden = append(w.hidden, secrets...) },
		Probe: func(ctx context.Context, _ []byte) error { return w.step(ctx, "probe") },
	})
}
