package runs

import (
	"errors"
	"fmt"

	"github.com/kubeopera/platform/shared/api"
)

// What callers branch on.
var (
	// ErrNotFound means that there is no such run, or no such output of it.
	ErrNotFound = errors.New("not found")
	// ErrConflict means that the stored state does not allow what was asked.
	ErrConflict = errors.New("conflict")
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
