package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/kubeopera/platform/shared/redact"
)

// ErrClosed is what a Host says after Close.
var ErrClosed = errors.New("connection was closed")

// Host is a host that one is logged in to. Its methods may be called at the same
// time; a broken connection is made again by whoever needs it.
type Host struct {
	config   Config
	identity identity
	masks    *redact.Redactor
	log      *slog.Logger

	turn chan struct{} // who has put its token in may connect

	mu       sync.Mutex
	current  *connection // nil before the first
	closed   bool
	failures int   // of connecting, after all attempts
	failure  error // the last
}

// Connect logs in to a host. It tries for as long as the host is merely
// unreachable and attempts are left.
func Connect(ctx context.Context, config Config) (*Host, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	id, err := config.identity()
	if err != nil {
		return nil, err
	}
	masks := redact.New(config.Auth.Key.Reveal(), config.Auth.Passphrase.Reveal())
	for _, s := range config.Secrets {
		masks.Add(s.Reveal())
	}
	h := &Host{
		config: config, identity: id, masks: masks, turn: make(chan struct{}, 1),
		log: config.Log.With("target", config.Target),
	}
	if config.HostKeys.Policy == PolicyOff && len(config.HostKeys.Pinned) == 0 {
		h.log.WarnContext(ctx, "host key is not checked")
	}
	if _, err := h.live(ctx); err != nil {
		return nil, err
	}
	return h, nil
}

// live is a connection that has not ended, as far as anybody knows.
func (h *Host) live(ctx context.Context) (*connection, error) {
	return h.renew(ctx, nil)
}

// renew is live, but never the connection old.
func (h *Host) renew(ctx context.Context, old *connection) (*connection, error) {
	h.mu.Lock()
	before := h.failures
	h.mu.Unlock()
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	h.mu.Lock()
	current, closed, failures, failure := h.current, h.closed, h.failures, h.failure
	h.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("%s: %w", h.config.Target, ErrClosed)
	}
	if current != nil {
		if current != old && current.alive() {
			return current, nil
		}
		current.close()
	}
	if failures != before { // who waited has been tried for as well
		return nil, failure
	}
	fresh, err := h.connect(ctx)
	if err != nil {
		if _, away := errors.AsType[*UnreachableError](err); away {
			h.mu.Lock()
			h.failures, h.failure = h.failures+1, err
			h.mu.Unlock()
		}
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		fresh.close()
		return nil, fmt.Errorf("%s: %w", h.config.Target, ErrClosed)
	}
	h.current = fresh
	return fresh, nil
}

// Reconnect logs in anew, as after a reboot or a change of the user's groups.
// What runs by Run goes on.
func (h *Host) Reconnect(ctx context.Context) error {
	h.mu.Lock()
	old := h.current
	h.mu.Unlock()
	_, err := h.renew(ctx, old)
	return err
}

// Client is the connection as it is now; it may have ended.
func (h *Host) Client() *ssh.Client {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.current.client
}

// Close ends the connection. Scripts that were begun go on.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	current := h.current
	h.mu.Unlock()
	current.close()
	return nil
}

// BootID is another one after each boot of the host.
func (h *Host) BootID(ctx context.Context) (string, error) {
	out, err := h.repeat(ctx, "boot id", "cat "+quote(h.config.BootIDFile), nil)
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(out))
	if id == "" || len(id) > 64 || strings.ContainsAny(id, " \n") {
		return "", fmt.Errorf("boot id of %s is not one: %q", h.config.Target, h.masks.String(id[:min(len(id), 64)]))
	}
	return id, nil
}

// Output runs a short command as root and returns what it prints on standard
// output, at most 32 MiB. It is text for sh, of which nothing is stored on the host
// or seen among its processes; stdin is the command's. A status other than 0 is an
// ExitError with the end of standard error. If ctx ends, the command may go on.
// If the connection breaks in the middle the command may have run: it is not
// repeated, and the error is an UnreachableError.
func (h *Host) Output(ctx context.Context, command string, stdin []byte) ([]byte, error) {
	name, _, _ := strings.Cut(strings.TrimSpace(h.masks.String(command)), "\n")
	if len(name) > 60 {
		name = name[:60] + "…"
	}
	return h.output(ctx, "command "+name, command, stdin)
}

// repeat is output for commands that may run twice: it goes on after a lost connection.
func (h *Host) repeat(ctx context.Context, name, command string, stdin []byte) ([]byte, error) {
	wait := h.config.Backoff
	for attempt := 1; ; attempt++ {
		out, err := h.output(ctx, name, command, stdin)
		var lost *lostError
		if !errors.As(err, &lost) || attempt >= h.config.MaxRetries {
			return out, err
		}
		if err := pause(ctx, wait); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		wait = min(2*wait, maxBackoff)
	}
}

// masked is err without secrets.
func (h *Host) masked(err error) error {
	text := err.Error()
	if clean := h.masks.String(text); clean != text {
		return &maskedError{text: clean, err: err}
	}
	return err
}

// maskedError has the chain of err, and another text.
type maskedError struct {
	text string
	err  error
}

func (e *maskedError) Error() string { return e.text }
func (e *maskedError) Unwrap() error { return e.err }
