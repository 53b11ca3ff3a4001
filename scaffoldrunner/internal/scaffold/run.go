// Package scaffold is a scaffolding run from its spec to its published result: the
// steps, their order, and what each way of failing means.
//
// There are two passes over the branch. The first brings sealed-secrets to the
// cluster, and is left out if that is there already; the second brings everything,
// with secrets that were sealed for that controller. Nothing is remembered beside
// the repository and the cluster: each pass compares what the branch has with what
// it should have, so that a run that takes up where another one died does what is
// left, and one that has nothing to do commits nothing.
package scaffold

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
	"github.com/kubeopera/platform/scaffoldrunner/internal/repository"
	"github.com/kubeopera/platform/scaffoldrunner/internal/target"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner"
	"github.com/kubeopera/platform/shared/runner/runlog"
)

// Remote is the repository on its server; package repository has the real one.
type Remote interface {
	Branch(ctx context.Context, branch string) (repository.Head, error)
	Newest(ctx context.Context, branch string) (string, error)
	Commit(ctx context.Context, head repository.Head, changes []gitopsenv.Change, message string) (string, error)
	Push(ctx context.Context, commit, branch string) error
	Replace(ctx context.Context, commit, branch, old string) error
}

// Target is the cluster; package target has the real one.
type Target interface {
	Controller(ctx context.Context) (*target.Controller, error)
	Flux(ctx context.Context, folder, revision string) (target.Flux, error)
	Nudge(ctx context.Context, flux target.Flux, now time.Time) error
	Certificate(ctx context.Context, controller *target.Controller, check func([]byte) (passing bool, err error), log func(format string, args ...any)) ([]byte, error)
	Secret(ctx context.Context, namespace, name string) (map[string][]byte, error)
}

// Config is what a run needs.
type Config struct {
	Spec      runcontract.ScaffoldSpec
	Publisher runner.Publisher
	Log       *runlog.Log
	// Remote makes the local copy of the repository, empty still.
	Remote func(ctx context.Context) (Remote, error)
	// Target reads the kubeconfig.
	Target func(ctx context.Context) (Target, error)
	// Platform is the tree that stands in for what the repository does not have.
	Platform gitopsenv.Tree
	// RegistryPassword and DigestKey are what secrets are sealed with.
	RegistryPassword, DigestKey redact.Secret
	// Hide keeps secrets that the run makes or comes to know out of log, progress and result.
	Hide func(secrets ...string)
	// Version is the runner's, for commits.
	Version string
	Now     func() time.Time // nil: time.Now
	// Pause is how long to wait before a push is tried again; nil: some seconds at random.
	Pause func(attempt int) time.Duration
}

// Run carries out the run and returns its result, which has been published unless
// the result says otherwise. When ctx ends, its cause should be runner.ErrInterrupted.
func Run(ctx context.Context, cfg Config) runcontract.Result {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Pause == nil {
		cfg.Pause = func(attempt int) time.Duration {
			most := time.Second / 2 << min(attempt, 4)
			return most/2 + rand.N(most) //nolint:gosec // so that racing runs do not meet again
		}
	}
	r := &scaffoldRun{Config: cfg, files: map[string][]byte{}, folder: gitopsenv.Folder(cfg.Spec.Inputs.Environment)}
	r.Run = runner.New(runner.Config{Publisher: cfg.Publisher, Log: cfg.Log, Title: title, Progress: r.describe, Now: cfg.Now})
	err := r.Do(ctx, api.PhaseClone, time.Duration(cfg.Spec.TimeoutSeconds)*time.Second, func(ctx context.Context) error {
		if err := r.steps(ctx); err != nil {
			return r.failed(ctx, err)
		}
		return nil
	})
	return r.finish(ctx, err)
}

type scaffoldRun struct {
	*runner.Run
	Config
	folder string            // clusters/<environment>
	files  map[string][]byte // what is published beside the result

	remote Remote
	target Target
	// waitingFor is what the cluster or somebody was waited for last, in words.
	waitingFor string

	mu     sync.Mutex
	output api.ScaffoldOutput
}

// made changes what the run has made so far.
func (r *scaffoldRun) made(change func(*api.ScaffoldOutput)) {
	r.mu.Lock()
	if r.output.Commits != nil { // what was handed out stays as it is
		c := *r.output.Commits
		r.output.Commits = &c
	}
	change(&r.output)
	r.mu.Unlock()
	r.Report()
}

// outputs is what the run has made so far; nil if nothing.
func (r *scaffoldRun) outputs() *api.ScaffoldOutput {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.output == (api.ScaffoldOutput{}) {
		return nil
	}
	o := r.output
	return &o
}

// describe adds to a progress how many steps are done.
func (r *scaffoldRun) describe(p *runcontract.Progress) {
	p.Done, p.Total = stepsDone(p.Phase), len(order)
	p.Scaffold = r.outputs()
}

// maxFiles is what the files in the outputs Secret may have in bytes, of the 1 MiB
// that a Secret takes.
const maxFiles = 900 << 10

// finish publishes the result.
func (r *scaffoldRun) finish(ctx context.Context, err error) runcontract.Result {
	result := r.result(err)
	result.Scaffold = r.outputs()
	if tail, err := r.Log.Tail(); err == nil && len(tail)+len(r.files[runcontract.KeyDiff]) <= maxFiles {
		r.files[runcontract.KeyLogTail] = tail
	}
	return r.Finish(ctx, result, r.files, nil)
}

func (r *scaffoldRun) result(err error) runcontract.Result {
	if err == nil {
		return r.Succeeded()
	}
	f := failure(err)
	return r.Failed(f.Code, f.Message)
}

// order is the order of a run's steps.
var order = []api.Phase{
	api.PhaseClone, api.PhaseGenerateInfrastructure, api.PhasePushInfrastructure,
	api.PhaseWaitingForSealedSecrets, api.PhaseSeal, api.PhasePushComplete,
}

func stepsDone(phase api.Phase) int {
	for i, p := range order {
		if p == phase {
			return i
		}
	}
	return len(order)
}

// title is a phase in words.
func title(p api.Phase) string {
	switch p {
	case api.PhaseClone:
		return "cloning the repository"
	case api.PhaseGenerateInfrastructure:
		return "generating the infrastructure layer"
	case api.PhasePushInfrastructure:
		return "pushing the infrastructure layer"
	case api.PhaseWaitingForSealedSecrets:
		return "waiting for sealed-secrets"
	case api.PhaseSeal:
		return "generating the whole environment and sealing its secrets"
	case api.PhasePushComplete:
		return "pushing the whole environment"
	case api.PhasePublishing:
		return "publishing the result"
	default: // a phase of somebody else's, or one that needs no other words
		return runner.Title(p)
	}
}

// message is the message of a commit, with trailers that say where it comes from.
func (r *scaffoldRun) message(p pass) string {
	return fmt.Sprintf("Scaffold %s: %s\n\n%s: %s\n%s: %s\n%s: %s\n%s: %s\n",
		r.Spec.Inputs.Environment, p.subject,
		trailerRun, r.Spec.ID, trailerEnvironment, r.Spec.Inputs.Environment, trailerPass, p.name, trailerVersion, r.Version)
}

// Trailers of our commits.
const (
	trailerRun         = "Scaffold-Run"
	trailerEnvironment = "Scaffold-Environment"
	trailerPass        = "Scaffold-Pass"
	trailerVersion     = "Scaffold-Runner"
)
