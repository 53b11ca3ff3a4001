// Package terraform runs the terraform binary in one working folder: init,
// plan, show, apply, output, state push. It wraps terraform-exec and knows its traps:
//
//   - Cancelling the context sends Terraform one interrupt, never more: a second
//     one makes it give up without saving the state. If it has not ended after
//     Config.WaitDelay, it is killed.
//   - A cancelled command's error says nothing; whether an apply was finished
//     nevertheless is read from Terraform's events.
//   - The JSON commands leave their writer behind, to which what prints secrets
//     (show, output) would then print as well: each command begins without one.
//   - Every instance asks for Terraform's version, a process of its own, before its
//     first command: there is one instance, and it is asked beforehand.
//   - The child gets Config.Env and nothing else of this process's environment.
package terraform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/terraform-exec/tfexec"
	tfjson "github.com/hashicorp/terraform-json"

	"github.com/kubeopera/platform/tfrunner/internal/events"
)

// planFile is the plan's name in the working folder. It may hold secrets.
const planFile = "run.tfplan"

// rescueFile is where Terraform leaves a state that it could not save.
const rescueFile = "errored.tfstate"

// Config is one environment's Terraform.
type Config struct {
	Binary      string // path of the terraform binary
	Dir         string // working folder, initialised by Init
	Env         map[string]string
	WaitDelay   time.Duration // from the interrupt to the kill
	LockTimeout time.Duration // how long to wait for a held lock
	// OnEvent is called for every event, by one goroutine at a time; it must not block.
	OnEvent func(events.Event)
}

// Terraform runs commands, one at a time.
type Terraform struct {
	cfg    Config
	exec   *tfexec.Terraform
	stderr *tail
}

// New checks the configuration; it starts nothing.
func New(cfg Config) (*Terraform, error) {
	tf, err := tfexec.NewTerraform(cfg.Dir, cfg.Binary)
	if err != nil {
		return nil, fmt.Errorf("prepare terraform: %w", err)
	}
	if err := tf.SetEnv(cfg.Env); err != nil {
		return nil, fmt.Errorf("prepare terraform's environment: %w", err)
	}
	if err := tf.SetWaitDelay(cfg.WaitDelay); err != nil {
		return nil, fmt.Errorf("prepare terraform: %w", err)
	}
	t := &Terraform{cfg: cfg, exec: tf, stderr: &tail{}}
	tf.SetStderr(t.stderr)
	return t, nil
}

// Init initialises the working folder with a backend configuration.
func (t *Terraform) Init(ctx context.Context, backend map[string]string) error {
	if err := t.version(ctx); err != nil {
		return err
	}
	var opts []tfexec.InitOption
	for _, key := range slices.Sorted(maps.Keys(backend)) {
		opts = append(opts, tfexec.BackendConfig(key+"="+backend[key]))
	}
	return t.observe(ctx, "init", func(ctx context.Context, w io.Writer) error {
		return t.exec.InitJSON(ctx, w, opts...)
	}).err()
}

// versionTimeout bounds terraform version, which does next to nothing.
const versionTimeout = time.Minute

// version makes terraform-exec ask for the version now, so that each of the
// other commands is one process; call relies on that.
func (t *Terraform) version(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), versionTimeout)
	defer cancel()
	if _, _, err := t.exec.Version(ctx, false); err != nil {
		return (&outcome{verb: "version", ctx: ctx.Err(), cause: err, stderr: t.stderr.String()}).err()
	}
	return nil
}

// Plan makes a plan, of the removal of everything if destroy is set, and keeps it
// for ShowPlan, PlanText and Apply.
func (t *Terraform) Plan(ctx context.Context, variables map[string]string, destroy bool) error {
	// Terraform writes into the file that is there and keeps its mode.
	plan := filepath.Join(t.cfg.Dir, planFile)
	if err := os.WriteFile(plan, nil, 0o600); err != nil {
		return fmt.Errorf("create the plan file: %w", err)
	}
	opts := []tfexec.PlanOption{tfexec.Out(planFile), tfexec.LockTimeout(t.cfg.LockTimeout.String()), tfexec.Destroy(destroy)}
	for _, key := range slices.Sorted(maps.Keys(variables)) {
		opts = append(opts, tfexec.Var(key+"="+variables[key]))
	}
	return t.observe(ctx, "plan", func(ctx context.Context, w io.Writer) error {
		_, err := t.exec.PlanJSON(ctx, w, opts...)
		return err
	}).err()
}

// ShowPlan reads the plan that Plan made.
func (t *Terraform) ShowPlan(ctx context.Context) (plan *tfjson.Plan, err error) {
	err = t.quietly(ctx, "show", func(ctx context.Context) (err error) {
		plan, err = t.exec.ShowPlanFile(ctx, planFile)
		return err
	})
	return plan, err
}

// PlanText is the plan that Plan made, in Terraform's words for people. Values
// that are marked as sensitive are not in it.
func (t *Terraform) PlanText(ctx context.Context) (text string, err error) {
	err = t.quietly(ctx, "show", func(ctx context.Context) (err error) {
		text, err = t.exec.ShowPlanFileRaw(ctx, planFile)
		return err
	})
	return text, err
}

// Apply carries out the plan that Plan made. An apply that was finished in
// spite of an interrupt is a success.
func (t *Terraform) Apply(ctx context.Context) error {
	o := t.observe(ctx, "apply", func(ctx context.Context, w io.Writer) error {
		return t.exec.ApplyJSON(ctx, w, tfexec.DirOrPlan(planFile), tfexec.LockTimeout(t.cfg.LockTimeout.String()))
	})
	unsaved, err := os.ReadFile(filepath.Join(t.cfg.Dir, rescueFile))
	switch {
	case err == nil:
		o.unsaved = unsaved
	case !errors.Is(err, fs.ErrNotExist): // it is there
		o.unsaved = []byte{}
	}
	// Terraform sums up an apply after it has saved the state and released the lock.
	if o.applied && o.unsaved == nil {
		return nil
	}
	return o.err()
}

// Outputs reads the outputs of the state, sensitive ones included.
func (t *Terraform) Outputs(ctx context.Context) (map[string]json.RawMessage, error) {
	var outputs map[string]tfexec.OutputMeta
	err := t.quietly(ctx, "output", func(ctx context.Context) (err error) {
		outputs, err = t.exec.Output(ctx)
		return err
	})
	values := make(map[string]json.RawMessage, len(outputs))
	for name, o := range outputs {
		values[name] = o.Value
	}
	return values, err
}

// pushFile is where the state to push is put. It may hold secrets.
const pushFile = "rescued.tfstate"

// Push saves a state that an earlier Terraform could not save. Terraform refuses
// one that does not follow from what is saved by now.
func (t *Terraform) Push(ctx context.Context, state []byte) error {
	path := filepath.Join(t.cfg.Dir, pushFile)
	if err := os.WriteFile(path, state, 0o600); err != nil {
		return fmt.Errorf("write the state to push: %w", err)
	}
	return t.quietly(ctx, "state push", func(ctx context.Context) error {
		return t.exec.StatePush(ctx, pushFile, tfexec.Lock(true), tfexec.LockTimeout(t.cfg.LockTimeout.String()))
	})
}

// quietly runs a command that prints no events.
func (t *Terraform) quietly(ctx context.Context, verb string, run func(context.Context) error) error {
	if err := t.call(ctx, run); err != nil {
		return (&outcome{verb: verb, ctx: ctx.Err(), cause: err, stderr: t.stderr.String()}).err()
	}
	return nil
}

// observe runs a command that prints events and collects what matters of them.
func (t *Terraform) observe(ctx context.Context, verb string, run func(context.Context, io.Writer) error) *outcome {
	o := &outcome{verb: verb}
	w := events.NewWriter(func(e events.Event) {
		o.observe(e)
		if t.cfg.OnEvent != nil {
			t.cfg.OnEvent(e)
		}
	})
	err := t.call(ctx, func(ctx context.Context) error { return run(ctx, w) })
	w.Flush()
	o.ctx, o.cause, o.stderr = ctx.Err(), err, t.stderr.String()
	return o
}

// settle is how long a command runs before an interrupt reaches it. One that
// comes while the process starts would end terraform-exec's call, but not the
// process; and Terraform can save nothing before it listens to signals.
const settle = time.Second

// call runs one command. Its context ends with ctx, but not before the command
// has settled.
func (t *Terraform) call(ctx context.Context, run func(context.Context) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t.stderr.reset()
	t.exec.SetStdout(io.Discard)
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	settled := time.Now().Add(settle)
	done := make(chan struct{})
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case <-ctx.Done():
		case <-done:
			return
		}
		select {
		case <-time.After(time.Until(settled)):
			cancel()
		case <-done:
		}
	}()
	err := run(inner)
	close(done)
	<-watching
	cancel()
	return err
}

// killed tells whether the process ended by SIGKILL: ours after the wait delay,
// or the kernel's for want of memory.
func killed(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// tail keeps the end of Terraform's standard error: in JSON mode it is silent
// unless something is badly broken.
type tail struct{ text []byte }

const tailBytes = 4 << 10

// Write never fails, for the reason that events.Writer does not.
func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if len(t.text) > tailBytes {
		t.text = append([]byte(nil), t.text[len(t.text)-tailBytes:]...)
	}
	return len(p), nil
}

func (t *tail) reset()         { t.text = nil }
func (t *tail) String() string { return strings.ToValidUTF8(strings.TrimSpace(string(t.text)), "") }
