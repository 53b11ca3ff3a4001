package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Names under which the program re-executes itself (argument zero).
const (
	roleInit      = "kubeopera-sandbox-init"
	roleContainer = "kubeopera-sandbox-container"
)

// selfExecutable is followed by the kernel without a look at the path's
// permissions, so it also works where an ordinary user could not open the path.
const selfExecutable = "/proc/self/exe"

// The descriptor on which a stage reports why it could not go on. It closes
// without a word once the stage's own program runs.
const reportDescriptor = 3

// NotPermittedError says that this machine does not let the program make its
// namespaces, and what would change that.
type NotPermittedError struct {
	Err  error
	Hint string
}

func (e *NotPermittedError) Error() string {
	return fmt.Sprintf("namespaces are not permitted: %v (%s)", e.Err, e.Hint)
}

// Unwrap gives the operation that was refused.
func (e *NotPermittedError) Unwrap() error { return e.Err }

// Enter continues the program inside a sandbox. In the first process it does
// not return but waits for the copy inside and exits with its code; inside it
// returns nil at once. It returns an error only if there can be no sandbox.
//
// SIGKILL of the first process ends everything inside; SIGINT, SIGTERM, SIGHUP
// and SIGQUIT are passed on, once, to the program inside.
func Enter() error {
	switch {
	case os.Args[0] == roleContainer:
		containerStage()
	case os.Args[0] == roleInit:
		initStage()
	case Inside():
		return nil
	}
	code, err := runInside(os.Geteuid() != 0)
	var notPermitted *NotPermittedError
	if errors.As(err, &notPermitted) && os.Geteuid() == 0 {
		// Root without the capability, as in a container: its own user namespace may do.
		code, err = runInside(true)
	}
	if err != nil {
		return fmt.Errorf("enter sandbox: %w", err)
	}
	os.Exit(code)
	return nil
}

// Inside tells whether the program runs in a sandbox made by Enter.
func Inside() bool {
	command, err := os.ReadFile("/proc/1/cmdline")
	if err != nil {
		return false
	}
	name, _, _ := strings.Cut(string(command), "\x00")
	return name == roleInit
}

// runInside starts the init stage and waits for it.
func runInside(userNamespace bool) (int, error) {
	// The parent-death signal belongs to the thread that starts the child: this
	// one must live as long as the program.
	runtime.LockOSThread()
	report, reportWrite, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("make report pipe: %w", err)
	}
	defer func() { _ = report.Close() }()

	command := exec.Command(selfExecutable) //nolint:noctx // its life is the program's own
	command.Args = append([]string{roleInit}, os.Args...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.ExtraFiles = []*os.File{reportWrite}
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
		// A terminal's Ctrl-C reaches the first process only, which passes it on:
		// otherwise the program inside would get it twice.
		Setpgid: true,
	}
	if userNamespace {
		command.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}

	// Before the start, or a signal in between would end the first process only.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, forwarded()...)
	err = command.Start()
	_ = reportWrite.Close()
	if err != nil {
		signal.Stop(signals)
		return 0, explain(fmt.Errorf("make namespaces: %w", err))
	}
	go func() {
		for s := range signals {
			_ = command.Process.Signal(s)
		}
	}()

	problem, readErr := io.ReadAll(report)
	waitErr := command.Wait()
	switch {
	case readErr != nil:
		return 0, fmt.Errorf("read report of the init stage: %w", readErr)
	case len(problem) > 0:
		signal.Stop(signals)
		return 0, explain(errors.New(string(problem)))
	}
	var exit *exec.ExitError
	if waitErr != nil && !errors.As(waitErr, &exit) {
		return 0, fmt.Errorf("wait for the program inside: %w", waitErr)
	}
	status, _ := command.ProcessState.Sys().(syscall.WaitStatus)
	return exitCode(status), nil
}

func forwarded() []os.Signal {
	return []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
}

// exitCode is what a shell reports for a wait status.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// initStage is PID 1 of the sandbox: it gives the namespace its own /proc,
// starts the program, passes signals on and reaps orphans. It ends with the
// program, and the kernel then ends whatever the program left behind.
func initStage() {
	report := os.NewFile(reportDescriptor, "report")
	unix.CloseOnExec(reportDescriptor)
	fail := func(err error) {
		_, _ = io.WriteString(report, err.Error())
		os.Exit(1)
	}

	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fail(fmt.Errorf("make mounts private: %w", err))
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		fail(fmt.Errorf("mount /proc: %w", err))
	}

	signals := make(chan os.Signal, 8)
	signal.Notify(signals, forwarded()...)
	program, err := os.StartProcess(selfExecutable, os.Args[1:], &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		fail(fmt.Errorf("start the program: %w", err))
	}
	_ = report.Close()
	pid := program.Pid
	go func() {
		for s := range signals {
			if number, ok := s.(syscall.Signal); ok {
				_ = syscall.Kill(pid, number)
			}
		}
	}()

	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			os.Exit(1)
		}
		if ended == pid && (status.Exited() || status.Signaled()) {
			os.Exit(exitCode(status))
		}
	}
}
