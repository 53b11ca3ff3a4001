package terraform

import (
	"fmt"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/tfrunner/internal/events"
)

// Error is a command that did not succeed.
type Error struct {
	Verb string
	// Diagnostic is the first error that Terraform reported; nil if it reported none.
	Diagnostic *events.Diagnostic
	// Lock is who holds the state's lock, if that is what went wrong.
	Lock *api.StateLock
	// Interrupted says that the context had ended.
	Interrupted bool
	// Killed says that the process was killed, by us or for want of memory.
	Killed bool
	// Unsaved is the state that Terraform left in the working folder because it
	// could not save it; nil if it did save it.
	Unsaved []byte
	// LockLeft says that Terraform could not release its own lock.
	LockLeft bool
	// LockUnsure says that Terraform may have taken the lock without being told.
	LockUnsure bool

	text string
}

// Error is Terraform's own sentence, where it said one.
func (e *Error) Error() string { return "terraform " + e.Verb + ": " + e.Reason() }

// Began says whether the command may have done anything: not without the lock.
func (e *Error) Began() bool { return e.Lock == nil && !e.LockUnsure }

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
	lock    *api.StateLock
	left    bool
	unsure  bool
	applied bool
	unsaved []byte
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
	o.unsure = o.unsure || d.LockUnsure()
	if o.first == nil {
		o.first = d
	}
	if lock, ok := d.Lock(); ok && o.lock == nil {
		o.lock = &lock
	}
}

// err is nil for a success.
func (o *outcome) err() error {
	if o.cause == nil && o.unsaved == nil {
		return nil
	}
	e := &Error{
		Verb:        o.verb,
		Diagnostic:  o.first,
		Lock:        o.lock,
		Interrupted: o.ctx != nil,
		Killed:      killed(o.cause),
		Unsaved:     o.unsaved,
		LockLeft:    o.left,
		LockUnsure:  o.unsure,
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
