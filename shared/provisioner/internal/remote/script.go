package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed" // the programs
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Script is a bash script to be run as root, in / and under umask 022.
type Script struct {
	Name string // for messages
	// ID names the run on the host: letters, digits, dots, hyphens, underscores. If
	// one with this ID goes on, or has ended and nobody was told, Run is about that
	// one and does not begin another.
	ID   string
	Body []byte // of any size; no place for secrets, which Stdin is
	// Stdin is the script's standard input. Its lines, the values of its lines
	// NAME=value, and what those decode to as base64, are masked in all output if they
	// have 8 bytes to 16 KiB.
	Stdin []byte
	// Env is in the environment of the script, and so for all programs that it
	// starts to see. No place for secrets either.
	Env     map[string]string
	Timeout time.Duration // after which its processes are killed on the host; 0 for never
	// Output gets what the script prints on both streams: whole lines, clean of
	// secrets and control characters. May be nil.
	Output io.Writer
}

var (
	validID  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	validEnv = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

	//go:embed session.sh
	sessionProgram string
	//go:embed supervise.bash
	superviseProgram string
)

const (
	keptSteps = 50
	tailBytes = 64 << 10
	maxSecret = 16 << 10 // finding a text takes a thousand times its memory
	// A connection that held for so long counts as one that works.
	steady = 30 * time.Second
)

func (s Script) validate() error {
	var problems []error
	if s.Name == "" {
		problems = append(problems, errors.New("it has no name"))
	}
	if !validID.MatchString(s.ID) {
		problems = append(problems, fmt.Errorf("id %q is not of letters, digits, dots, hyphens and underscores", s.ID))
	}
	if s.Timeout < 0 {
		problems = append(problems, fmt.Errorf("timeout %s is negative", s.Timeout))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if !validEnv.MatchString(name) || strings.ContainsRune(s.Env[name], 0) {
			problems = append(problems, fmt.Errorf("%q cannot be a variable, or its value has a NUL byte", name))
		}
	}
	if problems != nil {
		return fmt.Errorf("script %s: %w", s.Name, errors.Join(problems...))
	}
	return nil
}

// Run executes a script, or attaches to the run of that ID, and returns when it is
// over. Its failure is an ExitError, TimeoutError or InterruptedError. When ctx
// ends the script's processes are killed on the host, which takes some seconds; the
// error says if that was not possible. An UnreachableError leaves it running.
func (h *Host) Run(ctx context.Context, s Script) error {
	if err := s.validate(); err != nil {
		return err
	}
	h.masks.Add(secretsOf(s.Stdin)...)
	w, l := newLines(h.masks, s.Output)
	r := &run{host: h, script: s, attempt: rand.Text(), out: w}
	end, err := r.await(ctx)
	_ = w.Close()
	if l.err != nil {
		h.log.WarnContext(ctx, "output of a script was not taken", "script", s.Name, "error", h.masked(l.err))
	}
	if err == nil {
		err = r.result(end)
	}
	var interrupted *InterruptedError
	var timeout *TimeoutError
	var exit *ExitError
	switch {
	case errors.As(err, &interrupted):
		interrupted.Tail = l.tail
	case errors.As(err, &timeout):
		timeout.Tail = l.tail
	case errors.As(err, &exit):
		failed := exitError(s.Name, exit.Code, l.tail)
		failed.Earlier = r.owner != r.attempt
		return failed
	}
	return err
}

// secretsOf is what a standard input may hold of secrets.
func secretsOf(stdin []byte) []string {
	var out []string
	for line := range bytes.Lines(stdin) {
		if len(line) > maxSecret {
			continue
		}
		text := strings.TrimSpace(string(line))
		out = append(out, text)
		if _, value, found := strings.Cut(text, "="); found {
			out = append(out, strings.Trim(value, `'"`))
			if plain, err := base64.StdEncoding.DecodeString(value); err == nil {
				out = append(out, string(plain))
			}
		}
	}
	return out
}

// run is one call of Run.
type run struct {
	host    *Host
	script  Script
	attempt string
	out     io.Writer

	begun  bool   // the host may have begun it
	owner  string // attempt of the run that is followed; empty if none is yet
	boot   runFrame
	offset int64 // bytes of the log that were received
}

// await follows the run to its end, over as many connections as it takes.
func (r *run) await(ctx context.Context) (endFrame, error) {
	h := r.host
	wait := h.config.Backoff
	for breaks := 1; ; breaks++ {
		began, had := time.Now(), r.offset
		end, err := r.follow(ctx)
		if ctx.Err() != nil && err != nil {
			return endFrame{}, r.stop(ctx)
		}
		var lost *lostError
		if !errors.As(err, &lost) {
			return end, err
		}
		if r.offset > had || time.Since(began) > steady {
			breaks, wait = 1, h.config.Backoff
		}
		if breaks >= h.config.MaxRetries {
			return endFrame{}, fmt.Errorf("script %s: %w; it may go on", r.script.Name,
				&UnreachableError{Target: h.config.Target, Attempts: breaks, Err: h.masked(lost.err)})
		}
		h.log.InfoContext(ctx, "connection was lost; attaching to the script again", "script", r.script.Name, "error", h.masked(lost.err))
		if err := pause(ctx, wait); err != nil {
			return endFrame{}, r.stop(ctx)
		}
		wait = min(2*wait, maxBackoff)
	}
}

// follow is one session of the run.
func (r *run) follow(ctx context.Context) (endFrame, error) {
	h, mark := r.host, rand.Text()
	x := &exchange{open: true, out: newStream(mark)}
	if r.owner == "" {
		supervise := r.supervise()
		x.program = r.program(mark, len(supervise), "start")
		x.input = slices.Concat([]byte(supervise), r.script.Body, r.script.Stdin)
	} else {
		x.program = r.program(mark, 0, "follow")
	}
	var end *endFrame
	var failure error
	refuse := func(err error) {
		if failure == nil {
			failure = err
		}
		x.abort(failure)
	}
	x.out.data = func(p []byte) {
		r.offset += int64(len(p))
		_, _ = r.out.Write(p) // only the sink can fail, which is reported at the end
	}
	x.out.frame = func(words []string) {
		switch words[0] {
		case "run":
			f, err := parseRun(words)
			if err != nil {
				refuse(err)
				return
			}
			if r.owner != "" && f.owner != r.owner {
				refuse(&InterruptedError{Script: r.script.Name, Reason: Replaced})
				return
			}
			if r.owner == "" && f.owner != r.attempt {
				h.log.InfoContext(ctx, "script was begun before; attaching to it", "script", r.script.Name)
			}
			r.owner, r.boot = f.owner, f
		case "end":
			f, err := parseEnd(words)
			switch {
			case err != nil:
				refuse(err)
			case f.size > r.offset: // not all of the log came
				x.answer("")
			default:
				end = &f
				x.answer("delivered\n")
			}
		case "absent":
			refuse(&InterruptedError{Script: r.script.Name, Reason: Vanished})
		case "fail":
			refuse(fmt.Errorf("script %s on %s: %s", r.script.Name, h.config.Target, h.masks.String(strings.Join(words[1:], " "))))
		default:
			refuse(fmt.Errorf("script %s: %s answers %q, which means nothing", r.script.Name, h.config.Target, h.masks.String(words[0])))
		}
	}
	r.begun = true
	err := h.do(ctx, x)
	var exit *ExitError
	switch {
	case failure != nil:
		return endFrame{}, failure
	case end != nil:
		return *end, nil
	case errors.As(err, &exit): // the shell was killed, as in a shutdown
		err = &lostError{err}
	case err == nil:
		err = &lostError{errors.New("the session ended early")}
	}
	return endFrame{}, err
}

// program is session.sh with its values and one call.
func (r *run) program(mark string, supervise int, call string) string {
	h := r.host
	target := r.owner
	if target == "" {
		target = r.attempt
	}
	return fmt.Sprintf("steps=%s\nid=%s\nattempt=%s\ntarget=%s\nmark=%s\noffset=%d\nboot_file=%s\nsupervise_size=%d\nscript_size=%d\nstdin_size=%d\ngrace=%d\nkept=%d\n%s\n%s",
		quote(h.config.StateDir), quote(r.script.ID), r.attempt, quote(target), mark, r.offset, quote(h.config.BootIDFile),
		supervise, len(r.script.Body), len(r.script.Stdin), seconds(h.config.Grace), keptSteps, sessionProgram, call)
}

// supervise is supervise.bash with its values.
func (r *run) supervise() string {
	h := r.host
	var b strings.Builder
	fmt.Fprintf(&b, "dir=%s\nattempt=%s\nboot_file=%s\nlimit=%d\ngrace=%d\nlog_kilobytes=%d\ntail_bytes=%d\n",
		quote(h.config.StateDir+"/"+r.script.ID), r.attempt, quote(h.config.BootIDFile), seconds(r.script.Timeout),
		seconds(h.config.Grace), (h.config.LogLimit+1023)/1024, tailBytes)
	for _, name := range slices.Sorted(maps.Keys(r.script.Env)) {
		fmt.Fprintf(&b, "export %s=%s\n", name, quote(r.script.Env[name]))
	}
	b.WriteString(superviseProgram)
	return b.String()
}

// seconds is d rounded up.
func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

// result is what the end of the run means.
func (r *run) result(end endFrame) error {
	switch end.reason {
	case "exited":
		if end.code == 0 {
			return nil
		}
		return exitError(r.script.Name, end.code, nil)
	case "timeout":
		return &TimeoutError{Script: r.script.Name, After: r.script.Timeout}
	case "stopped":
		return &InterruptedError{Script: r.script.Name, Reason: Stopped}
	}
	if r.boot.boot != r.boot.now {
		return &InterruptedError{Script: r.script.Name, Reason: Rebooted}
	}
	return &InterruptedError{Script: r.script.Name, Reason: Vanished}
}

// stop kills the script's processes since ctx has ended. It waits for the time
// that they have to end, and as long again for the host to be reached.
func (r *run) stop(ctx context.Context) error {
	cause := fmt.Errorf("script %s: %w", r.script.Name, context.Cause(ctx))
	if !r.begun {
		return cause
	}
	h := r.host
	bound := 2 * (h.config.Grace + 10*time.Second)
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), bound, fmt.Errorf("%s is unreachable", h.config.Target))
	defer cancel()
	for {
		stopped := false
		mark := rand.Text()
		x := &exchange{program: r.program(mark, 0, "stop"), out: newStream(mark)}
		x.out.frame = func(words []string) { stopped = words[0] == "stopped" }
		err := h.do(ctx, x)
		if stopped {
			return fmt.Errorf("%w; it was stopped on the host", cause)
		}
		var lost *lostError
		if err == nil {
			err = fmt.Errorf("%s cannot kill it", h.config.Target)
		} else if errors.As(err, &lost) && pause(ctx, h.config.Backoff) == nil {
			continue
		}
		return fmt.Errorf("%w; it may go on: %w", cause, h.masked(err))
	}
}
