package runcmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/progress"
	"github.com/kubeopera/platform/shared/api"
)

// endError is nil for a run that has succeeded.
func (k *Kind[Run, S]) endError(run Run) error {
	switch v := k.View(run); v.Status {
	case api.StatusFailed:
		return &exit.Error{Code: exit.RunFailed, Err: fmt.Errorf("run %s failed: %s (%s)\n  log: kubeopera %s logs %s", v.ID, v.Message, v.ErrorCode, k.Command, v.ID)}
	case api.StatusCancelled:
		return &exit.Error{Code: exit.RunCancelled, Err: fmt.Errorf("run %s was cancelled", v.ID)}
	case api.StatusSucceeded, api.StatusQueued, api.StatusRunning, api.StatusCancelling:
	}
	return nil
}

// wait shows a run until it has ended.
func (k *Kind[Run, S]) wait(ctx context.Context, s S, run Run, f *following) (Run, error) {
	limited, cancel := TimeLimit(ctx, f.timeout)
	defer cancel()
	d, v := progress.On(*k.Terminal, f.quiet), k.View(run)
	if v.StartedAt != nil {
		// What was before; without it, the picture begins with what is.
		if events, err := s.Events(limited, v.ID); err == nil {
			d.Seed(events)
		}
	}
	var last Run
	err := d.Run(func(show func(progress.Run)) (err error) {
		last, err = s.Wait(limited, v.ID, func(run Run) { show(k.View(run).Run) })
		return err
	})
	switch {
	case err == nil:
		return last, nil
	case errors.Is(context.Cause(limited), ErrTimeout):
		return last, &exit.Error{Code: exit.NotFinished, Err: fmt.Errorf("run %s has not ended within %s; %s", v.ID, f.timeout, k.goOn(v.ID))}
	case ctx.Err() != nil:
		return last, &exit.Error{Code: exit.Interrupted, Err: fmt.Errorf("run %s was not waited for any longer; %s", v.ID, k.goOn(v.ID))}
	}
	return last, err
}

func (k *Kind[Run, S]) goOn(id string) string {
	return fmt.Sprintf("it goes on\n  watch:  kubeopera %[1]s get %[2]s --wait\n  cancel: kubeopera %[1]s cancel %[2]s", k.Command, id)
}
