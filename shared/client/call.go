package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/kubeopera/platform/shared/api"
)

const (
	attempts = 4
	// firstPause is doubled from one attempt to the next; half of it is random,
	// so that clients that failed together do not come back together.
	firstPause = 200 * time.Millisecond
	// maxRetryAfter is how long a call waits because the service says so.
	maxRetryAfter = 30 * time.Second
	// attemptTimeout bounds one attempt, except the reading of a stream.
	attemptTimeout = 60 * time.Second
	// maxAnswer bounds what is read of an answer, in bytes. A page of 200 runs has
	// about 200 kB.
	maxAnswer = 8 << 20
)

// request is one call of an operation.
type request struct {
	method string
	path   []string // elements below /api/v1, not escaped
	query  url.Values
	accept string
	header http.Header // in addition to those of every request
	body   []byte      // JSON, nil for none
	stream bool        // reading the answer may take for ever
	// repeatable is true for a request that may be sent again when its answer is
	// lost: it reads, or carries an idempotency key, or does nothing when it has
	// been carried out already.
	repeatable bool
	// repeated, unless nil, is set before a second attempt.
	repeated *bool
}

func get(path ...string) request {
	return request{method: http.MethodGet, path: path, repeatable: true}
}

// json calls an operation and reads its answer into out.
func (s *service) json(ctx context.Context, r request, out any) (http.Header, error) {
	r.accept = "application/json"
	data, header, err := s.bytes(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return header, nil
}

// bytes calls an operation and reads its whole answer.
func (s *service) bytes(ctx context.Context, r request) (data []byte, header http.Header, err error) {
	err = s.do(ctx, r, func(res *http.Response) (err error) {
		defer func() { _ = res.Body.Close() }() // only read from
		header = res.Header
		data, err = readAll(res.Body)
		return err
	})
	return data, header, err
}

// do calls an operation until there is an answer that is worth returning. take
// gets a success within the attempt, so that an answer that breaks off counts as
// a failed one, and is responsible for its body.
func (s *service) do(ctx context.Context, r request, take func(*http.Response) error) error {
	pause := firstPause
	for attempt := 1; ; attempt++ {
		err := s.attempt(ctx, r, take)
		if err == nil {
			return nil
		}
		wait, again := retry(r.repeatable, err)
		if !again || attempt == attempts || ctx.Err() != nil {
			if p, ok := errors.AsType[*answerError](err); ok {
				return p.problem
			}
			return err
		}
		//nolint:gosec // spreading load needs no cryptographic randomness
		wait = max(wait, pause/2+rand.N(pause/2))
		if err := sleep(ctx, wait); err != nil {
			return err
		}
		pause *= 2
		if r.repeated != nil {
			*r.repeated = true
		}
	}
}

// errTooLong is an answer above maxAnswer; another attempt would get the same.
var errTooLong = fmt.Errorf("the answer has more than %d bytes", maxAnswer)

// answerError is a problem with what its answer's headers say about retrying.
type answerError struct {
	problem    *api.Problem
	retryAfter time.Duration // negative if the answer does not say
}

func (e *answerError) Error() string { return e.problem.Error() }

// unchangedError is the answer to a conditional read of what has not changed.
type unchangedError struct{ header http.Header }

func (*unchangedError) Error() string { return "unchanged" }

// errNoTarget is an id that no request can be made for.
var errNoTarget = errors.New("the id is empty or a path")

// retry decides whether a failed attempt is worth another, and after how long.
func retry(repeatable bool, err error) (wait time.Duration, again bool) {
	a, answered := errors.AsType[*answerError](err)
	if _, unchanged := errors.AsType[*unchangedError](err); unchanged {
		return 0, false
	}
	if !answered {
		// A request without an answer may or may not have been carried out.
		return 0, repeatable && !errors.Is(err, errTooLong) && !errors.Is(err, errNoTarget)
	}
	if a.retryAfter > maxRetryAfter {
		return 0, false
	}
	switch a.problem.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return max(a.retryAfter, 0), repeatable || a.retryAfter >= 0
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return max(a.retryAfter, 0), repeatable
	}
	return 0, false
}

func (s *service) attempt(ctx context.Context, r request, take func(*http.Response) error) error {
	if !r.stream {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
	}
	target := s.base.JoinPath("api", "v1")
	for _, element := range r.path {
		if element == "" || element == "." || element == ".." {
			return errNoTarget
		}
		target = target.JoinPath(url.PathEscape(element))
	}
	target.RawQuery = r.query.Encode()
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target.String(), body)
	if err != nil {
		return err
	}
	maps.Copy(req.Header, r.header)
	s.authorize(req)
	req.Header.Set("Accept", r.accept)
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := s.http.Do(req)
	if err != nil {
		return err
	}
	if res.StatusCode == http.StatusNotModified {
		_ = res.Body.Close() // it has none
		return &unchangedError{header: res.Header}
	}
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return take(res)
	}
	defer func() { _ = res.Body.Close() }() // only read from
	return &answerError{problem: readProblem(res), retryAfter: retryAfter(res.Header)}
}

// readProblem makes a problem of any answer that is not a success.
func readProblem(res *http.Response) *api.Problem {
	if media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err == nil && media == api.ProblemContentType {
		if data, err := readAll(res.Body); err == nil {
			var p api.Problem
			if json.Unmarshal(data, &p) == nil && p.Code != "" {
				p.Status = res.StatusCode
				return &p
			}
		}
	}
	return &api.Problem{
		Type: "about:blank", Title: http.StatusText(res.StatusCode), Status: res.StatusCode, Code: codeNoProblem,
		Detail: "the answer is not one of the service; check the URL and what is between", RequestID: res.Header.Get("X-Request-Id"),
	}
}

func readAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxAnswer+1))
	if err == nil && len(data) > maxAnswer {
		err = errTooLong
	}
	return data, err
}

// retryAfter is the answer's wish in seconds, negative if it has none. Our
// services do not send dates.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return -1
	}
	return time.Duration(min(seconds, 3600)) * time.Second
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
