// Package run is a Terraform run from its spec to its published result: the
// steps, their order, and what each way of failing means.
//
// A run is interrupted at most once, by a signal or by its own deadline. What
// was interrupted ends in order: Terraform saves its state and releases the
// lock, and the result says how far it came. An apply that finishes in spite of
// the interrupt is a success and is published as one.
package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/tfrunner/internal/adminconf"
	"github.com/kubeopera/platform/tfrunner/internal/awsconfig"
	"github.com/kubeopera/platform/tfrunner/internal/bootstrap"
	"github.com/kubeopera/platform/tfrunner/internal/ekskubeconfig"
	"github.com/kubeopera/platform/tfrunner/internal/events"
	"github.com/kubeopera/platform/tfrunner/internal/runlog"
	"github.com/kubeopera/platform/tfrunner/internal/statebucket"
)

// The causes for which a run's context ends early.
var (
	// ErrInterrupted is somebody's wish: a signal.
	ErrInterrupted = errors.New("interrupted")
	// ErrDeadline is the run's own deadline.
	ErrDeadline = errors.New("the run's deadline has passed")
)

// AWS is the account that the run works in.
type AWS interface {
	// Identity says whose credential it is.
	Identity(ctx context.Context) (awsconfig.Identity, error)
	// EnsureBucket makes sure that the state bucket exists.
	EnsureBucket(ctx context.Context, id awsconfig.Identity) (statebucket.Bucket, error)
	// Keys are the credential itself, for a kubeconfig that embeds it.
	Keys(ctx context.Context) (ekskubeconfig.Keys, error)
	// Parameters are where the nodes of a kubeadm cluster report.
	Parameters(ctx context.Context) (bootstrap.Parameters, error)
}

// Publisher hands the run's progress and result to the service.
type Publisher interface {
	Open(ctx context.Context, progress runcontract.Progress) error
	Run(ctx context.Context)
	Report(progress runcontract.Progress)
	Finish(ctx context.Context, progress runcontract.Progress, result runcontract.Result, files map[string][]byte) error
	Terminate(result runcontract.Result) error
}

// Config is what a run needs.
type Config struct {
	Spec      runcontract.Spec
	AWS       AWS
	Publisher Publisher
	Log       *runlog.Log
	// Terraform prepares the working folder and returns its Terraform, which
	// reports events to onEvent.
	Terraform func(onEvent func(events.Event)) (Terraform, error)
	// WorkDir is the working folder, for messages.
	WorkDir string
	// Hide keeps secrets that the run comes to know out of log, progress and result.
	Hide func(secrets ...string)
	// Probe asks a cluster's API server whether it is ready; nil: adminconf.Probe.
	Probe func(ctx context.Context, kubeconfig []byte) error
	Now   func() time.Time // nil: time.Now
}

// Bounds of what still happens after the work has ended or was interrupted.
// The short ones must fit into the 60 s that WaitDelay leaves of the grace period.
const (
	openTimeout         = 2 * time.Minute
	publishTimeout      = 5 * time.Minute
	deliverTimeout      = 2 * time.Minute
	afterSignal         = 20 * time.Second
	minimumGraceForWait = 60 * time.Second
)

// WaitDelay is how long an interrupted Terraform may take: the pod's grace
// period, less what is needed afterwards to publish the result.
func WaitDelay(s runcontract.Spec) time.Duration {
	grace := time.Duration(s.GraceSeconds) * time.Second
	return max(grace-minimumGraceForWait, grace/2)
}

// Run carries out the run and returns its result, which has been published
// unless the result says otherwise. When ctx ends, its cause should be ErrInterrupted.
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
	r := &runner{Config: cfg, seconds: map[api.Phase]float64{}, files: map[string][]byte{}}
	err := r.publishing(ctx, func() error {
		work := ctx
		if cfg.Spec.TimeoutSeconds > 0 {
			var cancel context.CancelFunc
			work, cancel = context.WithTimeoutCause(ctx, time.Duration(cfg.Spec.TimeoutSeconds)*time.Second, ErrDeadline)
			defer cancel()
		}
		return r.steps(work)
	})
	return r.finish(ctx, err)
}

type runner struct {
	Config
	files map[string][]byte // what is published beside the result

	phase        api.Phase
	phaseStarted time.Time
	seconds      map[api.Phase]float64
	hidden       redact.Secret // the published kubeconfig whose secrets are hidden

	mu      sync.Mutex // guards what Terraform's events change
	tracker events.Tracker
	message string
	nodes   []runcontract.Node // of a cluster that is waited for
	current string             // the node that everything waits for
}

// publishing opens the outputs Secret and keeps progress flowing while work runs.
func (r *runner) publishing(ctx context.Context, work func() error) error {
	r.enter(api.PhasePreparingState)
	open, cancel := lasting(ctx, openTimeout)
	err := r.Publisher.Open(open, r.progress())
	cancel()
	if err != nil {
		return &StepError{Code: runcontract.CodePublish, Message: "the outputs Secret cannot be written: " + err.Error()}
	}
	reporting, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { r.Publisher.Run(reporting) })
	err = work()
	stop()
	wg.Wait()
	return err
}

// finish publishes the result.
func (r *runner) finish(ctx context.Context, err error) runcontract.Result {
	result := r.result(err)
	for _, line := range closing(result) {
		r.Log.Printf("%s", line)
	}
	if tail, err := r.Log.Tail(); err == nil {
		r.files[runcontract.KeyLogTail] = tail
	}
	// First where nothing can go wrong.
	if err := r.Publisher.Terminate(result); err != nil {
		r.Log.Printf("warning: %v", err)
	}
	if result.ErrorCode == runcontract.CodePublish {
		return result // there is nowhere to publish to
	}
	publish, cancel := lasting(ctx, publishTimeout)
	defer cancel()
	err = r.Publisher.Finish(publish, r.progress(), result, r.files)
	if err == nil {
		return result
	}
	r.Log.Printf("error: the result cannot be published: %v", err)
	if result.Outcome != runcontract.OutcomeSucceeded {
		return result // the first failure is what matters
	}
	result.Outcome, result.ErrorCode = runcontract.OutcomeFailed, runcontract.CodePublish
	result.Message = "the work is done, but its result cannot be published: " + err.Error()
	if err := r.Publisher.Terminate(result); err != nil {
		r.Log.Printf("warning: %v", err)
	}
	return result
}

func (r *runner) result(err error) runcontract.Result {
	failedIn := r.phase
	r.leave()
	r.mu.Lock()
	defer r.mu.Unlock()
	result := runcontract.Result{
		Outcome:      runcontract.OutcomeSucceeded,
		Phase:        api.PhaseDone,
		Message:      r.message,
		Changes:      r.tracker.Changes(),
		PhaseSeconds: r.seconds,
		FinishedAt:   r.Now().UTC(),
	}
	if err == nil {
		r.phase = api.PhaseDone
		return result
	}
	f := failure(err)
	result.Outcome, result.Phase, result.ErrorCode = runcontract.OutcomeFailed, failedIn, f.Code
	if f.Code == runcontract.CodeInterrupted {
		result.Outcome = runcontract.OutcomeCancelled
	}
	result.Message, result.Diagnostic, result.Lock = f.Message, f.Diagnostic, f.Lock
	return result
}

// enter starts a phase.
func (r *runner) enter(phase api.Phase) {
	r.leave()
	r.phase, r.phaseStarted = phase, r.Now()
	r.say(title(phase))
	r.Log.Printf("== %s", title(phase))
	if err := r.Publisher.Terminate(runcontract.Result{Phase: phase, Message: title(phase)}); err != nil {
		r.Log.Printf("warning: %v", err)
	}
	r.Publisher.Report(r.progress())
}

// leave ends the current phase.
func (r *runner) leave() {
	if r.phase != "" && !r.phaseStarted.IsZero() {
		r.seconds[r.phase] += r.Now().Sub(r.phaseStarted).Seconds()
		r.phaseStarted = time.Time{}
	}
}

// say sets the sentence that goes with the progress.
func (r *runner) say(message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.message = message
}

func (r *runner) progress() runcontract.Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.tracker.Progress()
	if r.current != "" {
		p.Current = r.current
	}
	return runcontract.Progress{
		Phase: r.phase, Done: p.Done, Total: p.Total, Current: p.Current,
		Message: r.message, UpdatedAt: r.Now().UTC(), Nodes: r.nodes,
	}
}

// lasting is a context that ends after long, or afterSignal after ctx has ended,
// whichever is first.
func lasting(ctx context.Context, long time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), long, fmt.Errorf("no success in %s", long))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(afterSignal):
			cancel()
		case <-out.Done():
		}
	})
	return out, func() {
		stop()
		cancel()
	}
}
