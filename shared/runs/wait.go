package runs

import (
	"context"
	"sync"
	"time"
)

// waitPoll is how often a waiter looks for what another replica has changed. With
// as many waiters as may be that is 250 reads of one row a second.
const waitPoll = 2 * time.Second

// Wait gives a run as soon as its version is greater than the one given, its
// place in the queue changes or it has ended; else as it is after the time most,
// or when Run ends. ErrTooManyWaiters means that Config.MaxWaiters wait already.
func (e *Engine) Wait(ctx context.Context, id ID, version int64, most time.Duration) (Run, error) {
	changed, leave, err := e.waiters.join(id)
	if err != nil {
		return Run{}, err
	}
	defer leave()
	run, err := e.Get(ctx, id)
	place := run.QueuePosition
	enough := time.NewTimer(most)
	defer enough.Stop()
	poll := time.NewTicker(waitPoll)
	defer poll.Stop()
	for err == nil && run.Version <= version && run.QueuePosition == place && !Final(run.Status) {
		select {
		case <-ctx.Done():
			return Run{}, ctx.Err()
		case <-enough.C:
			return run, nil
		case <-e.waiters.dismissed:
			return run, nil
		case <-changed:
		case <-poll.C:
		}
		run, err = e.cfg.Store.Get(ctx, id)
	}
	return run, err
}

// waiters are the callers of Wait in this process.
type waiters struct {
	most      int
	dismissed chan struct{} // closed: nobody shall wait any more

	mu    sync.Mutex
	count int
	byRun map[ID]map[chan struct{}]struct{}
	once  sync.Once
}

func newWaiters(most int) *waiters {
	return &waiters{most: most, dismissed: make(chan struct{}), byRun: map[ID]map[chan struct{}]struct{}{}}
}

// join adds a waiter; changed gets a value when its run may have changed.
func (w *waiters) join(id ID) (changed <-chan struct{}, leave func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count >= w.most {
		return nil, nil, ErrTooManyWaiters
	}
	w.count++
	mine := make(chan struct{}, 1)
	if w.byRun[id] == nil {
		w.byRun[id] = map[chan struct{}]struct{}{}
	}
	w.byRun[id][mine] = struct{}{}
	return mine, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.count--
		delete(w.byRun[id], mine)
		if len(w.byRun[id]) == 0 {
			delete(w.byRun, id)
		}
	}, nil
}

// notify wakes those who wait for a run.
func (w *waiters) notify(id ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.byRun[id] {
		select {
		case c <- struct{}{}:
		default: // it will look anyway
		}
	}
}

// dismiss ends all waiting, for good.
func (w *waiters) dismiss() { w.once.Do(func() { close(w.dismissed) }) }

// waiting is how many wait.
func (w *waiters) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}
