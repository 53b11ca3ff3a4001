package systemd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// systemd's defaults.
const (
	defaultTimeout       = 90 * time.Second
	defaultRestart       = 100 * time.Millisecond
	defaultLimitInterval = 10 * time.Second
	defaultLimitBurst    = 5
)

// outcome is how a service, or a command of it, ended.
type outcome struct {
	result string // success, exit-code, signal, timeout, resources, start-limit-hit, …
	code   int
	signal syscall.Signal
}

func (o outcome) ok() bool { return o.result == "success" }

func (o outcome) String() string {
	switch o.result {
	case "exit-code":
		return fmt.Sprintf("code=exited, status=%d", o.code)
	case "signal":
		return "code=killed, status=" + strings.TrimPrefix(o.signal.String(), "signal ")
	}
	return o.result
}

// service is one life of a service, from a start to a stop.
type service struct {
	manager *Manager
	unit    *unit
	env     map[string]string
	started func() // tells that the start has come to a result
}

// runService runs a service until it is stopped or stays down.
func (m *Manager) runService(ctx context.Context, u *unit, started func()) {
	s := &service{manager: m, unit: u, started: started}
	for {
		if reason, ok := s.limited(); ok {
			s.end(outcome{result: "start-limit-hit"}, reason)
			return
		}
		if condition, unmet := u.unmet("Condition"); unmet {
			m.log(u.name, "%s was skipped because of an unmet condition check (%s).", s.title(), condition)
			m.set(u.name, inactive, "dead")
			return
		}
		if assertion, unmet := u.unmet("Assert"); unmet {
			s.end(outcome{result: "assert"}, "assertion failed: "+assertion)
			return
		}
		result := s.once(ctx)
		if ctx.Err() != nil {
			m.set(u.name, inactive, "dead")
			m.log(u.name, "Stopped %s.", s.title())
			return
		}
		if !s.restarts(result) {
			s.end(result, "")
			return
		}
		s.note(result)
		m.set(u.name, activating, "auto-restart")
		started()
		select {
		case <-time.After(u.span("Service.RestartSec", defaultRestart)):
		case <-ctx.Done():
			m.set(u.name, inactive, "dead")
			return
		}
		m.mu.Lock()
		m.state(u.name).restarts++
		count := m.state(u.name).restarts
		m.mu.Unlock()
		m.log(u.name, "%s: Scheduled restart job, restart counter is at %d.", u.name, count)
		if fresh, err := m.unit(u.name); err == nil {
			s.unit, u = fresh, fresh
		}
	}
}

func (s *service) title() string {
	if text := s.unit.get("Unit.Description", ""); text != "" {
		return s.unit.name + " - " + text
	}
	return s.unit.name
}

// limited counts a start and tells whether there were too many.
func (s *service) limited() (string, bool) {
	interval := s.unit.span("Unit.StartLimitIntervalSec", s.unit.span("Service.StartLimitInterval", defaultLimitInterval))
	burst, err := strconv.Atoi(s.unit.get("Unit.StartLimitBurst", s.unit.get("Service.StartLimitBurst", "")))
	if err != nil {
		burst = defaultLimitBurst
	}
	if interval <= 0 || burst <= 0 {
		return "", false
	}
	now := time.Now()
	s.manager.mu.Lock()
	defer s.manager.mu.Unlock()
	state := s.manager.state(s.unit.name)
	state.starts = slices.DeleteFunc(state.starts, func(at time.Time) bool { return now.Sub(at) > interval })
	if len(state.starts) >= burst {
		return "Start request repeated too quickly.", true
	}
	state.starts = append(state.starts, now)
	return "", false
}

// note records a result.
func (s *service) note(result outcome) {
	m := s.manager
	m.mu.Lock()
	state := m.state(s.unit.name)
	state.result, state.exitCode, state.pid = result.result, result.code, 0
	m.mu.Unlock()
	if !result.ok() {
		m.log(s.unit.name, "%s: Main process exited, %s", s.unit.name, result)
		m.log(s.unit.name, "%s: Failed with result '%s'.", s.unit.name, result.result)
	}
}

// end leaves the service inactive or failed.
func (s *service) end(result outcome, why string) {
	if why != "" {
		s.manager.log(s.unit.name, "%s: %s", s.unit.name, why)
	}
	s.note(result)
	if result.ok() {
		s.manager.set(s.unit.name, inactive, "dead")
		s.manager.log(s.unit.name, "%s: Deactivated successfully.", s.unit.name)
		return
	}
	s.manager.set(s.unit.name, failed, "failed")
	for _, name := range s.unit.words("Unit.OnFailure") {
		s.manager.wait.Go(func() {
			if err := s.manager.start(context.Background(), name); err != nil {
				s.manager.log(name, "Failed to start %s: %v", name, err)
			}
		})
	}
}

// restarts applies Restart=.
func (s *service) restarts(result outcome) bool {
	if prevent := strings.Fields(strings.Join(s.unit.all("Service.RestartPreventExitStatus"), " ")); slices.Contains(prevent, strconv.Itoa(result.code)) && result.result == "exit-code" {
		return false
	}
	switch s.unit.get("Service.Restart", "no") {
	case "always":
		return true
	case "on-success":
		return result.ok()
	case "on-failure":
		return !result.ok()
	case "on-abnormal":
		return !result.ok() && result.result != "exit-code"
	case "on-abort":
		return result.result == "signal"
	}
	return false
}

// once runs the service's commands one time.
func (s *service) once(ctx context.Context) outcome {
	m, name := s.manager, s.unit.name
	env, err := s.unit.environment()
	if err != nil {
		m.log(name, "%s: %v", name, err)
		return outcome{result: "resources"}
	}
	s.env = env
	if err := s.makeDirectories(); err != nil {
		m.log(name, "%s: %v", name, err)
		return outcome{result: "resources"}
	}
	kind := s.unit.get("Service.Type", "simple")
	oneshot := kind == "oneshot"
	limit := s.unit.span("Service.TimeoutStartSec", defaultTimeout)
	if oneshot && s.unit.get("Service.TimeoutStartSec", "") == "" {
		limit = 0
	}
	starting, cancel := deadline(ctx, limit)
	defer cancel()
	m.set(name, activating, "start-pre")
	m.log(name, "Starting %s...", s.title())
	defer s.commands(context.WithoutCancel(ctx), "Service.ExecStopPost")
	if result := s.commands(starting, "Service.ExecStartPre"); !result.ok() {
		return result
	}
	if oneshot || kind == "forking" {
		m.set(name, activating, "start")
		if result := s.commands(starting, "Service.ExecStart"); !result.ok() {
			return result
		}
		if result := s.commands(starting, "Service.ExecStartPost"); !result.ok() {
			return result
		}
		if kind == "forking" || s.unit.flag("Service.RemainAfterExit") {
			m.set(name, active, "exited")
			m.log(name, "Finished %s.", s.title())
			s.started()
			<-ctx.Done()
			return s.commands(context.WithoutCancel(ctx), "Service.ExecStop")
		}
		m.log(name, "Finished %s.", s.title())
		return outcome{result: "success"}
	}
	return s.main(ctx, starting)
}

// main runs a service that is its one main process.
func (s *service) main(ctx, starting context.Context) outcome {
	m, name := s.manager, s.unit.name
	lines := s.unit.all("Service.ExecStart")
	if len(lines) != 1 {
		m.log(name, "%s: Service has %d ExecStart= settings, wants one. Refusing.", name, len(lines))
		return outcome{result: "resources"}
	}
	post := make(chan outcome, 1)
	running, cancel := deadline(ctx, s.unit.span("Service.RuntimeMaxSec", 0))
	defer cancel()
	postFailed, giveUp := context.WithCancel(running)
	defer giveUp()
	result := s.run(postFailed, lines[0], func(pid int) {
		m.mu.Lock()
		m.state(name).pid = pid
		m.mu.Unlock()
		go func() {
			done := s.commands(starting, "Service.ExecStartPost")
			if done.ok() {
				m.set(name, active, "running")
				m.log(name, "Started %s.", s.title())
				s.started()
			} else {
				giveUp()
			}
			post <- done
		}()
	})
	select {
	case done := <-post:
		if !done.ok() && ctx.Err() == nil {
			return done
		}
	default:
	}
	return result
}

// commands runs the commands of a setting one after the other.
func (s *service) commands(ctx context.Context, key string) outcome {
	for _, line := range s.unit.all(key) {
		if result := s.run(ctx, line, nil); !result.ok() {
			return result
		}
	}
	return outcome{result: "success"}
}

// run runs one command to its end. When ctx ends, the command is asked to end.
func (s *service) run(ctx context.Context, line string, began func(pid int)) outcome {
	m, name := s.manager, s.unit.name
	parsed, err := parseCommand(line)
	if err != nil {
		m.log(name, "%s: %v", name, err)
		return outcome{result: "resources"}
	}
	env := maps.Clone(m.config.Env)
	maps.Copy(env, s.env)
	args := parsed.expand(env)
	path, err := findCommand(args[0], env["PATH"])
	if err != nil {
		m.log(name, "%s: Failed at step EXEC spawning %s: %v", name, args[0], err)
		if parsed.ignoreFailure {
			return outcome{result: "success"}
		}
		return outcome{result: "exit-code", code: 203}
	}
	command := &exec.Cmd{Path: path, Args: args, Dir: s.unit.get("Service.WorkingDirectory", "/"), SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	command.Dir = strings.TrimPrefix(command.Dir, "-")
	for key, value := range env {
		command.Env = append(command.Env, key+"="+value)
	}
	slices.Sort(command.Env)
	read, write, err := os.Pipe()
	if err != nil {
		return outcome{result: "resources"}
	}
	command.Stdout, command.Stderr = write, write
	closeOutput, err := s.redirect(command)
	if err != nil {
		m.log(name, "%s: %v", name, err)
		_ = errors.Join(read.Close(), write.Close())
		return outcome{result: "exit-code", code: 209}
	}
	err = command.Start()
	_ = errors.Join(write.Close(), closeOutput())
	if err != nil {
		_ = read.Close()
		m.log(name, "%s: Failed at step EXEC spawning %s: %v", name, path, err)
		return outcome{result: "exit-code", code: 203}
	}
	tag := s.unit.get("Service.SyslogIdentifier", filepath.Base(args[0]))
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		m.config.Journal.Copy(name, tag, command.Process.Pid, read)
		_ = read.Close()
	}()
	if began != nil {
		began(command.Process.Pid)
	}
	result := s.await(ctx, command)
	select {
	case <-drained:
	case <-time.After(time.Second): // a child in another session holds the output
		_ = read.Close()
	}
	if parsed.ignoreFailure {
		result = outcome{result: "success"}
	}
	return result
}

// redirect applies StandardOutput and StandardError where they name files.
func (s *service) redirect(command *exec.Cmd) (func() error, error) {
	var files []*os.File
	closeAll := func() error {
		var errs []error
		for _, file := range files {
			errs = append(errs, file.Close())
		}
		return errors.Join(errs...)
	}
	open := func(setting string) (io.Writer, error) {
		kind, path, ok := strings.Cut(setting, ":")
		flags := os.O_CREATE | os.O_WRONLY
		switch {
		case setting == "null":
			path = os.DevNull
		case !ok:
			return nil, nil //nolint:nilnil // neither a file nor an error: the journal
		case kind == "append":
			flags |= os.O_APPEND
		case kind == "truncate":
			flags |= os.O_TRUNC
		}
		file, err := os.OpenFile(path, flags, 0o644)
		if err != nil {
			return nil, fmt.Errorf("failed to set up standard output: %w", err)
		}
		files = append(files, file)
		return file, nil
	}
	out, err := open(s.unit.get("Service.StandardOutput", ""))
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	if out != nil {
		command.Stdout, command.Stderr = out, out
	}
	if out, err = open(s.unit.get("Service.StandardError", "")); err != nil {
		return nil, errors.Join(err, closeAll())
	}
	if out != nil {
		command.Stderr = out
	}
	return closeAll, nil
}

// await waits for a command's end, which it brings about when ctx ends: first
// with SIGTERM, then with SIGKILL. What is left of its process group goes with it.
func (s *service) await(ctx context.Context, command *exec.Cmd) outcome {
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	group := -command.Process.Pid
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		_ = syscall.Kill(group, syscall.SIGTERM)
		select {
		case err = <-ended:
		case <-time.After(s.unit.span("Service.TimeoutStopSec", defaultTimeout)):
			_ = syscall.Kill(group, syscall.SIGKILL)
			err = <-ended
		}
	}
	if s.unit.get("Service.KillMode", "control-group") == "control-group" && s.unit.get("Service.Type", "simple") != "forking" {
		_ = syscall.Kill(group, syscall.SIGKILL)
	}
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return outcome{result: "timeout"}
	}
	status, ok := command.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		return outcome{result: "resources"}
	case status.Signaled():
		if slices.Contains([]syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE}, status.Signal()) && s.unit.get("Service.Type", "simple") != "oneshot" {
			return outcome{result: "success", signal: status.Signal()}
		}
		return outcome{result: "signal", signal: status.Signal()}
	case status.ExitStatus() != 0:
		if slices.Contains(s.unit.words("Service.SuccessExitStatus"), strconv.Itoa(status.ExitStatus())) {
			return outcome{result: "success", code: status.ExitStatus()}
		}
		return outcome{result: "exit-code", code: status.ExitStatus()}
	}
	_ = err // the status says it all
	return outcome{result: "success"}
}

// makeDirectories makes what RuntimeDirectory and its kin name.
func (s *service) makeDirectories() error {
	for key, base := range map[string]string{
		"Service.RuntimeDirectory": "/run", "Service.StateDirectory": "/var/lib", "Service.CacheDirectory": "/var/cache",
		"Service.LogsDirectory": "/var/log", "Service.ConfigurationDirectory": "/etc",
	} {
		for _, name := range s.unit.words(key) {
			if err := os.MkdirAll(filepath.Join(base, name), 0o755); err != nil {
				return err
			}
		}
	}
	return nil
}

func deadline(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// findCommand finds a command that is no path in PATH, as systemd does.
func findCommand(name, search string) (string, error) {
	if strings.Contains(name, "/") {
		info, err := os.Stat(name)
		switch {
		case err != nil:
			return "", errors.Unwrap(err)
		case info.IsDir() || info.Mode()&0o111 == 0:
			return "", syscall.EACCES
		}
		return name, nil
	}
	for _, dir := range filepath.SplitList(search) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", syscall.ENOENT
}
