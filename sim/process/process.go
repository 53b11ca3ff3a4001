// Package process runs the simulator's children: programs whose output goes to
// a file.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Process is a child of the simulator.
type Process struct {
	cmd *exec.Cmd
	log *os.File

	ended chan struct{} // closed once the process has been reaped
	mu    sync.Mutex
	err   error
}

// Start starts path with exactly the environment env; its output is appended to
// logFile. It outlives ctx.
func Start(ctx context.Context, path, logFile string, env []string, args ...string) (*Process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.CommandContext(context.WithoutCancel(ctx), path, args...), log: log, ended: make(chan struct{})}
	p.cmd.Env = env
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", path, err), log.Close())
	}
	go func() {
		err := p.cmd.Wait()
		p.mu.Lock()
		p.err = errors.Join(err, log.Close())
		p.mu.Unlock()
		close(p.ended)
	}()
	return p, nil
}

// Ended is closed once the process has ended; Err tells how.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Err is the process's error once it has ended.
func (p *Process) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Crash ends the process at once and does not wait for it.
func (p *Process) Crash() {
	_ = p.cmd.Process.Kill() // it may have ended already
}

// Kill ends the process at once, as a crash does, and waits for it.
func (p *Process) Kill() {
	p.Crash()
	<-p.ended
}

// Stop asks the process to end, and kills it after grace.
func (p *Process) Stop(grace time.Duration) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
		return p.Err()
	case <-timer.C:
		p.Kill()
		return fmt.Errorf("%s did not end within %s of SIGTERM", p.cmd.Path, grace)
	}
}
