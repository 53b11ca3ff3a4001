package runs

import (
	"errors"
	"fmt"
	"time"

	"github.com/kubeopera/platform/shared/api"
)

// What callers branch on.
var (
	// ErrNotFound means that there is no such run, or no such output of it.
	ErrNotFound = errors.New("not found")
	// ErrConflict means that the stored state does not allow what was asked.
	ErrConflict = errors.New("conflict")
	// ErrKeyReused means that an idempotency key came back with another request.
	ErrKeyReused = errors.New("idempotency key reused with another request")
	// ErrNoSlot means that as many runs are at work as may be.
	ErrNoSlot = errors.New("no free slot")
	// ErrTooManyWaiters means that as many callers wait for runs as may do so.
	ErrTooManyWaiters = errors.New("too many callers wait for runs")
	// ErrTooManyFollowers means that as many callers follow logs as may do so.
	ErrTooManyFollowers = errors.New("too many callers follow logs")
	// ErrNoLogs means that a run has no log: not yet, or it never began.
	ErrNoLogs = errors.New("no log")
	// ErrDatabase means that the database failed.
	ErrDatabase = errors.New("database")
	// ErrKubernetes means that the Kubernetes API failed.
	ErrKubernetes = errors.New("kubernetes")
)

// What a Cluster says about a launch, by what to do next. Any other error means:
// try again at the next sweep.
var (
	// ErrWait means that the launch was refused for now, by a quota; the run
	// keeps its place in the queue.
	ErrWait = errors.New("wait")
	// ErrRefused means that the launch was refused by a rule or a missing right;
	// the run fails if that is still so after the start deadline.
	ErrRefused = errors.New("refused")
	// ErrGiveUp means that the launch would be refused every time.
	ErrGiveUp = errors.New("give up")
)

// BusyError says which live run holds an environment. It matches ErrConflict.
type BusyError struct {
	Environment string
	Holder      ID
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("environment %q is held by the live run %s", e.Environment, e.Holder)
}

// Is makes a BusyError match ErrConflict.
func (e *BusyError) Is(target error) bool { return target == ErrConflict }

// TransitionError is a change of status that the table does not allow. It
// matches ErrConflict.
type TransitionError struct {
	From, To api.Status
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("a %s run cannot become %s", e.From, e.To)
}

// Is makes a TransitionError match ErrConflict.
func (e *TransitionError) Is(target error) bool { return target == ErrConflict }

// EndedError says that a run has ended, so that it cannot be cancelled. It
// matches ErrConflict.
type EndedError struct {
	ID     ID
	Status api.Status
}

func (e *EndedError) Error() string { return fmt.Sprintf("run %s has ended: it is %s", e.ID, e.Status) }

// Is makes an EndedError match ErrConflict.
func (e *EndedError) Is(target error) bool { return target == ErrConflict }

// TooEarlyError says that a run may not be killed yet. It matches ErrConflict.
type TooEarlyError struct {
	ID ID
	// NotBefore is when it may be; zero if it was not cancelled gracefully first.
	NotBefore time.Time
}

func (e *TooEarlyError) Error() string {
	if e.NotBefore.IsZero() {
		return fmt.Sprintf("run %s was not asked to stop yet; cancel it without force first", e.ID)
	}
	return fmt.Sprintf("run %s has time to save its work until %s", e.ID, e.NotBefore.Format(time.RFC3339))
}

// Is makes a TooEarlyError match ErrConflict.
func (e *TooEarlyError) Is(target error) bool { return target == ErrConflict }
