package runs

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/kubeopera/platform/shared/runcontract"
)

const (
	// archiveLimit bounds the text of an archived log; its end is kept. About
	// three thousand resources of Terraform's output fit.
	archiveLimit = 4 << 20
	// archiveWindow is how long an ended run's log is asked for when its node
	// does not answer; then what the runner published of it has to do.
	archiveWindow = 10 * time.Minute
	// followInterval is how often a follower looks for a log that has not begun.
	followInterval = time.Second
)

// Logs gives a run's log: from its pod while there is one, else from the archive.
// ErrNoLogs means that there is none, or none yet; following waits for it inside
// the reader. To stop a reader that waits, end ctx. ErrTooManyFollowers means that
// Config.MaxFollowers logs are followed already: each takes a connection to the
// API server, and one to the caller, for as long as the run takes.
func (e *Engine) Logs(ctx context.Context, id ID, opts LogOptions) (io.ReadCloser, error) {
	if !opts.Follow {
		return e.openLog(ctx, id, opts)
	}
	select {
	case e.followers <- struct{}{}:
	default:
		return nil, ErrTooManyFollowers
	}
	leave := sync.OnceFunc(func() { <-e.followers })
	text, err := e.follow(ctx, id, opts)
	if err != nil {
		leave()
		return nil, err
	}
	return &followedLog{ReadCloser: text, leave: leave}, nil
}

// followedLog is a log that is followed until it is closed.
type followedLog struct {
	io.ReadCloser
	leave func()
}

// Close ends the following.
func (l *followedLog) Close() error {
	defer l.leave()
	return l.ReadCloser.Close()
}

// follow gives a log that is read as it comes to be.
func (e *Engine) follow(ctx context.Context, id ID, opts LogOptions) (io.ReadCloser, error) {
	text, err := e.openLog(ctx, id, opts)
	if !errors.Is(err, ErrNoLogs) {
		return text, err
	}
	ctx, stop := context.WithCancel(ctx)
	return &awaitedLog{stop: stop, open: func() (io.ReadCloser, error) {
		for {
			run, err := e.cfg.Store.Get(ctx, id)
			if err != nil {
				return nil, err
			}
			text, err := e.openLog(ctx, id, opts)
			if !errors.Is(err, ErrNoLogs) || Final(run.Status) {
				return text, err
			}
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(followInterval):
			}
		}
	}}, nil
}

// openLog gives the log that there is now.
func (e *Engine) openLog(ctx context.Context, id ID, opts LogOptions) (io.ReadCloser, error) {
	run, err := e.cfg.Store.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if Final(run.Status) {
		archived, err := e.archived(ctx, id, opts)
		if err == nil || run.Cleaned || !errors.Is(err, ErrNoLogs) {
			return archived, err
		}
	}
	live, err := e.cfg.Cluster.Logs(ctx, id, opts)
	if errors.Is(err, ErrNoLogs) {
		return e.archived(ctx, id, opts) // archived meanwhile
	}
	return live, err
}

// awaitedLog is a log that does not exist yet when it is handed out. It may be
// closed while it is being read.
type awaitedLog struct {
	open func() (io.ReadCloser, error)
	stop context.CancelFunc

	mu   sync.Mutex
	text io.ReadCloser
}

// Read waits for the log to come to be. A run that ends without one ends it.
func (l *awaitedLog) Read(p []byte) (int, error) {
	text := l.opened()
	if text == nil {
		var err error
		text, err = l.open()
		if errors.Is(err, ErrNoLogs) {
			return 0, io.EOF
		}
		if err != nil {
			return 0, err
		}
		l.mu.Lock()
		l.text = text
		l.mu.Unlock()
	}
	return text.Read(p)
}

func (l *awaitedLog) opened() io.ReadCloser {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text
}

// Close ends the wait or the log. One that is being opened meanwhile ends by its
// context.
func (l *awaitedLog) Close() error {
	l.stop()
	text := l.opened()
	if text == nil {
		return nil
	}
	return text.Close()
}

// archived gives an archived log.
func (e *Engine) archived(ctx context.Context, id ID, opts LogOptions) (io.ReadCloser, error) {
	saved, err := e.cfg.Store.Log(ctx, id)
	if err != nil {
		return nil, err
	}
	text, err := gzip.NewReader(bytes.NewReader(saved.Gzip))
	if err != nil {
		return nil, fmt.Errorf("read archived log: %w", err)
	}
	if opts.Tail <= 0 {
		return text, nil
	}
	all, err := io.ReadAll(io.LimitReader(text, 2*archiveLimit))
	if err != nil {
		return nil, fmt.Errorf("read archived log: %w", err)
	}
	return io.NopCloser(bytes.NewReader(lastLines(all, opts.Tail))), nil
}

// archive keeps an ended run's log, if it has any. It gives an error while it is
// worth trying again.
func (e *Engine) archive(ctx context.Context, run Run) error {
	text, truncated, err := e.podLog(ctx, run.ID)
	if err != nil && e.now().Sub(run.FinishedAt) < archiveWindow {
		return err
	}
	if len(text) == 0 {
		e.captures.finish(run.ID)
		if _, err := e.cfg.Store.Log(ctx, run.ID); !errors.Is(err, ErrNoLogs) {
			return err // it was followed to its end
		}
		if text, err = e.publishedLog(ctx, run.ID); err != nil || len(text) == 0 {
			return err
		}
		truncated = true
	}
	return e.saveLog(ctx, run.ID, text, truncated)
}

// saveLog stores the text of a log.
func (e *Engine) saveLog(ctx context.Context, id ID, text []byte, truncated bool) error {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if _, err := zip.Write(text); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	return e.cfg.Store.SaveLog(ctx, id, ArchivedLog{
		Gzip: packed.Bytes(), Bytes: int64(len(text)), Truncated: truncated, SavedAt: e.now(),
	})
}

// podLog reads the end of the log that the run's pod has; empty if it has none.
func (e *Engine) podLog(ctx context.Context, id ID) (text []byte, truncated bool, err error) {
	stream, err := e.cfg.Cluster.Logs(ctx, id, LogOptions{})
	if errors.Is(err, ErrNoLogs) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = stream.Close() }()
	text, truncated, err = ReadEnd(stream, archiveLimit)
	if err != nil {
		return nil, false, fmt.Errorf("read pod log: %w", err)
	}
	return text, truncated, nil
}

// publishedLog is the log's end that the runner published; empty if it has not.
func (e *Engine) publishedLog(ctx context.Context, id ID) ([]byte, error) {
	packed, err := e.cfg.Cluster.Output(ctx, id, runcontract.KeyLogTail)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	unzip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, nil //nolint:nilerr // what is no log cannot be archived, now or later
	}
	text, _, err := ReadEnd(io.LimitReader(unzip, 4*archiveLimit), archiveLimit)
	if err != nil {
		return nil, nil //nolint:nilerr // the same
	}
	return text, nil
}

// ReadEnd reads r to its end and gives its last bytes, whole lines of at most
// limit bytes; truncated if that is not all.
func ReadEnd(r io.Reader, limit int) (text []byte, truncated bool, err error) {
	end := logEnd{limit: limit}
	if _, err := io.Copy(&end, r); err != nil {
		return nil, false, err
	}
	text, truncated = end.lines()
	return text, truncated, nil
}

// logEnd keeps the end of what is written to it.
type logEnd struct {
	limit     int
	text      []byte
	truncated bool
}

// Write never fails.
func (l *logEnd) Write(p []byte) (int, error) {
	l.text = append(l.text, p...)
	if len(l.text) > 2*l.limit {
		l.cut()
	}
	return len(p), nil
}

func (l *logEnd) cut() {
	l.text = append(l.text[:0], l.text[len(l.text)-l.limit:]...)
	l.truncated = true
}

// lines are whole lines of at most limit bytes; truncated if that is not all.
func (l *logEnd) lines() (text []byte, truncated bool) {
	if len(l.text) > l.limit {
		l.cut()
	}
	text = l.text
	if l.truncated {
		if i := bytes.IndexByte(text, '\n'); i >= 0 && i < len(text)-1 {
			text = text[i+1:]
		}
	}
	return text, l.truncated
}

// lastLines is the end of text from its nth last line on.
func lastLines(text []byte, n int) []byte {
	at := len(text)
	if at > 0 && text[at-1] == '\n' {
		at-- // the end of the last line begins no further one
	}
	for ; n > 0 && at >= 0; n-- {
		at = bytes.LastIndexByte(text[:at], '\n')
	}
	return text[at+1:]
}
