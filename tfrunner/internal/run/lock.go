package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/tfrunner/internal/statebucket"
	"github.com/kubeopera/platform/tfrunner/internal/terraform"
)

// Locks is the lock of the Terraform state.
type Locks interface {
	// Lock reads the lock; nil: the state is not locked.
	Lock(ctx context.Context) (*statebucket.Lock, error)
	// Unlock removes a lock, unless another one has taken its place since.
	Unlock(ctx context.Context, l statebucket.Lock) (removed bool, err error)
}

// lockPoll is how often a lock that somebody holds is looked at.
const lockPoll = 2 * time.Second

// preflight makes sure that the state is not locked, before anything is done that
// would only find that out later. A stale lock goes; for any other it waits as
// long as Terraform would.
func (r *terraformRun) preflight(ctx context.Context) error {
	deadline := r.Now().Add(r.LockTimeout)
	for waiting := false; ; waiting = true {
		lock, err := r.objects.Lock(ctx)
		if err != nil {
			return r.failed(ctx, runcontract.CodeStateBucket, "look at the lock of the state", err)
		}
		if lock == nil {
			return nil
		}
		why := r.stale(lock.StateLock)
		switch {
		case why != "":
			if _, err := r.remove(ctx, *lock, why); err != nil {
				f := r.locked(lock.StateLock)
				f.Message += ": its holder has ended, but the lock cannot be removed: " + err.Error()
				return f
			}
			continue // it is gone, or another one has taken its place
		case !r.Now().Add(lockPoll).Before(deadline):
			f := r.locked(lock.StateLock)
			f.Message += whatToDo(lock.StateLock)
			return f
		}
		if !waiting {
			r.Say(r.locked(lock.StateLock).Message + ": waiting")
			r.Log.Printf("%s: waiting for %s", r.locked(lock.StateLock).Message, r.LockTimeout)
			r.Report()
		}
		select {
		case <-ctx.Done():
			return r.failed(ctx, runcontract.CodeStateLocked, "wait for the lock of the state", context.Cause(ctx))
		case <-time.After(lockPoll):
		}
	}
}

// remove removes a stale lock as it was seen: one that was taken since stays.
func (r *terraformRun) remove(ctx context.Context, lock statebucket.Lock, why string) (removed bool, err error) {
	if removed, err = r.objects.Unlock(ctx, lock); removed {
		r.Log.Printf("removed the stale lock %s of the state, taken by %s: %s", lock.ID, holder(lock.StateLock), why)
	}
	return removed, err
}

const ownLock = "it is this run's own, and no Terraform of it is running"

// stale says why nobody works under a lock any more; empty if that is not known.
// No Terraform of this run may be alive.
func (r *terraformRun) stale(l api.StateLock) string {
	if r.own(l) {
		return ownLock
	}
	for _, id := range r.Spec.EndedRuns {
		// A pod of the Job <kind>-<id> is called <kind>-<id>-<suffix>.
		if id != "" && id != r.Spec.ID && strings.HasPrefix(statebucket.Host(l), runcontract.JobName(r.Spec.Kind, id)+"-") {
			return "run " + id + " has ended"
		}
	}
	return ""
}

// own tells whether a lock was taken in this pod.
func (r *terraformRun) own(l api.StateLock) bool { return r.Pod != "" && statebucket.Host(l) == r.Pod }

// underLock does what takes the lock. If the answer to taking it was lost,
// Terraform gives up, or asks again, meets its own lock and gives up then. Either
// way it has done nothing: the lock goes, and it is done once more.
func (r *terraformRun) underLock(ctx context.Context, do func(context.Context) error) error {
	err := do(ctx)
	if tf, ok := errors.AsType[*terraform.Error](err); ok && !tf.Began() && ctx.Err() == nil && r.removeOwn(ctx) {
		r.Log.Printf("once more")
		return do(ctx)
	}
	return err
}

// removeOwn removes the lock if it is this run's own; no Terraform of it may be alive.
func (r *terraformRun) removeOwn(ctx context.Context) (removed bool) {
	ctx, cancel := r.aftermath(ctx, unlockTimeout)
	defer cancel()
	lock, err := r.objects.Lock(ctx)
	if err == nil && lock != nil && r.own(lock.StateLock) {
		removed, err = r.remove(ctx, *lock, ownLock)
	}
	if err != nil {
		r.Log.Printf("warning: the lock of the state: %v", err)
	}
	return removed
}

// locked is the failure of a run that meets a lock.
func (r *terraformRun) locked(l api.StateLock) *StepError {
	f := &StepError{Code: runcontract.CodeStateLocked, Lock: &l}
	since := ""
	if !l.Created.IsZero() {
		since = " since " + l.Created.Format("2006-01-02 15:04:05 MST")
	}
	f.Message = fmt.Sprintf("the Terraform state is locked by %s%s (lock id %s)", holder(l), since, l.ID)
	if l.ID == "" {
		f.Message = "the Terraform state is locked by something that is no lock of Terraform's: " + r.lockObject()
	}
	return f
}

func whatToDo(l api.StateLock) string {
	if l.ID == "" {
		return "; delete it once it is known that nobody works on the state"
	}
	return "; wait until that has ended, or, if it is gone for good, remove the lock with the operation unlock; then start the run again"
}

func holder(l api.StateLock) string {
	if l.Who == "" {
		return "somebody unknown"
	}
	return l.Who
}

// lockObject is where S3 keeps the lock of the state.
func (r *terraformRun) lockObject() string {
	return statebucket.LockKey(r.Spec.State.Key) + " in the bucket " + r.Spec.State.Bucket
}

// unlock removes the lock that the caller names, and no other.
func (r *terraformRun) unlock(ctx context.Context) error {
	if _, _, err := r.prepareState(ctx, false); err != nil {
		return err
	}
	r.Enter(api.PhaseUnlock)
	if r.objects == nil {
		r.Say("there is no state, hence no lock")
		return nil
	}
	for {
		lock, err := r.objects.Lock(ctx)
		switch {
		case err != nil:
			return r.failed(ctx, runcontract.CodeStateBucket, "look at the lock of the state", err)
		case lock == nil:
			r.Say("the state is not locked")
			return nil
		case lock.ID != r.Spec.LockID:
			f := r.locked(lock.StateLock)
			f.Code = runcontract.CodeUnlockRefused
			f.Message += ", and that is not the lock " + r.Spec.LockID + ": nothing was removed"
			return f
		}
		removed, err := r.objects.Unlock(ctx, *lock)
		if err != nil {
			return r.failed(ctx, runcontract.CodeUnlockRefused, "remove the lock", err)
		}
		if removed {
			r.Say(fmt.Sprintf("removed the lock %s, taken by %s", lock.ID, holder(lock.StateLock)))
			return nil
		}
	}
}
