package client

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/kubeopera/platform/shared/api"
)

const (
	// defaultPoll is the time between two looks at a run, unless the service asks
	// for another with Retry-After.
	defaultPoll = time.Second
	// patience is how long Wait goes on without an answer, once it had one: a run
	// goes on while the service restarts.
	patience = 2 * time.Minute
)

// Wait looks at a run until its status is final and returns it, succeeded or
// not. It calls progress, unless that is nil, with the run as it is first and
// whenever it has changed.
func (c *Provisioner) Wait(ctx context.Context, id string, progress func(api.Provision)) (api.Provision, error) {
	var last api.Provision
	seen, answered := false, time.Now()
	for {
		run, header, err := c.provision(ctx, id)
		pause := defaultPoll
		switch {
		case err == nil:
			answered = time.Now()
			if progress != nil && (!seen || !reflect.DeepEqual(run, last)) {
				progress(run)
			}
			last, seen = run, true
			if final(run.Status) {
				return run, nil
			}
			if wish := retryAfter(header); wish > 0 {
				pause = min(wish, maxRetryAfter)
			}
		case !seen || !passing(err) || ctx.Err() != nil || time.Since(answered) > patience:
			return last, err
		}
		if err := sleep(ctx, pause); err != nil {
			return last, err
		}
	}
}

// passing is true for errors that a service which starts again gets over.
func passing(err error) bool {
	p, ok := errors.AsType[*api.Problem](err)
	return !ok || p.Status == http.StatusTooManyRequests || p.Status >= http.StatusInternalServerError
}

// final is true for statuses that never change.
func final(s api.Status) bool {
	switch s {
	case api.StatusSucceeded, api.StatusFailed, api.StatusCancelled:
		return true
	case api.StatusQueued, api.StatusRunning, api.StatusCancelling:
	}
	return false
}
