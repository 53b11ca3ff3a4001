package systemd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// show copies a unit's state.
func (m *Manager) show(name string) state {
	m.mu.Lock()
	defer m.mu.Unlock()
	return *m.state(name)
}

// signal sends SIGHUP to a unit's main process.
func (m *Manager) signal(name string) error {
	if _, err := m.unit(name); err != nil {
		return err
	}
	if pid := m.show(name).pid; pid != 0 {
		return syscall.Kill(pid, syscall.SIGHUP)
	}
	return fmt.Errorf("job type reload is not applicable for unit %s", name)
}

// resetFailed makes failed units inactive; without names, all of them.
func (m *Manager) resetFailed(names []string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(names) == 0 {
		for name := range m.states {
			names = append(names, name)
		}
	}
	for _, name := range names {
		s := m.state(name)
		s.starts = nil
		if s.active == failed {
			s.active, s.sub, s.result = inactive, "dead", "success"
		}
	}
	return 0
}

// question and answer go over the manager's socket, one of each per connection.
type question struct {
	Args []string `json:"args"`
}

type answer struct {
	Stdout []byte `json:"stdout"`
	Stderr []byte `json:"stderr"`
	Code   int    `json:"code"`
}

// Serve answers calls of systemctl at a socket until ctx ends.
func (m *Manager) Serve(ctx context.Context, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("listen for systemctl: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		connection, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept a call of systemctl: %w", err)
		}
		go m.answer(ctx, connection)
	}
}

func (m *Manager) answer(ctx context.Context, connection net.Conn) {
	defer func() { _ = connection.Close() }()
	var q question
	reader := bufio.NewReader(connection)
	if err := json.NewDecoder(reader).Decode(&q); err != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // a caller that went away does not wait any more
		_, _ = io.Copy(io.Discard, connection)
		cancel()
	}()
	var stdout, stderr bytes.Buffer
	code := m.Systemctl(ctx, q.Args, &stdout, &stderr)
	// Who is gone does not read it.
	_ = json.NewEncoder(connection).Encode(answer{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Code: code})
}

// Call calls systemctl at a manager's socket.
func Call(ctx context.Context, path string, args []string, stdout, stderr io.Writer) (int, error) {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	connection, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return 0, fmt.Errorf("connect to the service manager: %w", err)
	}
	defer func() { _ = connection.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer stop()
	if err := json.NewEncoder(connection).Encode(question{Args: args}); err != nil {
		return 0, fmt.Errorf("ask the service manager: %w", err)
	}
	var a answer
	if err := json.NewDecoder(connection).Decode(&a); err != nil {
		return 0, errors.Join(fmt.Errorf("answer of the service manager: %w", err), ctx.Err())
	}
	if _, err := stdout.Write(a.Stdout); err != nil {
		return 0, err
	}
	if _, err := stderr.Write(a.Stderr); err != nil {
		return 0, err
	}
	return a.Code, nil
}
