package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"time"

	"github.com/kubeopera/platform/shared/api"
)

const (
	// longPoll is how long the service is asked to hold an answer; attemptTimeout
	// is above it.
	longPoll = 30 * time.Second
	// defaultPoll is the time between two looks at a run where there is no long
	// poll, unless the service asks for another with Retry-After.
	defaultPoll = time.Second
	// patience is how long a wait goes on without an answer, once it had one: a
	// run goes on while the service restarts.
	patience = 2 * time.Minute
)

// Wait looks at a run until its status is final and returns it, succeeded or
// not. It calls progress, unless that is nil, with the run as it is first and
// whenever it has changed. It outlasts restarts of the service. When ctx ends it
// returns the run as it was last seen, which goes on.
func (c runs[Run]) Wait(ctx context.Context, id string, progress func(Run)) (Run, error) {
	var last look[Run]
	answered, mode := time.Now(), longPolls
	for {
		asked := time.Now()
		now, err := c.look(ctx, id, last, mode)
		pause := defaultPoll
		switch {
		case err == nil:
			answered = time.Now()
			if now.changed && progress != nil {
				progress(now.run)
			}
			if final(c.status(now.run)) {
				return now.run, nil
			}
			switch {
			case mode != polls && (now.changed && now.etag != "" || time.Since(asked) >= longPoll/2):
				pause = 0 // the service holds the next answer
			case now.retryAfter > 0:
				pause = min(now.retryAfter, maxRetryAfter)
			}
			last = now
			if mode == pollsOnce {
				mode = longPolls
			}
		case !last.seen || ctx.Err() != nil || time.Since(answered) > patience:
			return last.run, err
		case Code(err) == codeTooManyWaiters:
			mode = pollsOnce
		case mode == longPolls && refused(err):
			mode = polls // a service that does not know of it
		case !passing(err):
			return last.run, err
		}
		if err := sleep(ctx, pause); err != nil {
			return last.run, err
		}
	}
}

// mode is how Wait asks.
type mode int

const (
	longPolls mode = iota
	pollsOnce
	polls
)

// look is a run as it was seen.
type look[Run any] struct {
	run        Run
	seen       bool
	changed    bool          // since the look before
	etag       string        // empty if the service has none
	retryAfter time.Duration // negative if the service does not say
}

// look gets a run, by long poll once there is something to compare with.
func (c runs[Run]) look(ctx context.Context, id string, last look[Run], m mode) (look[Run], error) {
	r := get(c.many, id)
	if last.etag != "" {
		r.header = http.Header{"If-None-Match": {last.etag}}
		if m == longPolls {
			r.query = url.Values{"wait": {longPoll.String()}}
		}
	}
	now := look[Run]{seen: true}
	header, err := c.service.json(ctx, r, &now.run)
	if same, ok := errors.AsType[*unchangedError](err); ok {
		last.changed, last.retryAfter = false, retryAfter(same.header)
		return last, nil
	}
	if err != nil {
		return look[Run]{}, fmt.Errorf("get %s %s: %w", c.one, id, err)
	}
	now.changed = !last.seen || !reflect.DeepEqual(now.run, last.run)
	now.etag, now.retryAfter = header.Get("ETag"), retryAfter(header)
	return now, nil
}

// refused is true if the request was no good.
func refused(err error) bool {
	return Status(err) == http.StatusBadRequest || Status(err) == http.StatusUnprocessableEntity
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
