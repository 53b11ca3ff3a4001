package provisioner

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/kubeopera/platform/shared/logger"
	"github.com/kubeopera/platform/shared/provisioner/internal/remote"
	"github.com/kubeopera/platform/shared/provisioner/internal/script"
	"github.com/kubeopera/platform/shared/redact"
)

// dialHost connects by SSH.
func dialHost(log *logger.FunLogger) dialer {
	return func(ctx context.Context, c Connection, e endpoint) (host, error) {
		config, err := c.config(log, e)
		if err != nil {
			return nil, err
		}
		h, err := remote.Connect(ctx, config)
		if err != nil {
			return nil, err
		}
		return h, nil
	}
}

// host is where scripts run; *remote.Host is the real one.
type host interface {
	Run(ctx context.Context, s remote.Script) error
	Output(ctx context.Context, command string, stdin []byte) ([]byte, error)
	BootID(ctx context.Context) (string, error)
	Reconnect(ctx context.Context) error
	Client() *ssh.Client
	Close() error
}

// machine is a host with what its steps need.
type machine struct {
	name  string
	host  host
	log   *logger.FunLogger
	masks *redact.Redactor // of the whole call; join tokens are added on the way
	scope string           // what the ids of steps are of: environment and node
}

// job is a script; one that may fail stops nothing.
type job struct {
	step    script.Step
	mayFail bool
}

const adminConf = "/etc/kubernetes/admin.conf"

// kubectl is a command as an administrator: of the machine's own API server, or,
// if that does not answer, of the one that the file names. stdin becomes $input.
func kubectl(arguments string) string {
	return `input=$(cat); k() { kubectl --kubeconfig=` + adminConf + ` --request-timeout=30s "$@"; }; ` +
		`k --server=https://127.0.0.1:6443 ` + arguments + ` 2>/dev/null || k ` + arguments
}

// stepID is the same for the same step of the same environment on the same
// node, so that a run that was interrupted finds its script again.
func (m *machine) stepID(s script.Step) string {
	h := sha256.New()
	for _, part := range []string{m.scope, m.name, s.Name, string(s.Body)} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, s.Name)
	return name[:min(len(name), 40)] + "-" + hex.EncodeToString(h.Sum(nil)[:12])
}

// run executes a step to its end, rebooting the machine if the step asks for that.
func (m *machine) run(ctx context.Context, s script.Step) error {
	if !s.Reboots {
		return m.execute(ctx, s)
	}
	for again := false; ; again = true {
		boot, err := m.host.BootID(ctx)
		if err != nil {
			return fmt.Errorf("read the boot id: %w", m.mask(err))
		}
		// After a reboot the same step says whether the machine is what it should be.
		if err := m.execute(ctx, s); err != nil {
			return err
		}
		// The marker names the boot that is to end.
		wanted, err := m.output(ctx, "ask whether a reboot is needed", "cat "+script.RebootMarker+" 2>/dev/null || true", nil)
		switch {
		case err != nil:
			return err
		case strings.TrimSpace(string(wanted)) != boot:
			return nil
		case again:
			return fmt.Errorf("%s: the machine was rebooted and still needs it", s.Name)
		}
		if err := m.reboot(ctx, boot); err != nil {
			return err
		}
	}
}

// runUntil runs a step after which a condition of test must hold. If it does not,
// what came was the result of an earlier run that nobody had fetched: the machine
// has changed since, and the step runs once more.
func (m *machine) runUntil(ctx context.Context, s script.Step, condition string) error {
	for again := false; ; again = true {
		if err := m.run(ctx, s); err != nil {
			return err
		}
		ok, err := m.holds(ctx, condition)
		switch {
		case err != nil || ok:
			return err
		case again:
			return fmt.Errorf("%s: it succeeded, but test %s does not", s.Name, condition)
		}
	}
}

// holds says whether test succeeds on the machine.
func (m *machine) holds(ctx context.Context, condition string) (bool, error) {
	out, err := m.output(ctx, "look for files", "if [ "+condition+" ]; then echo yes; fi", nil)
	return strings.TrimSpace(string(out)) == "yes", err
}

// execute runs a script, its output going to the log line by line. One that a
// reboot or a kill interrupted is run once more, and so is one that failed and was
// begun by an earlier call.
func (m *machine) execute(ctx context.Context, s script.Step) error {
	for again := false; ; again = true {
		lines := &lineLog{machine: m}
		err := m.host.Run(ctx, remote.Script{
			Name: s.Name, ID: m.stepID(s), Body: s.Body, Stdin: s.Stdin, Timeout: s.Timeout, Output: lines,
		})
		lines.flush()
		var interrupted *InterruptedError
		var exit *remote.ExitError
		unknown := errors.As(err, &interrupted) && (interrupted.Reason == remote.Rebooted || interrupted.Reason == remote.Vanished)
		stale := errors.As(err, &exit) && exit.Earlier
		if again || !unknown && !stale {
			return m.mask(err)
		}
		m.log.Warning("[%s] %v; running it again", m.name, m.mask(err))
	}
}

// query is what a script prints on standard output, which is not logged: it may be
// a secret.
func (m *machine) query(ctx context.Context, s script.Step) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.Timeout, defaultQueryTimeout))
	defer cancel()
	// What follows the script is its standard input.
	return m.output(ctx, s.Name, "exec bash -s", slices.Concat(s.Body, s.Stdin))
}

const defaultQueryTimeout = 5 * time.Minute

// output is what a short command prints, which is not logged either. The command
// may be run twice, if the connection breaks.
func (m *machine) output(ctx context.Context, what, command string, stdin []byte) ([]byte, error) {
	for again := false; ; again = true {
		out, err := m.host.Output(ctx, command, stdin)
		if err == nil {
			return out, nil
		}
		var lost *UnreachableError
		// After more attempts the machine itself is away.
		if again || ctx.Err() != nil || !errors.As(err, &lost) || lost.Attempts > 1 {
			return nil, fmt.Errorf("%s: %w", what, m.mask(err))
		}
	}
}

// nodes is what the cluster knows, asked on a control plane.
func (m *machine) nodes(ctx context.Context) ([]kubeNode, error) {
	data, err := m.output(ctx, "list nodes", kubectl("get nodes -o json"), nil)
	if err != nil {
		return nil, err
	}
	return parseNodes(data)
}

// apiReady asks the API server.
func (m *machine) apiReady(ctx context.Context) error {
	_, err := m.output(ctx, "ask the API server", kubectl("get --raw=/readyz"), nil)
	return err
}

// address is that from which the machine speaks to others.
func (m *machine) address(ctx context.Context) (string, error) {
	out, err := m.output(ctx, "find the address", "ip -4 -o route get 198.51.100.1", nil)
	if err != nil {
		return "", err
	}
	if _, after, found := strings.Cut(string(out), " src "); found {
		if fields := strings.Fields(after); len(fields) > 0 && net.ParseIP(fields[0]) != nil {
			return fields[0], nil
		}
	}
	return "", errors.New("find the address: no IPv4 address leads to others; give the node's private address")
}

const (
	rebootTimeout = 10 * time.Minute
	rebootPause   = 5 * time.Second
	rebootCommand = "systemctl reboot"
)

// reboot restarts the machine and waits until it runs under another boot id
// than before. That it answers proves nothing: it may not have gone down yet.
func (m *machine) reboot(ctx context.Context, before string) error {
	m.log.Info("[%s] rebooting", m.name)
	ctx, cancel := context.WithTimeoutCause(ctx, rebootTimeout, fmt.Errorf("not back within %s after a reboot", rebootTimeout))
	defer cancel()
	// Later, so that the answer can still be sent; the connection may break all the same.
	if _, err := m.host.Output(ctx, "nohup sh -c 'sleep 1; "+rebootCommand+"' >/dev/null 2>&1 </dev/null &", nil); err != nil {
		m.log.Debug("[%s] reboot: %v", m.name, m.mask(err))
	}
	last := errors.New("it has not gone down")
	for {
		if err := pause(ctx, rebootPause); err != nil {
			return fmt.Errorf("reboot: %w: %w", err, last)
		}
		if err := m.host.Reconnect(ctx); err != nil {
			last = m.mask(err)
			if fatal(err) {
				return fmt.Errorf("reboot: %w", last)
			}
			continue
		}
		now, err := m.host.BootID(ctx)
		switch {
		case err != nil:
			last = m.mask(err)
		case now != before:
			return nil
		}
	}
}

// fatal says that trying again is of no use.
func fatal(err error) bool {
	var auth *AuthError
	var key *HostKeyError
	return errors.As(err, &auth) || errors.As(err, &key)
}

// mask makes a script's error public, without what became secret after the
// connection was made.
func (m *machine) mask(err error) error {
	if err == nil {
		return nil
	}
	if exit, ok := errors.AsType[*remote.ExitError](err); ok {
		tail := slices.Clone(exit.Tail)
		for i := range tail {
			tail[i] = m.masks.String(tail[i])
		}
		return &StepError{Step: exit.Script, Code: exit.Code, Class: string(exit.Class), Line: exit.Line, Tail: tail, Hint: exit.Hint}
	}
	return &maskedError{text: m.masks.String(err.Error()), err: err}
}

// maskedError has err's chain and not its text.
type maskedError struct {
	text string
	err  error
}

func (e *maskedError) Error() string { return e.text }
func (e *maskedError) Unwrap() error { return e.err }

// lineLog writes whole lines to the log, with the machine's name.
type lineLog struct {
	machine *machine
	partial []byte
}

// maxLine bounds what is held of a line that does not end.
const maxLine = 64 << 10

func (l *lineLog) Write(p []byte) (int, error) {
	l.partial = append(l.partial, p...)
	for {
		line, rest, found := bytes.Cut(l.partial, []byte("\n"))
		if !found {
			break
		}
		l.emit(line)
		l.partial = rest
	}
	if len(l.partial) > maxLine {
		l.flush()
	}
	return len(p), nil
}

func (l *lineLog) flush() {
	if len(l.partial) > 0 {
		l.emit(l.partial)
		l.partial = nil
	}
}

func (l *lineLog) emit(line []byte) {
	text := strings.TrimRight(string(line), "\r")
	l.machine.log.Info("[%s] %s", l.machine.name, l.machine.masks.String(text))
}

// decode reads the one JSON object that a script printed.
func decode(what string, data []byte, into any) error {
	if err := json.Unmarshal(data, into); err != nil {
		// The text may hold a token: only where it is wrong is told.
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			return fmt.Errorf("%s: the answer is no JSON at byte %d", what, syntax.Offset)
		}
		return fmt.Errorf("%s: the answer is not of the expected form", what)
	}
	return nil
}
