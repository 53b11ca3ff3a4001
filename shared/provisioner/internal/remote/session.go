package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// lostError is a session that ended without saying how.
type lostError struct{ err error }

func (e *lostError) Error() string { return fmt.Sprintf("connection was lost: %v", e.err) }
func (e *lostError) Unwrap() error { return e.err }

// launch is the command line of a session: sh, as root, reads n bytes of program
// from its input and executes them, byte by byte since what follows belongs to
// the program. Nothing else is ever in an argument.
func launch(n int) string {
	return fmt.Sprintf(`sh -c 'r=; [ "$(id -u)" = 0 ] || r="sudo -n -H"; exec $r sh -c "$0"' 'eval "$(dd bs=1 count=%d 2>/dev/null)"'`, n)
}

// quote makes one word of s for sh.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// exchange is one session: a program, its input, and what it answers.
type exchange struct {
	program string // for sh; executed whole or not at all
	input   []byte // standard input after the program
	open    bool   // the input goes on: answer writes to it
	out     *stream

	stdin io.WriteCloser
	abort context.CancelCauseFunc
	alarm *time.Timer // rings without effect after the first frame
	heard atomic.Bool // whether there was one
	fed   chan struct{}
}

// answer sends the end of an open input. Only one may write at a time; a program
// that answers has read all before.
func (x *exchange) answer(text string) {
	<-x.fed
	_, _ = io.WriteString(x.stdin, text) // if it is lost, it is asked for again
	_ = x.stdin.Close()
}

// do has a program executed on the host. The error is a lostError if nobody knows
// how it ended, and an ExitError if its status is not 0.
func (h *Host) do(ctx context.Context, x *exchange) error {
	session, c, err := h.session(ctx)
	if err != nil {
		return err
	}
	parent := ctx
	ctx, x.abort = context.WithCancelCause(ctx)
	defer x.abort(nil)
	silence := 4 * h.config.HandshakeTimeout
	x.alarm = time.AfterFunc(silence, func() {
		if !x.heard.Load() {
			x.abort(&lostError{fmt.Errorf("no answer within %s", silence)})
		}
	})
	defer x.alarm.Stop()
	frame, fail := x.out.frame, x.abort
	x.out.frame = func(words []string) {
		x.heard.Store(true)
		frame(words)
	}
	x.out.fail = func(err error) { fail(fmt.Errorf("%s: %w", h.config.Target, err)) }
	stderr, complaint := newLines(h.masks, nil)
	session.Stdout, session.Stderr = x.out, stderr
	if x.stdin, err = session.StdinPipe(); err != nil {
		return &lostError{err}
	}
	program := "{\n" + x.program + "\n}"
	x.fed = make(chan struct{})
	done := make(chan error, 1)
	go func() {
		if err := session.Start(launch(len(program))); err != nil {
			done <- err
			return
		}
		go x.feed(program, silence)
		err := session.Wait()
		_ = session.Close()
		<-x.fed // what it writes fails by now
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = h.hangUp(session, c, done)
	}
	_ = stderr.Close()
	if parent.Err() != nil {
		return context.Cause(parent)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	status := 0
	var exit *ssh.ExitError
	switch {
	case errors.As(err, &exit):
		status = exit.ExitStatus()
	case err != nil && !errors.Is(err, io.EOF): // EOF: it did not read all of its input
		return &lostError{err}
	}
	if x.out.seen == 0 {
		return h.unheard(status, complaint.tail)
	}
	if status != 0 {
		return exitError("", status, complaint.tail)
	}
	return nil
}

// feed writes program and input, and closes the input unless it goes on.
func (x *exchange) feed(program string, silence time.Duration) {
	defer close(x.fed)
	const piece = 32 << 10
	for rest := append([]byte(program), x.input...); len(rest) > 0; {
		n, err := x.stdin.Write(rest[:min(len(rest), piece)])
		if err != nil {
			return
		}
		rest = rest[n:]
		x.alarm.Reset(silence)
	}
	if !x.open {
		_ = x.stdin.Close()
	}
}

// hangUp ends a session, and the connection if that does not end it.
func (h *Host) hangUp(session *ssh.Session, c *connection, done <-chan error) error {
	go func() { _ = session.Close() }() // waits for a peer that may be dead
	timer := time.NewTimer(h.config.HandshakeTimeout)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
	}
	_ = c.client.Close()
	return <-done
}

// unheard is why a program did not even begin.
func (h *Host) unheard(status int, complaint []string) error {
	said := strings.Join(complaint, "; ")
	if strings.Contains(said, "sudo") {
		return &PrivilegeError{Target: h.config.Target, User: h.config.User, Detail: said}
	}
	if status == 0 && said == "" || status > 128 { // killed, as in a shutdown
		return &lostError{fmt.Errorf("the session ended at once, with status %d", status)}
	}
	return fmt.Errorf("%s cannot execute commands: status %d: %s", h.config.Target, status, said)
}

// session opens one, on a new connection if there is none on the one at hand.
func (h *Host) session(ctx context.Context) (*ssh.Session, *connection, error) {
	wait := h.config.Backoff
	for attempt := 1; ; attempt++ {
		c, err := h.live(ctx)
		if err != nil {
			return nil, nil, err
		}
		s, err := h.open(ctx, c)
		if err == nil {
			return s, c, nil
		}
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if attempt >= h.config.MaxRetries {
			return nil, nil, &UnreachableError{Target: h.config.Target, Attempts: attempt, Err: fmt.Errorf("open a session: %w", h.masked(err))}
		}
		h.log.DebugContext(ctx, "host opens no session", "attempt", attempt, "error", h.masked(err))
		if _, refused := errors.AsType[*ssh.OpenChannelError](err); !refused { // refused: it has too many, and may have fewer soon
			_ = c.client.Close()
			<-c.gone
		}
		if err := pause(ctx, wait); err != nil {
			return nil, nil, err
		}
		wait = min(2*wait, maxBackoff)
	}
}

// open asks for a session and does not wait for ever.
func (h *Host) open(ctx context.Context, c *connection) (*ssh.Session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.config.HandshakeTimeout, fmt.Errorf("no session within %s", h.config.HandshakeTimeout))
	defer cancel()
	type answer struct {
		session *ssh.Session
		err     error
	}
	answers := make(chan answer)
	go func() {
		s, err := c.client.NewSession()
		select {
		case answers <- answer{s, err}:
		case <-ctx.Done():
			if err == nil {
				_ = s.Close()
			}
		}
	}()
	select {
	case a := <-answers:
		return a.session, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

const maxOutput = 32 << 20

// output runs a command and returns what it prints.
func (h *Host) output(ctx context.Context, name, command string, stdin []byte) ([]byte, error) {
	if strings.ContainsRune(command, 0) {
		return nil, fmt.Errorf("%s: it has a NUL byte", name)
	}
	mark := rand.Text()
	x := &exchange{program: "echo " + mark + " ready\n" + command, input: stdin, out: newStream(mark)}
	x.out.plain = true
	var out []byte
	x.out.data = func(p []byte) {
		if len(out)+len(p) > maxOutput {
			x.abort(fmt.Errorf("it prints more than %d MiB", maxOutput>>20))
			return
		}
		out = append(out, p...)
	}
	err := h.do(ctx, x)
	var lost *lostError
	var exit *ExitError
	switch {
	case err == nil:
		return out, nil
	case errors.As(err, &exit):
		exit.Script = name
		return nil, exit
	case errors.As(err, &lost):
		err = &UnreachableError{Target: h.config.Target, Attempts: 1, Err: h.masked(err)}
	}
	return nil, fmt.Errorf("%s: %w", name, err)
}
