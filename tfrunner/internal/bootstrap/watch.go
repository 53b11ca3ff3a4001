package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/smithy-go"

	"github.com/kubeopera/platform/shared/runner/awsconfig"
)

// Parameters is the little that is needed of AWS SSM; *ssm.Client has it.
type Parameters interface {
	GetParameters(ctx context.Context, in *ssm.GetParametersInput, opts ...func(*ssm.Options)) (*ssm.GetParametersOutput, error)
	GetParametersByPath(ctx context.Context, in *ssm.GetParametersByPathInput, opts ...func(*ssm.Options)) (*ssm.GetParametersByPathOutput, error)
}

const (
	// batch is how many parameters AWS gives at once.
	batch = 10
	// attemptTimeout bounds one request, the SDK's own repetitions included.
	attemptTimeout = 30 * time.Second
	// maxPause bounds the pauses between polls that fail, unless Interval is longer.
	maxPause = 2 * time.Minute
	// patience is after how many polls in a row a missing parameter is believed to
	// be missing.
	patience = 3
)

// Watch follows a cluster.
type Watch struct {
	Parameters Parameters
	Layout     Layout
	Interval   time.Duration // between polls
	Timeout    time.Duration // of each Until

	// Observe gets every picture.
	Observe func(Cluster)
	// Trouble gets the error of a poll that will be repeated.
	Trouble func(error)
	// Unseen gets, once, why workers are not shown.
	Unseen func(error)
}

// FailedError is a node that has given up.
type FailedError struct{ Node Node }

// Error names the node and its reason.
func (e *FailedError) Error() string { return e.Node.Name + " " + e.Node.Message }

// TimeoutError is time that is up.
type TimeoutError struct {
	After time.Duration
	// Last is why the last poll failed; nil if it did not.
	Last error
}

// Error says how long it took.
func (e *TimeoutError) Error() string {
	if e.Last != nil {
		return fmt.Sprintf("not within %s, and AWS did not answer at the end: %v", e.After, e.Last)
	}
	return fmt.Sprintf("not within %s", e.After)
}

// Unwrap is why the last poll failed.
func (e *TimeoutError) Unwrap() error { return e.Last }

// Until polls until the cluster is as it should be, and returns the last
// picture that it got, with an error too. It ends early with a *FailedError if
// a node gives up, with the cause of ctx at once when ctx ends, and with an error
// of AWS that waiting would not change. Throttling, outages and all else is
// borne until a *TimeoutError. Workers are shown as far as they can be seen; nothing
// hangs on them.
func (w Watch) Until(ctx context.Context, done func(Cluster) bool) (Cluster, error) {
	start := time.Now()
	var c Cluster
	failures, missing, blind := 0, 0, false
	for {
		seen, err := w.poll(ctx)
		switch {
		case ctx.Err() != nil:
			return c, context.Cause(ctx)
		case err != nil && hopeless(err):
			return c, err
		case err != nil:
			failures++
			w.Trouble(err)
		default:
			workers := c.Workers // as they were, unless there is news
			if !blind {
				if now, err := w.workers(ctx); err == nil {
					workers = now
				} else if blind = hopeless(err); blind {
					w.Unseen(err)
				}
			}
			c, failures = seen, 0
			c.Workers = workers
			w.Observe(c)
			if done(c) {
				return c, nil
			}
			if n, ok := c.Failed(); ok {
				return c, &FailedError{Node: n}
			}
			if missing++; len(c.Missing) == 0 {
				missing = 0
			}
			if missing >= patience {
				return c, fmt.Errorf("the cluster's parameters are gone from AWS SSM: %s", strings.Join(c.Missing, ", "))
			}
		}
		left := w.Timeout - time.Since(start)
		if left <= 0 {
			return c, &TimeoutError{After: w.Timeout, Last: err}
		}
		if err := pause(ctx, min(w.pause(failures), left)); err != nil {
			return c, err
		}
	}
}

// pause is how long to wait for the next poll after so many failed ones in a
// row: longer and longer, and at random, since whoever was throttled together
// should not come back together.
func (w Watch) pause(failures int) time.Duration {
	if failures == 0 {
		return w.Interval
	}
	longest := max(maxPause, w.Interval)
	d := w.Interval
	for range failures - 1 {
		if d = 2 * d; d >= longest {
			d = longest
			break
		}
	}
	//nolint:gosec // spreading load needs no cryptographic randomness
	return d/2 + rand.N(d/2+1)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// poll reads all parameters once.
func (w Watch) poll(ctx context.Context) (Cluster, error) {
	values := map[string]string{}
	for names := range slices.Chunk(w.Layout.names(), batch) {
		if err := w.read(ctx, names, values); err != nil {
			return Cluster{}, err
		}
	}
	return Read(w.Layout, values), nil
}

func (w Watch) read(ctx context.Context, names []string, values map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	out, err := w.Parameters.GetParameters(ctx, &ssm.GetParametersInput{Names: names, WithDecryption: aws.Bool(true)})
	if err != nil {
		return fmt.Errorf("read the cluster's parameters: %w", refusal(err))
	}
	for _, p := range out.Parameters {
		values[aws.ToString(p.Name)] = aws.ToString(p.Value)
	}
	return nil
}

// refusal is an error of AWS in words of ours, if it refuses the credential.
func refusal(err error) error {
	if refused := awsconfig.Refusal(err); refused != nil {
		return refused
	}
	return err
}

// hopeless errors are answers that will not change: a credential that is refused
// or may not do this, a key that is gone, a request that cannot be right.
func hopeless(err error) bool {
	if _, ok := errors.AsType[*awsconfig.RefusedError](err); ok {
		return true
	}
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && slices.Contains([]string{"ValidationException", "InvalidKeyId", "UnsupportedOperationException"}, api.ErrorCode())
}
