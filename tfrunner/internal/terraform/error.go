package terraform

import (
	"fmt"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/tfrunner/internal/events"
)

// Error is a command that did not succeed.
type Error struct {
	Verb string
	// Diagnostic is the first error that Terraform reported; nil if it reported none.
	Diagnostic *events.Diagnostic
	// Lock is who holds the state's lock, if that is what went wrong.
	Lock *runcontract.Lock
	// Interrupted says that the context had ended.
	Interrupted bool
	// Killed says that the process was killed, by us or for want of memory.
	Killed bool
	// Rescue says that Terraform left a state in the working folder that it could not save.
	Rescue bool
	// LockLeft says that Terraform could not release its own lock.
	LockLeft bool

	text string
}

// Error is Terraform's own sentence, where it said one.
func (e *Error) Error() string { return "terraform " + e.Verb + ": " + e.Reason() }

// Reason is what went wrong, without the command.
func (e *Error) Reason() string {
	switch {
	case e.Diagnostic != nil:
		return e.Diagnostic.Line()
	case e.Killed:
		return "the process was killed"
	case e.Interrupted:
		return "interrupted"
	}
	return e.text
}

// outcome is what is known of a command that has ended.
type outcome struct {
	verb    string
	ctx     error // why the context ended; nil if it did not
	cause   error // what terraform-exec returned; its text must not be used if ctx is set
	stderr  string
	first   *events.Diagnostic
	lock    *runcontract.Lock
	left    bool
	applied bool
	rescue  bool
}

func (o *outcome) observe(e events.Event) {
	if s := e.Summary; s != nil && s.Operation != events.OperationPlan {
		o.applied = true
	}
	d := e.Diagnostic
	if d == nil || !d.Error {
		return
	}
	o.left = o.left || d.LockLeft()
	if o.first == nil {
		o.first = d
	}
	if lock, ok := d.Lock(); ok && o.lock == nil {
		o.lock = &lock
	}
}

// err is nil for a success.
func (o *outcome) err() error {
	if o.cause == nil && !o.rescue {
		return nil
	}
	e := &Error{
		Verb:        o.verb,
		Diagnostic:  o.first,
		Lock:        o.lock,
		Interrupted: o.ctx != nil,
		Killed:      killed(o.cause),
		Rescue:      o.rescue,
		LockLeft:    o.left,
	}
	switch {
	case o.stderr != "":
		e.text = o.stderr
	case o.ctx != nil:
		// terraform-exec's error for a cancelled command may have nothing inside
		// and then panics when it is printed.
		e.text = "interrupted"
	default:
		e.text = fmt.Sprintf("%v", o.cause)
	}
	return e
}
