package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

const (
	// followMemory is how much of the end of what was written is kept, to find the
	// place again. Two logs that agree on so many bytes are the same one.
	followMemory = 16 << 10
	// leastMemory is too little to be sure of the place when there is more.
	leastMemory = 512
	// maxLog bounds a log that has to be searched for the place, in bytes. The
	// service keeps less of one.
	maxLog = 64 << 20
	// maxFollowPause is the longest pause between two attempts to go on.
	maxFollowPause = 5 * time.Second
)

// FollowLogs writes a run's log to w as it comes, until the run has ended. When
// the connection breaks or the service restarts, it goes on where it was, without
// repeating a line. tail, unless 0, begins with so many of the last lines.
//
// The service keeps the end of a very long log only. If the place is no longer in
// it, FollowLogs goes on with the oldest line that there is.
func (c runs[Run]) FollowLogs(ctx context.Context, id string, tail int, w io.Writer) error {
	f := follower[Run]{client: c, id: id, out: w, tail: tail, at: 0}
	if tail > 0 {
		f.at = unknown
	}
	pause, moved := firstPause, time.Now()
	for {
		had := f.written
		ended, err := f.stream(ctx)
		if err == nil && ended {
			return nil
		}
		if f.written > had {
			pause, moved = firstPause, time.Now()
		}
		if werr, ok := errors.AsType[*writeError](err); ok {
			return werr.err
		}
		if err != nil && (!f.begun || !passing(err) && Code(err) != codeNoLog || ctx.Err() != nil || time.Since(moved) > patience) {
			return err
		}
		//nolint:gosec // spreading load needs no cryptographic randomness
		if err := sleep(ctx, pause/2+rand.N(pause/2)); err != nil {
			return err
		}
		pause = min(2*pause, maxFollowPause)
	}
}

// unknown is the place of a follower that has seen the log's end only, or another
// log than the one there is now.
const unknown = -1

// follower is where in a log FollowLogs is.
type follower[Run any] struct {
	client runs[Run]
	id     string
	out    io.Writer
	tail   int

	begun   bool   // the service has answered once
	at      int64  // bytes from the log's begin to here, or unknown
	memory  []byte // the last bytes before here
	written int64
}

// writeError is an error of the caller's writer.
type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }

// Write passes on what is new.
func (f *follower[Run]) Write(p []byte) (int, error) {
	n, err := f.out.Write(p)
	f.memory = append(f.memory, p[:n]...)
	if excess := len(f.memory) - followMemory; excess > 0 {
		f.memory = append(f.memory[:0], f.memory[excess:]...)
	}
	f.written += int64(n)
	if f.at != unknown {
		f.at += int64(n)
	}
	if err != nil {
		return n, &writeError{err}
	}
	return n, nil
}

// stream follows the log over one connection. ended is true if there will be no
// more: a stream that ends by itself may also be one whose service is going down,
// or whose pod's node is, so only one that began after the run's end counts.
func (f *follower[Run]) stream(ctx context.Context) (ended bool, err error) {
	run, err := f.client.get(ctx, f.id)
	if err != nil {
		return false, err
	}
	over := final(f.client.status(run))
	if f.written > 0 && f.at == unknown {
		if err := f.find(ctx); err != nil {
			return false, err
		}
	}
	o := LogOptions{Follow: true}
	if f.written == 0 {
		o.Tail = f.tail
	}
	log, err := f.client.Logs(ctx, f.id, o)
	if over && f.begun && Code(err) == codeNoLog {
		return true, nil // there is no more of it than there was
	}
	if err != nil {
		return false, err
	}
	f.begun = true
	defer func() { _ = log.Close() }() // only read from
	if f.written > 0 {
		if err := f.skip(log); err != nil {
			f.at = unknown
			return false, err
		}
	}
	_, err = io.Copy(f, log)
	return over && err == nil, err
}

// errOther is a log that does not go on from what was written.
var errOther = errors.New("the log is another one now")

// skip reads the part of the log that has been written.
func (f *follower[Run]) skip(log io.Reader) error {
	head := f.at - int64(len(f.memory))
	if _, err := io.CopyN(io.Discard, log, head); err != nil {
		return wrapSkip(err)
	}
	same := make([]byte, len(f.memory))
	if _, err := io.ReadFull(log, same); err != nil {
		return wrapSkip(err)
	}
	if !bytes.Equal(same, f.memory) {
		return errOther
	}
	return nil
}

// wrapSkip: a log that is shorter than it was is another one.
func wrapSkip(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errOther
	}
	return err
}

// find looks for the place in the log as it is now, and writes what comes after.
func (f *follower[Run]) find(ctx context.Context) error {
	log, err := f.client.Logs(ctx, f.id, LogOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // only read from
	all, err := io.ReadAll(io.LimitReader(log, maxLog+1))
	if err != nil {
		return fmt.Errorf("logs of %s %s: %w", f.client.one, f.id, err)
	}
	if len(all) > maxLog {
		return fmt.Errorf("logs of %s %s: more than %d bytes cannot be searched for the place where they broke off", f.client.one, f.id, maxLog)
	}
	from := 0
	// The log may begin inside what is remembered.
	for known := f.memory; ; known = known[len(known)/2:] {
		if i := bytes.LastIndex(all, known); i >= 0 {
			from = i + len(known)
			break
		}
		if len(known) < leastMemory {
			break
		}
	}
	if _, err := f.Write(all[from:]); err != nil {
		return err
	}
	f.at = int64(len(all))
	f.memory = append(f.memory[:0], all[max(0, len(all)-followMemory):]...)
	return nil
}
