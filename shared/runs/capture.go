package runs

import (
	"context"
	"io"
	"sync"
	"time"
)

const (
	// captureOpen bounds how long a run that is to stop waits for its log to open.
	captureOpen = 2 * time.Second
	// captureEnd is how long the end of a log is awaited once its pod is gone.
	captureEnd = 5 * time.Second
	// saveTimeout bounds the storing of what was captured.
	saveTimeout = 30 * time.Second
)

// captures are the logs that this process follows because their pods' objects
// will be gone when they end. It needs no lease: any replica may follow the same
// log, and of what they store the longest stays.
type captures struct {
	mu     sync.Mutex
	byRun  map[ID]*capturing
	closed bool
}

type capturing struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// capture follows the log of a run to its end, and stores it then; only once at a
// time. It returns when the log is open, or cannot be yet.
func (e *Engine) capture(ctx context.Context, id ID) {
	long, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.GracePeriod+archiveWindow)
	mine := e.captures.begin(id, cancel)
	if mine == nil {
		cancel()
		return
	}
	release := context.AfterFunc(ctx, cancel)
	stream, err := e.cfg.Cluster.Logs(long, id, LogOptions{Follow: true})
	release()
	if err != nil { // there may be one at the next sweep
		e.captures.end(id, mine)
		return
	}
	go func() {
		defer e.captures.end(id, mine)
		text := logEnd{limit: archiveLimit}
		_, err := io.Copy(&text, stream)
		_ = stream.Close()
		if err != nil {
			e.cfg.Log.WarnContext(long, "log not followed to its end", "run_id", id, "error", err)
		}
		// What there is of it: a longer one replaces it.
		save, stop := context.WithTimeout(context.WithoutCancel(long), saveTimeout)
		defer stop()
		data, truncated := text.lines()
		if len(data) == 0 {
			return
		}
		if err := e.saveLog(save, id, data, truncated); err != nil {
			e.cfg.Log.WarnContext(save, "followed log not stored", "run_id", id, "error", err)
		}
	}()
}

// begin notes that a log is followed; nil if it is already, or must not be.
func (c *captures) begin(id ID, cancel context.CancelFunc) *capturing {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.byRun[id] != nil {
		return nil
	}
	if c.byRun == nil {
		c.byRun = map[ID]*capturing{}
	}
	mine := &capturing{cancel: cancel, done: make(chan struct{})}
	c.byRun[id] = mine
	return mine
}

func (c *captures) end(id ID, mine *capturing) {
	mine.cancel()
	c.mu.Lock()
	delete(c.byRun, id)
	c.mu.Unlock()
	close(mine.done)
}

// finish waits until the log of a run whose pod is gone is stored, if this
// process follows it.
func (c *captures) finish(id ID) {
	c.mu.Lock()
	mine := c.byRun[id]
	c.mu.Unlock()
	if mine == nil {
		return
	}
	select {
	case <-mine.done:
	case <-time.After(captureEnd):
		mine.cancel()
		<-mine.done
	}
}

// close ends all, and lets none begin.
func (c *captures) close() {
	c.mu.Lock()
	c.closed = true
	var all []*capturing
	for _, mine := range c.byRun {
		all = append(all, mine)
	}
	c.mu.Unlock()
	for _, mine := range all {
		mine.cancel()
		<-mine.done
	}
}
