package joinfault

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// process is one run of a script on a machine.
type process struct {
	id      string
	machine *machine
	script  string
	command *exec.Cmd
	calls   map[*call]bool // that have no answer yet
	then    func(code int)
}

// start runs a script. then gets its exit code, -1 if it was killed while its
// machine went on.
func (w *World) start(m *machine, script string, then func(code int)) *process {
	w.serial++
	p := &process{id: fmt.Sprintf("%s-%d", m.id, w.serial), machine: m, script: script, calls: map[*call]bool{}, then: then}
	output, err := os.OpenFile(m.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		w.violate("start %s: %v", script, err)
		return nil
	}
	defer func() { _ = output.Close() }()
	p.command = exec.Command("bash", filepath.Join(w.config.Scripts, script)) //nolint:noctx // a group of processes: end ends it
	p.command.Env = []string{
		"PATH=" + w.bin() + ":/usr/bin:/bin", "HOME=" + m.root, "KUBEOPERA_ROOT=" + m.root,
		"JOINFAULT_SOCKET=" + w.socket, "JOINFAULT_RUN=" + p.id,
	}
	p.command.Stdout, p.command.Stderr = output, output
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.command.Start(); err != nil {
		w.violate("start %s: %v", script, err)
		return nil
	}
	w.processes[p.id] = p
	w.note(m.name(), "starts %s", script)
	go func() {
		_ = p.command.Wait() // the exit code is looked at
		w.exits <- p
	}()
	return p
}

// exited follows an end that the script came to by itself.
func (w *World) exited(p *process) {
	w.forget(p)
	code := p.command.ProcessState.ExitCode()
	w.note(p.machine.name(), "%s exits with %d", p.script, code)
	p.then(code)
}

// kill ends a run as kill -9 of its whole control group does.
func (w *World) kill(p *process, why string) {
	if w.processes[p.id] == nil {
		return
	}
	w.note(p.machine.name(), "%s is killed: %s", p.script, why)
	w.end(p)
	if p.machine.on {
		p.then(-1)
	}
}

// end ends a run and waits for it, while others go on.
func (w *World) end(p *process) {
	_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL)
	for {
		select {
		case other := <-w.exits:
			if other == p {
				w.forget(p)
				return
			}
			w.exited(other)
		case c := <-w.calls:
			if c.run == p.id {
				c.hangUp()
			} else {
				w.begin(c)
			}
		}
	}
}

func (w *World) forget(p *process) {
	for c := range p.calls {
		c.cancel()
	}
	delete(w.processes, p.id)
}

// unitDelay is RestartSec of kubeopera-bootstrap.service.
const unitDelay = 20 * time.Second
