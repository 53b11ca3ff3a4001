package logger

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
)

// Slog is a log that writes to l, with attributes behind the message.
func (l *FunLogger) Slog() *slog.Logger { return slog.New(l.Handler()) }

// Handler is what Slog writes to.
func (l *FunLogger) Handler() slog.Handler {
	if l == nil {
		return slog.DiscardHandler
	}
	if l.slog != nil {
		return l.slog
	}
	text := new(attributes)
	return &handler{l, text, slog.NewTextHandler(&text.buf, &slog.HandlerOptions{
		Level:       LevelTrace,
		ReplaceAttr: attribute,
	})}
}

// attribute leaves out level and message of a bare record; attributes of the
// caller's may have the same names.
func attribute(groups []string, a slog.Attr) slog.Attr {
	_, isLevel := a.Value.Any().(slog.Level)
	if len(groups) == 0 && (a.Key == slog.LevelKey && isLevel || a.Key == slog.MessageKey && a.Value.String() == "") {
		return slog.Attr{}
	}
	return a
}

// attributes is the text of one record's attributes.
type attributes struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

type handler struct {
	log  *FunLogger
	text *attributes
	slog slog.Handler // writes to text
}

func (h *handler) Enabled(_ context.Context, level slog.Level) bool { return h.log.enabled(level) }

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.log, h.text, h.slog.WithAttrs(attrs)}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.log, h.text, h.slog.WithGroup(name)}
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	attrs, err := h.attributes(ctx, r)
	if err != nil {
		return err
	}
	m := traceMark
	switch {
	case r.Level >= slog.LevelError:
		m = errorMark
	case r.Level >= slog.LevelWarn:
		m = warningMark
	case r.Level >= slog.LevelInfo:
		m = noMark
	case r.Level >= slog.LevelDebug:
		m = debugMark
	}
	h.log.write(r.Level, m, strings.TrimSpace(r.Message+" "+attrs))
	return nil
}

func (h *handler) attributes(ctx context.Context, r slog.Record) (string, error) {
	bare := slog.Record{Level: r.Level}
	r.Attrs(func(a slog.Attr) bool { bare.AddAttrs(a); return true })
	h.text.mu.Lock()
	defer h.text.mu.Unlock()
	h.text.buf.Reset()
	err := h.slog.Handle(ctx, bare) // without a time, so that none is written
	return h.text.buf.String(), err
}
