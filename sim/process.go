package sim

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

// process is a child of the simulator whose output goes to a file.
type process struct {
	cmd *exec.Cmd
	log *os.File

	ended chan struct{} // closed once the process has been reaped
	mu    sync.Mutex
	err   error
}

// startProcess starts path with exactly the environment env; its output is
// appended to logFile.
func startProcess(ctx context.Context, path, logFile string, env []string, args ...string) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(context.WithoutCancel(ctx), path, args...), log: log, ended: make(chan struct{})}
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

// kill ends the process at once, as a crash does, and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.ended
}

// stop asks the process to end, and kills it after grace.
func (p *process) stop(grace time.Duration) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
		return p.result()
	case <-timer.C:
		p.kill()
		return fmt.Errorf("%s did not end within %s of SIGTERM", p.cmd.Path, grace)
	}
}

// result is the process's error once it has ended.
func (p *process) result() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}
