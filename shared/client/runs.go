package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/kubeopera/platform/shared/api"
)

// runs is what a service can do with its runs, whatever they are about.
type runs[Run any] struct {
	service *service
	key     string // idempotency key of the next run; empty for one of its own
	one     string // such as provision, for errors
	many    string // such as provisions, for paths
	status  func(Run) api.Status
}

// withKey is the same with an idempotency key.
func (c runs[Run]) withKey(key string) runs[Run] {
	c.key = key
	return c
}

// begin sends what begins a run. Under its key the service begins one run however
// often it is sent. verb is for errors.
func (c runs[Run]) begin(ctx context.Context, verb, method string, in any, path ...string) (Run, error) {
	var run, none Run
	fail := func(err error) (Run, error) {
		if len(path) > 0 {
			return none, fmt.Errorf("%s %s %s: %w", verb, c.one, path[0], err)
		}
		return none, fmt.Errorf("%s %s: %w", verb, c.one, err)
	}
	r := request{method: method, path: append([]string{c.many}, path...), repeatable: true, header: http.Header{"Idempotency-Key": {c.key}}}
	if c.key == "" {
		r.header.Set("Idempotency-Key", uuid.NewString())
	}
	if in != nil {
		body, err := json.Marshal(in)
		if err != nil {
			return fail(err)
		}
		r.body = body
	}
	if _, err := c.service.json(ctx, r, &run); err != nil {
		return fail(err)
	}
	return run, nil
}

// cancel asks a run to stop and returns it as it is then.
func (c runs[Run]) cancel(ctx context.Context, id string, force bool) (Run, error) {
	var run, none Run
	body, err := json.Marshal(api.CancelRequest{Force: force})
	if err != nil {
		return none, fmt.Errorf("cancel %s %s: %w", c.one, id, err)
	}
	var repeated bool
	r := request{method: http.MethodPost, path: []string{c.many, id, "cancel"}, body: body, repeatable: true, repeated: &repeated}
	_, err = c.service.json(ctx, r, &run)
	if repeated && Code(err) == codeRunEnded {
		// The attempt whose answer was lost may have been what ended it.
		if run, get := c.get(ctx, id); get == nil && c.status(run) == api.StatusCancelled {
			return run, nil
		}
	}
	if err != nil {
		return none, fmt.Errorf("cancel %s %s: %w", c.one, id, err)
	}
	return run, nil
}

func (c runs[Run]) get(ctx context.Context, id string) (Run, error) {
	var run, none Run
	if _, err := c.service.json(ctx, get(c.many, id), &run); err != nil {
		return none, fmt.Errorf("get %s %s: %w", c.one, id, err)
	}
	return run, nil
}

func (c runs[Run]) events(ctx context.Context, id string) ([]api.Event, error) {
	var list api.EventList
	if _, err := c.service.json(ctx, get(c.many, id, "events"), &list); err != nil {
		return nil, fmt.Errorf("events of %s %s: %w", c.one, id, err)
	}
	return list.Events, nil
}

// ListOptions selects runs; the zero value is the first page of all of them.
type ListOptions struct {
	Status        api.Status
	Environment   string
	Operation     api.Operation
	CreatedAfter  time.Time
	CreatedBefore time.Time
	Limit         int    // runs of a page; 0 for the service's default
	Cursor        string // NextCursor of the page before
}

func (o ListOptions) query() url.Values {
	query := url.Values{}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	set("status", string(o.Status))
	set("environment", o.Environment)
	set("operation", string(o.Operation))
	set("cursor", o.Cursor)
	if !o.CreatedAfter.IsZero() {
		set("created_after", o.CreatedAfter.UTC().Format(time.RFC3339Nano))
	}
	if !o.CreatedBefore.IsZero() {
		set("created_before", o.CreatedBefore.UTC().Format(time.RFC3339Nano))
	}
	if o.Limit != 0 {
		query.Set("limit", strconv.Itoa(o.Limit))
	}
	return query
}

// list reads one page into what a list of such runs looks like.
func (c runs[Run]) list(ctx context.Context, o ListOptions, into any) error {
	r := get(c.many)
	r.query = o.query()
	if _, err := c.service.json(ctx, r, into); err != nil {
		return fmt.Errorf("list %s: %w", c.many, err)
	}
	return nil
}

// all goes through the pages of runs from o on. An error is the last element.
func all[Run any](o ListOptions, page func(ListOptions) (list []Run, next string, err error)) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		for {
			list, next, err := page(o)
			if err != nil {
				var none Run
				yield(none, err)
				return
			}
			for _, run := range list {
				if !yield(run, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			if next == o.Cursor { // it would go on for ever
				var none Run
				yield(none, errors.New("list: the service gives the same page again and again"))
				return
			}
			o.Cursor = next
		}
	}
}

// LogOptions selects what Logs gives; the zero value is the whole log so far.
type LogOptions struct {
	Follow bool // stay until the run has ended
	Tail   int  // only so many of the last lines; 0 for all
}

// Logs is a run's log as one answer gives it. The caller closes it. A reader that
// ends in an error other than io.EOF has not seen all of it; FollowLogs goes on then.
func (c runs[Run]) Logs(ctx context.Context, id string, o LogOptions) (io.ReadCloser, error) {
	query := url.Values{}
	if o.Follow {
		query.Set("follow", "true")
	}
	if o.Tail != 0 {
		query.Set("tail", strconv.Itoa(o.Tail))
	}
	var log io.ReadCloser
	r := get(c.many, id, "logs")
	r.query, r.accept, r.stream = query, "text/plain", true
	err := c.service.do(ctx, r, func(res *http.Response) error {
		log = res.Body
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("logs of %s %s: %w", c.one, id, err)
	}
	return log, nil
}

// output is what a run has made.
func (c runs[Run]) output(ctx context.Context, id, name, accept string, query url.Values) ([]byte, error) {
	r := get(c.many, id, name)
	r.query, r.accept = query, accept
	data, _, err := c.service.bytes(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%s of %s %s: %w", name, c.one, id, err)
	}
	return data, nil
}
