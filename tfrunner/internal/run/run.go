// Package run is a Terraform run from its spec to its published result: the
// steps, their order, and what each way of failing means.
//
// A run is interrupted at most once, by a signal, by its own deadline or because
// it runs out of memory. What was interrupted ends in order: Terraform saves its
// state and releases the lock, and the result says how far it came. An apply that
// finishes in spite of the interrupt is a success and is published as one.
//
// What a Terraform leaves behind that did not end in order is put right: a state
// that it could not save is kept, and saved by the next run before anything else;
// a lock of ours is removed, by this run if it is its own, by the next one if its
// holder is a pod that is known to have ended. Any other lock stays.
package run

import (
	"context"
	"sync"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner"
	"github.com/kubeopera/platform/shared/runner/awsconfig"
	"github.com/kubeopera/platform/shared/runner/runlog"
	"github.com/kubeopera/platform/tfrunner/internal/adminconf"
	"github.com/kubeopera/platform/tfrunner/internal/bootstrap"
	"github.com/kubeopera/platform/tfrunner/internal/ekskubeconfig"
	"github.com/kubeopera/platform/tfrunner/internal/events"
	"github.com/kubeopera/platform/tfrunner/internal/memory"
	"github.com/kubeopera/platform/tfrunner/internal/statebucket"
)

// AWS is the account that the run works in.
type AWS interface {
	// Identity says whose credential it is.
	Identity(ctx context.Context) (awsconfig.Identity, error)
	// Bucket finds the state bucket, and gives access to what is in it. If there is
	// none, it is made if create is set; else Objects is nil.
	Bucket(ctx context.Context, id awsconfig.Identity, create bool) (statebucket.Bucket, Objects, error)
	// CheckVersion gives an *eksversion.UnsupportedError for a Kubernetes version
	// that EKS does not offer; any other error means that it cannot be told.
	CheckVersion(ctx context.Context, version string) error
	// Keys are the credential itself, for a kubeconfig that embeds it.
	Keys(ctx context.Context) (ekskubeconfig.Keys, error)
	// ClusterToken is the token of a ServiceAccount that is made in the cluster.
	ClusterToken(ctx context.Context, cluster ekskubeconfig.Cluster) (string, error)
	// Parameters are where the nodes of a kubeadm cluster report.
	Parameters(ctx context.Context) (bootstrap.Parameters, error)
	// Leftovers is what the cluster has made by itself.
	Leftovers(ctx context.Context) (Leftovers, error)
}

// Objects are the state and what is beside it in its bucket.
type Objects interface {
	Locks
	Rescued
}

// Memory watches the container's memory; package memory has the real one.
type Memory interface {
	// Run reports once that memory runs short, and returns then or when ctx ends.
	Run(ctx context.Context, exceeded func(*memory.ExceededError))
	// Killed tells whether the kernel has killed a process for want of memory.
	Killed() bool
}

// Config is what a run needs.
type Config struct {
	Spec      runcontract.Spec
	AWS       AWS
	Publisher runner.Publisher
	Log       *runlog.Log
	// Terraform prepares the working folder and returns its Terraform, which
	// reports events to onEvent.
	Terraform func(onEvent func(events.Event)) (Terraform, error)
	// RescueDir is where the state is mounted that Spec.RescuedRun left in its
	// outputs Secret.
	RescueDir string
	// Pod is the host that locks of this run name; empty if that is not known to be
	// this pod alone.
	Pod string
	// LockTimeout is how long to wait for a lock that somebody else holds.
	LockTimeout time.Duration
	// Memory watches the container's memory; nil: nobody does.
	Memory Memory
	// Hide keeps secrets that the run comes to know out of log, progress and result.
	Hide func(secrets ...string)
	// Probe asks a cluster's API server whether it is ready; nil: adminconf.Probe.
	Probe func(ctx context.Context, kubeconfig []byte) error
	Now   func() time.Time // nil: time.Now
}

// Bounds of what still happens after the work has ended or was interrupted.
// Three things may follow a signal, each for runner.AfterSignal at most: keeping
// the state, removing the lock, publishing. They must fit into the 60 s that
// WaitDelay leaves of the grace period.
const (
	deliverTimeout      = 2 * time.Minute
	rescueTimeout       = 2 * time.Minute
	unlockTimeout       = time.Minute
	minimumGraceForWait = 60 * time.Second
)

// WaitDelay is how long an interrupted Terraform may take: the pod's grace
// period, less what is needed afterwards to publish the result.
func WaitDelay(s runcontract.Spec) time.Duration {
	grace := time.Duration(s.GraceSeconds) * time.Second
	return max(grace-minimumGraceForWait, grace/2)
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
	if cfg.Memory == nil {
		cfg.Memory = &memory.Watch{}
	}
	if cfg.Probe == nil {
		cfg.Probe = adminconf.Probe
	}
	r := &terraformRun{Config: cfg, files: map[string][]byte{}, begun: cfg.Now()}
	r.Run = runner.New(runner.Config{Publisher: cfg.Publisher, Log: cfg.Log, Title: title, Progress: r.describe, Now: cfg.Now})
	err := r.Do(ctx, api.PhasePreparingState, time.Duration(cfg.Spec.TimeoutSeconds)*time.Second, func(work context.Context) error {
		return r.watched(work, r.steps)
	})
	return r.finish(ctx, err)
}

type terraformRun struct {
	*runner.Run
	Config
	files map[string][]byte // what is published beside the result
	begun time.Time

	hidden   redact.Secret // the published kubeconfig whose secrets are hidden
	objects  Objects       // nil before the state bucket is found
	fresh    bool          // the state bucket was created by this run
	kept     string        // where a state is that Terraform could not save; empty: nowhere
	carried  bool          // files have a state that an earlier run could not save
	unlocked bool          // a lock that Terraform left was removed

	mu      sync.Mutex // guards what Terraform's events change
	tracker events.Tracker
	nodes   []api.Node // of a cluster that is waited for
	current string     // the node that everything waits for
}

// watched does work, which is interrupted when memory runs short.
func (r *terraformRun) watched(ctx context.Context, work func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		r.Memory.Run(ctx, func(e *memory.ExceededError) {
			r.Log.Printf("warning: %v: interrupting", e)
			cancel(e)
		})
	})
	err := work(ctx)
	cancel(nil)
	wg.Wait()
	return err
}

// finish publishes the result.
func (r *terraformRun) finish(ctx context.Context, err error) runcontract.Result {
	result := r.result(err)
	if tail, err := r.Log.Tail(); err == nil {
		r.files[runcontract.KeyLogTail] = tail
	}
	if !fits(r.files) { // the log is kept elsewhere too, the state is not
		delete(r.files, runcontract.KeyLogTail)
	}
	return r.Finish(ctx, result, r.files, func(result *runcontract.Result, err error) bool {
		switch {
		case r.files[runcontract.KeyErroredState] == nil:
			return false
		case r.carried: // the next run is to look where this one did
			result.ErrorCode = runcontract.CodePublish
			result.Message += "; nor can the result be published: " + err.Error()
			return true
		}
		result.Message = "the state is lost: Terraform could not save it, nor could it be kept anywhere else: " + err.Error()
		return true
	})
}

func (r *terraformRun) result(err error) runcontract.Result {
	var result runcontract.Result
	if err == nil {
		result = r.Succeeded()
	} else {
		f := failure(err)
		result = r.Failed(f.Code, f.Message)
		result.Diagnostic, result.Lock = f.Diagnostic, f.Lock
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	result.Changes = r.changes()
	return result
}

// changes are what the run changed, or would change.
func (r *terraformRun) changes() *api.Changes {
	switch {
	case r.Spec.Operation == api.OperationUnlock || r.tracker.Planned() == nil:
		return nil
	case r.Spec.Operation == api.OperationPlan:
		return r.tracker.Planned()
	}
	c := r.tracker.Changes()
	return &c
}

// describe adds to a progress how far Terraform and the cluster's nodes are.
func (r *terraformRun) describe(progress *runcontract.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.tracker.Progress()
	progress.Done, progress.Total, progress.Current, progress.Nodes = p.Done, p.Total, p.Current, r.nodes
	if r.current != "" {
		progress.Current = r.current
	}
}
