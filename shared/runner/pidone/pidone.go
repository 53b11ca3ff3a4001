// Package pidone runs one command the way a container's first process must.
//
// It passes SIGTERM and SIGINT on to its one child and to nobody else: a program
// that the child runs, such as Terraform, must get exactly one interrupt, and gets
// it from the child. It reaps orphans, ends with the child's exit code, and kills
// what the child left behind.
package pidone

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exit codes of shells for commands that cannot be run, and their base for signals.
const (
	exitCannotRun = 126
	exitNotFound  = 127
	exitSignal    = 128
)

// Run runs command until it ends and returns the exit code to end with. The
// error says why the command could not be run at all.
func Run(command, environ []string) (int, error) {
	if len(command) == 0 {
		return exitCannotRun, errors.New("no command given")
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return exitNotFound, fmt.Errorf("find the command: %w", err)
	}

	// Orphans are given to process 1; this makes them ours where we are not it.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return exitCannotRun, fmt.Errorf("become the reaper of orphans: %w", err)
	}

	// Before the start: a signal that comes in between must not be lost.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	defer signal.Stop(signals)

	// The death signal follows the thread that starts the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	child, err := syscall.ForkExec(path, command, &syscall.ProcAttr{
		Env:   environ,
		Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{
			Setpgid:   true,            // a signal to our group is not the child's
			Pdeathsig: syscall.SIGKILL, // it must not outlive us
		},
	})
	if err != nil {
		return exitCannotRun, fmt.Errorf("run %s: %w", path, err)
	}

	ended := make(chan int, 1)
	go func() { ended <- reapUntil(child) }()
	var code int
	for waiting := true; waiting; {
		select {
		case s := <-signals:
			if n, ok := s.(syscall.Signal); ok {
				// It fails only if the child has ended already.
				_ = unix.Kill(child, n)
			}
		case code = <-ended:
			waiting = false
		}
	}
	killRest()
	return code, nil
}

// reapUntil reaps whatever ends, until the child has ended.
func reapUntil(child int) (code int) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // no children: somebody else reaped ours
			return exitCannotRun
		case pid == child && status.Exited():
			return status.ExitStatus()
		case pid == child && status.Signaled():
			return exitSignal + int(status.Signal())
		}
	}
}
