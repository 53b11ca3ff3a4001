package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Container says what a container sees and runs.
type Container struct {
	// Root is an empty directory of the machine over which the container's tmpfs
	// root is mounted, in the container's mount namespace only.
	Root string `json:"root"`
	// Hostname is the container's own.
	Hostname string `json:"hostname"`
	// Mounts are made in this order, so an outer target comes before an inner one.
	Mounts []Mount `json:"mounts"`
	// ReadOnlyRoot makes all read-only but the mounts that say otherwise, /dev and /proc.
	ReadOnlyRoot bool `json:"read_only_root"`
	// NoNewPrivileges is the process attribute of that name.
	NoNewPrivileges bool `json:"no_new_privileges"`
	// Dir is the working directory; empty means /.
	Dir string `json:"dir"`
	// Args is the command; its first word is looked up in Env's PATH, in the container.
	Args []string `json:"args"`
	// Env is the whole environment.
	Env []string `json:"env"`
}

// Mount shows a file or directory of the machine inside a container. The mount
// point is made if it does not exist.
type Mount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only"`
}

// StartError says why a container's command never ran.
type StartError struct{ Message string }

func (e *StartError) Error() string { return e.Message }

// Process is a running container.
type Process struct{ command *exec.Cmd }

// Exit is how a container ended.
type Exit struct {
	// Code is the exit code, or 128 + Signal.
	Code int
	// Signal ended the process, if it is not 0.
	Signal syscall.Signal
}

// The descriptor from which the container stage reads its Container, after the
// report's: an environment may hold secrets, which arguments would show to all.
const specDescriptor = reportDescriptor + 1

// Start runs the container and returns once its command has been executed, or
// with a *StartError if it could not be. The caller must be inside a sandbox:
// only that ends a container whose starter was killed.
func (c Container) Start(stdout, stderr *os.File) (*Process, error) {
	if !Inside() {
		return nil, errors.New("start container: the program is not in a sandbox; call sandbox.Enter first thing in main or TestMain")
	}
	spec, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode container: %w", err)
	}
	report, reportWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make report pipe: %w", err)
	}
	defer func() { _ = report.Close() }()
	specRead, specWrite, err := os.Pipe()
	if err != nil {
		_ = reportWrite.Close()
		return nil, fmt.Errorf("make spec pipe: %w", err)
	}

	command := exec.Command(selfExecutable) //nolint:noctx // ended by Signal: a context would kill without grace
	command.Args = []string{roleContainer}
	command.Env = []string{}
	command.Stdout, command.Stderr = stdout, stderr
	command.ExtraFiles = []*os.File{reportWrite, specRead}
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Setsid:     true,
	}
	err = command.Start()
	_ = reportWrite.Close()
	_ = specRead.Close()
	if err != nil {
		_ = specWrite.Close()
		return nil, fmt.Errorf("start container stage: %w", err)
	}
	_, writeErr := specWrite.Write(spec)
	_ = specWrite.Close()

	problem, err := io.ReadAll(report)
	if err = errors.Join(writeErr, err); err != nil {
		_ = command.Process.Kill()
		_ = command.Wait()
		return nil, fmt.Errorf("hand over container: %w", err)
	}
	if len(problem) > 0 {
		_ = command.Wait()
		return nil, &StartError{Message: string(problem)}
	}
	return &Process{command: command}, nil
}

// PID is the container's first process as the sandbox sees it.
func (p *Process) PID() int { return p.command.Process.Pid }

// Signal sends a signal to the container's first process. SIGKILL ends all of
// the container; any other signal is ignored unless the process handles it, as
// for every PID 1.
func (p *Process) Signal(s syscall.Signal) error {
	if err := p.command.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal container: %w", err)
	}
	return nil
}

// Wait returns when the container's first process has ended, and the kernel has
// ended all others of the container with it.
func (p *Process) Wait() (Exit, error) {
	err := p.command.Wait()
	// A code other than 0 is a result, not an error.
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		return Exit{}, fmt.Errorf("wait for container: %w", err)
	}
	status, ok := p.command.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		return Exit{}, fmt.Errorf("wait for container: no wait status in %T", p.command.ProcessState.Sys())
	}
	exit := Exit{Code: exitCode(status)}
	if status.Signaled() {
		exit.Signal = status.Signal()
	}
	return exit, nil
}
