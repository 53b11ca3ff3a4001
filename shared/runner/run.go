package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner/runlog"
)

// The causes for which a run's context ends early.
var (
	// ErrInterrupted is somebody's wish: a signal.
	ErrInterrupted = errors.New("interrupted")
	// ErrDeadline is the run's own deadline.
	ErrDeadline = errors.New("the run's deadline has passed")
)

// Publisher hands a run's progress and result to the service; package publish has
// the real one.
type Publisher interface {
	Open(ctx context.Context, progress runcontract.Progress) error
	Run(ctx context.Context)
	Report(progress runcontract.Progress)
	Finish(ctx context.Context, progress runcontract.Progress, result runcontract.Result, files map[string][]byte) error
	Terminate(result runcontract.Result) error
}

// Config is what a Run needs.
type Config struct {
	Publisher Publisher
	Log       *runlog.Log
	// Title is a phase in words; nil: its name.
	Title func(api.Phase) string
	// Progress adds to a progress what only this kind of run knows; nil: nothing.
	// It is called from anywhere at any time.
	Progress func(*runcontract.Progress)
	Now      func() time.Time // nil: time.Now
}

// Bounds of what still happens when the work is done or was interrupted.
const (
	openTimeout    = 2 * time.Minute
	publishTimeout = 5 * time.Minute
	// AfterSignal is for how long a Lasting context outlives the one that it is made from.
	AfterSignal = 15 * time.Second
)

// Run is one run on its way from phase to phase. Say, Message, Report and
// Progress may be called from anywhere at any time; all else by one goroutine.
type Run struct {
	config  Config
	started time.Time // of the phase; zero: none
	seconds map[api.Phase]float64

	mu      sync.Mutex
	phase   api.Phase
	message string
}

// New is a run that has not begun.
func New(config Config) *Run {
	if config.Title == nil {
		config.Title = Title
	}
	if config.Progress == nil {
		config.Progress = func(*runcontract.Progress) {}
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Run{config: config, seconds: map[api.Phase]float64{}}
}

// Title is a phase's name in words.
func Title(p api.Phase) string { return strings.ReplaceAll(string(p), "_", " ") }

// PublishError says that the outputs Secret cannot be written.
type PublishError struct{ Err error }

// Error says so.
func (e *PublishError) Error() string {
	return "the outputs Secret cannot be written: " + e.Err.Error()
}

// Unwrap is the API server's answer.
func (e *PublishError) Unwrap() error { return e.Err }

// Do begins the first phase, opens the outputs Secret and keeps progress flowing
// while work runs, which is interrupted at the deadline; 0: there is none. Its
// error is work's, or a *PublishError before work has begun.
func (r *Run) Do(ctx context.Context, first api.Phase, deadline time.Duration, work func(context.Context) error) error {
	r.Enter(first)
	open, cancel := Lasting(ctx, openTimeout)
	err := r.config.Publisher.Open(open, r.Progress())
	cancel()
	if err != nil {
		return &PublishError{Err: err}
	}
	reporting, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { r.config.Publisher.Run(reporting) })
	defer wg.Wait()
	defer stop()
	if deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, deadline, ErrDeadline)
		defer cancel()
	}
	return work(ctx)
}

// Enter begins a phase.
func (r *Run) Enter(phase api.Phase) {
	r.leave()
	r.started = r.config.Now()
	title := r.config.Title(phase)
	r.mu.Lock()
	r.phase, r.message = phase, title
	r.mu.Unlock()
	r.config.Log.Printf("== %s", title)
	r.terminate(runcontract.Result{Phase: phase, Message: title})
	r.Report()
}

// leave ends the current phase.
func (r *Run) leave() {
	if !r.started.IsZero() {
		r.seconds[r.Phase()] += r.config.Now().Sub(r.started).Seconds()
		r.started = time.Time{}
	}
}

// Phase is the current phase.
func (r *Run) Phase() api.Phase {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.phase
}

// Say sets the sentence that goes with the progress, and says whether it is another one.
func (r *Run) Say(message string) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed = r.message != message
	r.message = message
	return changed
}

// Message is that sentence.
func (r *Run) Message() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.message
}

// Report publishes the progress soon.
func (r *Run) Report() { r.config.Publisher.Report(r.Progress()) }

// Progress is where the run is.
func (r *Run) Progress() runcontract.Progress {
	r.mu.Lock()
	p := runcontract.Progress{Phase: r.phase, Message: r.message, UpdatedAt: r.config.Now().UTC()}
	r.mu.Unlock()
	r.config.Progress(&p)
	return p
}

// Succeeded is the result of a run that has done all that was asked; its message
// is the last one that was said. The phase ends.
func (r *Run) Succeeded() runcontract.Result {
	result := r.ended(runcontract.OutcomeSucceeded)
	result.Phase = api.PhaseDone
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = api.PhaseDone
	return result
}

// Failed is the result of a run that has failed in the current phase, or was
// cancelled in it, which CodeInterrupted says. The phase ends.
func (r *Run) Failed(code runcontract.ErrorCode, message string) runcontract.Result {
	result := r.ended(runcontract.OutcomeFailed)
	if code == runcontract.CodeInterrupted {
		result.Outcome = runcontract.OutcomeCancelled
	}
	result.ErrorCode, result.Message = code, message
	return result
}

func (r *Run) ended(outcome runcontract.Outcome) runcontract.Result {
	r.leave()
	return runcontract.Result{
		Outcome: outcome, Phase: r.Phase(), Message: r.Message(), PhaseSeconds: r.seconds, FinishedAt: r.config.Now().UTC(),
	}
}

// Finish publishes the result and the files that the run made, and returns the
// result as it is known then. A success that cannot be published is none; what
// another result is that cannot be published, unpublished may say, if it is not
// nil: true means that it has changed it.
func (r *Run) Finish(ctx context.Context, result runcontract.Result, files map[string][]byte, unpublished func(*runcontract.Result, error) bool) runcontract.Result {
	r.config.Log.Printf("%s", closing(result))
	// First where nothing can go wrong.
	r.terminate(result)
	if result.ErrorCode == runcontract.CodePublish {
		return result // there is nowhere to publish to
	}
	publish, cancel := Lasting(ctx, publishTimeout)
	defer cancel()
	err := r.config.Publisher.Finish(publish, r.Progress(), result, files)
	if err == nil {
		return result
	}
	r.config.Log.Printf("error: the result cannot be published: %v", err)
	switch {
	case result.Outcome == runcontract.OutcomeSucceeded:
		result.Outcome, result.ErrorCode = runcontract.OutcomeFailed, runcontract.CodePublish
		result.Message = "the work is done, but its result cannot be published: " + err.Error()
	case unpublished != nil && unpublished(&result, err):
	default:
		return result // the first failure is what matters
	}
	r.terminate(result)
	return result
}

// terminate writes the termination message, which is no reason to stop.
func (r *Run) terminate(result runcontract.Result) {
	if err := r.config.Publisher.Terminate(result); err != nil {
		r.config.Log.Printf("warning: %v", err)
	}
}

// closing is how a log ends.
func closing(r runcontract.Result) string {
	switch r.Outcome {
	case runcontract.OutcomeSucceeded:
		return "== succeeded: " + r.Message
	case runcontract.OutcomeCancelled:
		return "== cancelled: " + r.Message
	case runcontract.OutcomeFailed:
	}
	return fmt.Sprintf("== failed (%s): %s", r.ErrorCode, r.Message)
}

// Lasting is a context that ends after long, or AfterSignal after ctx has ended,
// whichever is first.
func Lasting(ctx context.Context, long time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), long, fmt.Errorf("no success in %s", long))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(AfterSignal):
			cancel()
		case <-out.Done():
		}
	})
	return out, func() {
		stop()
		cancel()
	}
}
