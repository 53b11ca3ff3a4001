package bench

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// callers bounds the calls that are under way at a time.
const callers = 128

// AtRate calls do so many times a second. Each call has its moment on a schedule
// that does not wait for earlier calls, and its latency counts from there: what
// comes late because others were slow is late. do gets the number of its call. The
// first error ends it.
func AtRate(ctx context.Context, perSecond int, length time.Duration, do func(ctx context.Context, call int) error) (Samples, error) {
	latencies := make(Samples, int(length.Seconds()*float64(perSecond)))
	begin := time.Now()
	err := each(ctx, func(ctx context.Context, call int) (more bool, err error) {
		if call >= len(latencies) {
			return false, nil
		}
		due := begin.Add(time.Duration(call) * time.Second / time.Duration(perSecond))
		if err := until(ctx, due); err != nil {
			return false, err
		}
		err = do(ctx, call)
		latencies[call] = time.Since(due)
		return true, err
	})
	return latencies, err
}

// AtFullSpeed calls do again and again, several times at once, and gives how often
// a second it returned. The first error ends it.
func AtFullSpeed(ctx context.Context, length time.Duration, do func(ctx context.Context, call int) error) (perSecond float64, err error) {
	var done atomic.Int64
	begin := time.Now()
	err = each(ctx, func(ctx context.Context, call int) (more bool, err error) {
		err = do(ctx, call)
		done.Add(1)
		return time.Since(begin) < length, err
	})
	return float64(done.Load()) / time.Since(begin).Seconds(), err
}

// each hands out calls by number until there are no more or one fails.
func each(ctx context.Context, do func(ctx context.Context, call int) (more bool, err error)) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range callers {
		group.Go(func() error {
			for {
				more, err := do(ctx, int(next.Add(1))-1)
				if err != nil || !more {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// until waits for a moment.
func until(ctx context.Context, at time.Time) error {
	wait := time.Until(at)
	if wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
