package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/sim/sandbox"
)

const (
	// maxBackoff and backoffReset are the kubelet's.
	maxBackoff   = 5 * time.Minute
	backoffReset = 10 * time.Minute
	// startErrorCode is the exit code of a container whose command cannot be run.
	startErrorCode = 128
	// maxMessage is how much of a termination message is kept.
	maxMessage = 4096
	// maxFallback and maxFallbackLines bound a message taken from the log.
	maxFallback      = 2048
	maxFallbackLines = 80
)

// container is one container of a pod. Its state is guarded by the worker's mu.
type container struct {
	worker *worker
	spec   *corev1.Container

	waiting    corev1.ContainerStateWaiting // while neither of the others is set
	running    *corev1.ContainerStateRunning
	terminated *corev1.ContainerStateTerminated
	last       *corev1.ContainerStateTerminated
	restarts   int32
	pulled     bool
	process    *sandbox.Process
	outOfMem   bool
	ready      bool     // while it runs
	log        *logFile // of the current run, nil before the first
	previous   *logFile // of the run before
}

func newContainer(w *worker, spec *corev1.Container, reason string) *container {
	return &container{worker: w, spec: spec, waiting: corev1.ContainerStateWaiting{Reason: reason}}
}

// run runs the container as often as its restart policy wants, and tells whether
// it ended well. It returns when the container does not run and never will.
func (c *container) run(ctx context.Context) bool {
	backoff := c.worker.node.config.Backoff
	for {
		c.worker.node.pause.wait(ctx)
		image, ok := c.pull(ctx)
		if !ok {
			return false
		}
		plan, ok := c.prepare(ctx, image)
		if !ok {
			return false
		}
		started := time.Now()
		code := c.runOnce(ctx, plan)
		if c.worker.stopping(ctx) || !c.restartsAfter(code) {
			return code == 0
		}
		if time.Since(started) > backoffReset {
			backoff = c.worker.node.config.Backoff
		}
		message := fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)",
			backoff, c.spec.Name, c.worker.name, c.worker.namespace, c.worker.uid)
		c.worker.mu.Lock()
		c.last, c.terminated = c.terminated, nil
		c.waiting = corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: message}
		c.restarts++
		c.worker.mu.Unlock()
		c.worker.touch()
		c.worker.event(corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container "+c.spec.Name)
		if !c.worker.pause(ctx, backoff) {
			return false
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// restartsAfter applies the pod's restart policy. An init container that ended
// well is never run again.
func (c *container) restartsAfter(code int) bool {
	switch c.worker.pod.Spec.RestartPolicy {
	case corev1.RestartPolicyAlways:
		return code != 0 || !c.isInit()
	case corev1.RestartPolicyOnFailure:
		return code != 0
	case corev1.RestartPolicyNever:
		return false
	default:
		return false
	}
}

func (c *container) isInit() bool { return slices.Contains(c.worker.init, c) }

// wait sets the waiting reason of a container that does not run.
func (c *container) wait(reason, message string) {
	c.worker.mu.Lock()
	c.waiting = corev1.ContainerStateWaiting{Reason: reason, Message: message}
	c.worker.mu.Unlock()
	c.worker.touch()
}

// pull gets the image, however often that fails.
func (c *container) pull(ctx context.Context) (Image, bool) {
	name, backoff := c.spec.Image, c.worker.node.config.Backoff
	for {
		if c.worker.stopping(ctx) {
			return Image{}, false
		}
		if c.spec.ImagePullPolicy != corev1.PullNever {
			c.worker.event(corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", name))
		}
		image, found := c.worker.node.images.get(name)
		if found {
			if image.PullTime > 0 && !c.worker.pause(ctx, image.PullTime) {
				return Image{}, false
			}
			c.worker.event(corev1.EventTypeNormal, "Pulled", fmt.Sprintf("Successfully pulled image %q", name))
			c.worker.mu.Lock()
			c.pulled = true
			c.worker.mu.Unlock()
			return image, true
		}
		reason := "ErrImagePull"
		problem := fmt.Sprintf("rpc error: code = NotFound desc = failed to pull and unpack image %q: failed to resolve reference %q: %s: not found", name, name, name)
		if c.spec.ImagePullPolicy == corev1.PullNever {
			reason = "ErrImageNeverPull"
			problem = fmt.Sprintf("Container image %q is not present with pull policy of Never", name)
			c.worker.event(corev1.EventTypeWarning, reason, problem)
		} else {
			c.worker.event(corev1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %s", name, problem))
		}
		c.worker.event(corev1.EventTypeWarning, "Failed", "Error: "+reason)
		c.wait(reason, problem)
		// The kubelet shows the failure until its next look at the pod.
		if !c.worker.pause(ctx, min(backoff/5, time.Second)) {
			return Image{}, false
		}
		if reason == "ErrImagePull" {
			c.worker.event(corev1.EventTypeNormal, "BackOff", fmt.Sprintf("Back-off pulling image %q", name))
			c.worker.event(corev1.EventTypeWarning, "Failed", "Error: ImagePullBackOff")
			c.wait("ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: %s: %s", name, reason, problem))
		}
		if !c.worker.pause(ctx, backoff) {
			return Image{}, false
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// prepare makes the plan of a run: it waits for what the environment refers to.
func (c *container) prepare(ctx context.Context, image Image) (sandbox.Container, bool) {
	pause := mountRetry
	for {
		plan, err := c.plan(ctx, image)
		if err == nil {
			return plan, !c.worker.stopping(ctx)
		}
		if ctx.Err() == nil {
			c.worker.event(corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
			c.wait("CreateContainerConfigError", err.Error())
		}
		if !c.worker.pause(ctx, pause) {
			return sandbox.Container{}, false
		}
		pause = min(2*pause, maxMountRetry)
	}
}

// runOnce runs the container to its end and returns its exit code.
func (c *container) runOnce(ctx context.Context, plan sandbox.Container) int {
	begun := metav1.Now()
	message := c.messageFile()
	if err := os.WriteFile(message, nil, 0o644); err != nil {
		return c.end(begun, corev1.ContainerStateTerminated{ExitCode: startErrorCode, Reason: "StartError", Message: err.Error()})
	}
	log, err := newLogFile(filepath.Join(c.worker.logDir(), c.spec.Name), strconv.Itoa(int(c.restarts)), c.worker.node.config.MaxLogBytes)
	if err != nil {
		return c.end(begun, corev1.ContainerStateTerminated{ExitCode: startErrorCode, Reason: "StartError", Message: err.Error()})
	}
	defer log.close()
	c.worker.mu.Lock()
	c.previous, c.log = c.log, log
	c.worker.mu.Unlock()
	process, drained, err := c.worker.startLogged(plan, log)
	if err != nil {
		c.worker.event(corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
		return c.end(begun, corev1.ContainerStateTerminated{ExitCode: startErrorCode, Reason: "StartError", Message: err.Error()})
	}
	c.worker.event(corev1.EventTypeNormal, "Created", "Created container: "+c.spec.Name)
	c.worker.event(corev1.EventTypeNormal, "Started", "Started container "+c.spec.Name)
	c.worker.mu.Lock()
	c.process, c.terminated, c.outOfMem = process, nil, false
	c.running = &corev1.ContainerStateRunning{StartedAt: metav1.Now()}
	c.ready = !c.probed()
	c.worker.mu.Unlock()
	c.worker.touch()
	stopProbes := c.startProbes(ctx)

	exit, err := c.await(ctx, process)
	stopProbes()
	<-drained                                                                                 // the log is whole before the end is seen
	state := corev1.ContainerStateTerminated{ExitCode: int32(exit.Code), Reason: "Completed"} //nolint:gosec // at most 255
	c.worker.mu.Lock()
	switch {
	case err != nil:
		state.ExitCode, state.Reason, state.Message = 137, "ContainerStatusUnknown", err.Error()
	case c.outOfMem && exit.Signal == syscall.SIGKILL:
		state.Reason = "OOMKilled"
	case exit.Code != 0:
		state.Reason = "Error"
	}
	c.worker.mu.Unlock()
	if state.Message == "" {
		state.Message = c.terminationMessage(log, exit.Code)
	}
	return c.end(begun, state)
}

// startLogged starts a container whose output goes to a log. The channel closes
// when all output has been written.
func (w *worker) startLogged(plan sandbox.Container, log *logFile) (*sandbox.Process, <-chan struct{}, error) {
	stdoutRead, stdout, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	stderrRead, stderr, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, stdoutRead.Close(), stdout.Close())
	}
	process, err := w.start(plan, stdout, stderr)
	closed := errors.Join(stdout.Close(), stderr.Close())
	if err != nil {
		return nil, nil, errors.Join(err, stdoutRead.Close(), stderrRead.Close())
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		finished := make(chan struct{})
		go func() {
			defer close(finished)
			log.copy("stderr", stderrRead)
		}()
		log.copy("stdout", stdoutRead)
		<-finished
	}()
	return process, drained, closed
}

// await waits for the container's end, and brings it about when it is time.
func (c *container) await(ctx context.Context, process *sandbox.Process) (sandbox.Exit, error) {
	var exit sandbox.Exit
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		exit, err = process.Wait()
	}()
	signal := func(s syscall.Signal) {
		if err := process.Signal(s); err != nil {
			c.worker.node.config.Log.WarnContext(ctx, "container not signalled", "pod", c.worker.name, "container", c.spec.Name, "error", err)
		}
	}
	select {
	case <-ended:
		return exit, err
	case <-ctx.Done():
		signal(syscall.SIGKILL)
	case <-c.worker.terminate:
		c.worker.node.pause.wait(ctx)
		c.worker.event(corev1.EventTypeNormal, "Killing", "Stopping container "+c.spec.Name)
		signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-c.worker.kill:
			c.worker.node.pause.wait(ctx)
			signal(syscall.SIGKILL)
		case <-ctx.Done():
			signal(syscall.SIGKILL)
		}
	}
	<-ended
	return exit, err
}

// end records how a run ended.
func (c *container) end(begun metav1.Time, state corev1.ContainerStateTerminated) int {
	state.StartedAt, state.FinishedAt = begun, metav1.Now()
	state.ContainerID = c.id()
	c.worker.mu.Lock()
	c.process, c.running, c.terminated = nil, nil, &state
	c.worker.mu.Unlock()
	c.worker.touch()
	return int(state.ExitCode)
}

// id changes with each run, as a runtime's does.
func (c *container) id() string {
	return fmt.Sprintf("simulator://%s/%s/%d", c.worker.uid, c.spec.Name, c.restarts)
}

func (c *container) messageFile() string {
	return filepath.Join(c.worker.dir(), "containers", c.spec.Name, "termination-log")
}

// terminationMessage is the end of the message file, or of the log where the pod
// asks for that.
func (c *container) terminationMessage(log *logFile, code int) string {
	message := tailOfFile(c.messageFile(), maxMessage)
	if message == "" && code != 0 && c.spec.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
		message = log.lastLines(maxFallbackLines, maxFallback)
	}
	return strings.ToValidUTF8(message, "\uFFFD")
}

// tailOfFile is at most size bytes of a file's end, or nothing.
func tailOfFile(path string, size int64) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err == nil && info.Size() > size {
		if _, err := file.Seek(-size, io.SeekEnd); err != nil {
			return ""
		}
	}
	content, err := io.ReadAll(io.LimitReader(file, size))
	if err != nil {
		return ""
	}
	return string(content)
}

// killOutOfMemory does what the kernel does to a container over its limit.
func (w *worker) killOutOfMemory(name string) error {
	c, err := w.container(name)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.process == nil {
		return errors.New("it does not run")
	}
	c.outOfMem = true
	return c.process.Signal(syscall.SIGKILL)
}
