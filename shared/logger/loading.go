package logger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// ErrLoadingFailed ends a Loading that failed, where the error itself is reported
// elsewhere.
var ErrLoadingFailed = errors.New("loading failed")

// A loading is work that is announced and not over.
type loading struct {
	message string
	stop    chan struct{}
	once    sync.Once
	over    chan struct{} // its animation has ended
}

// Loading announces work that takes long; on a terminal it moves. The returned
// function ends it: a nil cause means that all went well, ErrLoadingFailed that it
// did not, and any other error is shown, too. Only its first call counts. When it
// returns the animation's goroutine has ended.
func (l *FunLogger) Loading(format string, a ...any) context.CancelCauseFunc {
	if l == nil {
		return func(error) {}
	}
	w := &loading{
		message: strings.TrimSuffix(fmt.Sprintf(format, a...), "\n"),
		stop:    make(chan struct{}),
		over:    make(chan struct{}),
	}
	if !l.enabled(slog.LevelInfo) || !l.animated() {
		close(w.over)
		l.printf(slog.LevelInfo, waitMark, "%s", []any{w.message})
	} else {
		l.mu.Lock()
		l.loading = append(l.loading, w)
		if l.Wg == nil {
			l.Wg = new(sync.WaitGroup)
		}
		l.Wg.Go(func() { l.animate(w) })
		l.mu.Unlock()
	}
	return func(cause error) {
		w.once.Do(func() {
			close(w.stop)
			<-w.over
			l.finished(w.message, cause)
		})
	}
}

func (l *FunLogger) finished(message string, cause error) {
	switch {
	case cause == nil:
		l.Check("%s", message)
	case errors.Is(cause, ErrLoadingFailed):
		l.write(slog.LevelError, errorMark, message)
	default:
		l.write(slog.LevelError, errorMark, fmt.Sprintf("%s: %v", message, cause))
	}
}

// frameTime is slow enough for a slow line and quick enough to look alive.
const frameTime = 200 * time.Millisecond

func (l *FunLogger) animate(w *loading) {
	defer close(w.over)
	ticker := time.NewTicker(frameTime)
	defer ticker.Stop()
	for frame := 0; ; frame++ {
		l.draw(w, frame)
		select {
		case <-ticker.C:
		case <-w.stop:
			l.erase(w)
			return
		}
	}
}

// draw shows a frame of the youngest animation: one line has room for one.
func (l *FunLogger) draw(w *loading, frame int) {
	const frames = `|/-\`
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.loading[len(l.loading)-1] != w {
		return
	}
	message, _, _ := strings.Cut(harmless(w.message), "\n")
	// A line that wraps could not be erased; 9 columns are for the frame and its tab.
	if r := []rune(message); len(r) > l.width()-9 {
		message = string(r[:max(l.width()-9, 0)])
	}
	l.print(clearLine + frames[frame%len(frames):][:1] + "\t" + message)
	l.drawn = true
}

func (l *FunLogger) erase(w *loading) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loading = slices.DeleteFunc(l.loading, func(other *loading) bool { return other == w })
	if l.drawn {
		l.print(clearLine)
		l.drawn = false
	}
}

// stopLoading ends all animations, of which nobody will know how they went.
func (l *FunLogger) stopLoading() {
	l.mu.Lock()
	running, group := slices.Clone(l.loading), l.Wg
	l.mu.Unlock()
	for _, w := range running {
		w.once.Do(func() { close(w.stop) })
		<-w.over
	}
	if group != nil {
		group.Wait()
	}
}

func (l *FunLogger) animated() bool { return l.slog == nil && !l.IsCI && l.terminal() }

// A screen is an Out that says itself whether it is a terminal.
type screen interface{ Width() int }

func (l *FunLogger) terminal() bool {
	switch out := l.out().(type) {
	case screen:
		return true
	case *os.File:
		return term.IsTerminal(int(out.Fd()))
	}
	return false
}

func (l *FunLogger) width() int {
	switch out := l.out().(type) {
	case screen:
		return out.Width()
	case *os.File:
		if width, _, err := term.GetSize(int(out.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 80
}
