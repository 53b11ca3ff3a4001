package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// newLog is the simulator's log: complete for who wants to see everything, else
// a short line for a person.
func newLog(w io.Writer, verbose bool) *slog.Logger {
	if verbose {
		return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(&lineHandler{w: w, mu: new(sync.Mutex)})
}

// lineHandler writes "message: value, value", without keys and times. The mutex
// is shared by the handlers that come of it.
type lineHandler struct {
	w      io.Writer
	mu     *sync.Mutex
	values []string
}

func (h *lineHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

func (h *lineHandler) Handle(_ context.Context, record slog.Record) error {
	values := slices.Clone(h.values)
	record.Attrs(func(a slog.Attr) bool {
		values = append(values, lineValue(a))
		return true
	})
	line := record.Message
	if record.Level > slog.LevelInfo {
		line = strings.ToLower(record.Level.String()) + ": " + line
	}
	if len(values) > 0 {
		line += ": " + strings.Join(values, ", ")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := fmt.Fprintln(h.w, "  "+line)
	return err
}

func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.values = slices.Clone(h.values)
	for _, a := range attrs {
		with.values = append(with.values, lineValue(a))
	}
	return &with
}

func (h *lineHandler) WithGroup(string) slog.Handler { return h }

func lineValue(a slog.Attr) string {
	value := a.Value.Resolve()
	if a.Key == "seconds" && value.Kind() == slog.KindFloat64 {
		return fmt.Sprintf("%.1f s", value.Float64())
	}
	return value.String()
}
