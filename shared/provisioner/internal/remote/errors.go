package remote

import (
	"fmt"
	"strings"
	"time"
)

// AuthError is a login that was refused, or a key that cannot be used. Trying
// again is of no use.
type AuthError struct {
	Target string
	User   string
	Hint   string // what to do
	Err    error
}

func (e *AuthError) Error() string {
	return fmt.Sprintf("log in to %s as %q: %v; %s", e.Target, e.User, e.Err, e.Hint)
}

// Unwrap is the cause.
func (e *AuthError) Unwrap() error { return e.Err }

// HostKeyError is a host whose key is unknown, or not the one that it should be.
// Trying again is of no use.
type HostKeyError struct {
	Target string
	// Fingerprint is of the key that the host presented, as ssh-keygen -l prints
	// it (SHA256:…); empty if it has none of the kinds that are known.
	Fingerprint string
	Hint        string // what to do
	Err         error
}

func (e *HostKeyError) Error() string {
	presented := ""
	if e.Fingerprint != "" {
		presented = " (the host presented " + e.Fingerprint + ")"
	}
	return fmt.Sprintf("host key of %s: %v%s; %s", e.Target, e.Err, presented, e.Hint)
}

// Unwrap is the cause.
func (e *HostKeyError) Unwrap() error { return e.Err }

// UnreachableError is a host that could not be talked to, after all attempts. A
// script that was begun may still run there: Run with the same ID finds it.
type UnreachableError struct {
	Target   string
	Attempts int
	Err      error // the last attempt's
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("%s is unreachable (attempts: %d): %v", e.Target, e.Attempts, e.Err)
}

// Unwrap is the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// PrivilegeError is a user who cannot become root without a password.
type PrivilegeError struct {
	Target string
	User   string
	Detail string // what sudo said
}

func (e *PrivilegeError) Error() string {
	return fmt.Sprintf("become root on %s: sudo refuses %q: %s; allow it without a password (NOPASSWD: ALL in sudoers, no requiretty), or log in as root",
		e.Target, e.User, e.Detail)
}

// TimeoutError is a script that took longer than Script.Timeout. Its processes
// were killed on the host.
type TimeoutError struct {
	Script string
	After  time.Duration
	Tail   []string // last lines of its output, masked
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("script %s: killed on the host after %s%s", e.Script, e.After, lastLine(e.Tail))
}

// Interruption is why a run has no result.
type Interruption string

// The interruptions.
const (
	Rebooted Interruption = "the host was rebooted in the middle of it"
	Vanished Interruption = "its processes ended without a result"
	Stopped  Interruption = "another client stopped it"
	Replaced Interruption = "another client's run took its place"
)

// InterruptedError is a run that nobody knows the result of. What it did until
// then is done. The next Run with its ID runs the script again.
type InterruptedError struct {
	Script string
	Reason Interruption
	Tail   []string // last lines of its output, masked
}

func (e *InterruptedError) Error() string {
	return fmt.Sprintf("script %s was interrupted: %s%s", e.Script, e.Reason, lastLine(e.Tail))
}

// Class is what an exit code stands for; the codes are those of holodeck's
// scripts.
type Class string

// The classes.
const (
	ClassOther        Class = ""
	ClassInput        Class = "input"        // 2
	ClassDependency   Class = "dependency"   // 4
	ClassVerification Class = "verification" // 5
	ClassDriver       Class = "driver"       // 10
	ClassRuntime      Class = "runtime"      // 11
	ClassToolkit      Class = "toolkit"      // 12
	ClassKubernetes   Class = "kubernetes"   // 13
)

// ExitError is a script or command that ended with a status other than 0.
type ExitError struct {
	Script string
	Code   int // 128 + n for signal n
	Class  Class
	Line   int      // of the script where it failed, 0 if it did not say
	Tail   []string // last lines of its output, masked
	Hint   string   // what to do; may be empty
	// Earlier means that an earlier call began the run: it may have failed long ago,
	// and by what is different now.
	Earlier bool
}

func (e *ExitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s ended with status %d", e.Script, e.Code)
	if e.Class != ClassOther {
		fmt.Fprintf(&b, " (%s)", e.Class)
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, " at line %d", e.Line)
	}
	b.WriteString(lastLine(e.Tail))
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

func lastLine(tail []string) string {
	if len(tail) == 0 {
		return ""
	}
	return ": " + tail[len(tail)-1]
}

// exitError classifies a status.
func exitError(script string, code int, tail []string) *ExitError {
	e := &ExitError{Script: script, Code: code, Tail: tail, Line: failedLine(tail)}
	switch code {
	case 2:
		e.Class, e.Hint = ClassInput, "correct the environment: this host cannot do what it asks for"
	case 4:
		e.Class, e.Hint = ClassDependency, "see that the host reaches its package sources and that no other installation is at work"
	case 5:
		e.Class, e.Hint = ClassVerification, "what was installed does not work as asked for; its log on the host says why"
	case 10:
		e.Class, e.Hint = ClassDriver, "see that the driver's version supports this GPU and this kernel"
	case 11:
		e.Class, e.Hint = ClassRuntime, "see the log of the container runtime's service on the host"
	case 12:
		e.Class, e.Hint = ClassToolkit, "see that the toolkit's version supports the container runtime"
	case 13:
		e.Class, e.Hint = ClassKubernetes, "see the log of kubelet on the host"
	case 126, 127:
		e.Hint = "a command is missing on the host"
	case 137:
		e.Hint = "something killed it, perhaps for want of memory"
	}
	return e
}
