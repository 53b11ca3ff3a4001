// Package runcmd is what the commands for runs have in common, whatever the runs
// are of: it has the commands that look at runs and cancel them, and what commands
// that start runs share. A Kind says what is peculiar to a service.
package runcmd

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/progress"
	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
)

// Service is a client of a service of runs.
type Service[Run any] interface {
	Get(ctx context.Context, id string) (Run, error)
	All(ctx context.Context, o client.ListOptions) iter.Seq2[Run, error]
	Events(ctx context.Context, id string) ([]api.Event, error)
	Cancel(ctx context.Context, id string, force bool) (Run, error)
	Wait(ctx context.Context, id string, show func(Run)) (Run, error)
	Logs(ctx context.Context, id string, o client.LogOptions) (io.ReadCloser, error)
	FollowLogs(ctx context.Context, id string, tail int, w io.Writer) error
}

// Kind is a kind of runs, with the client S of its service.
type Kind[Run any, S Service[Run]] struct {
	// Command is what its runs are called on the command line, such as provision.
	Command  string
	Terminal *terminal.Terminal
	// Connect makes a client whose next start carries the idempotency key, unless
	// that is empty.
	Connect func(key string) (S, error)
	View    func(Run) View
	// Page is a list of runs as the API has it.
	Page       func([]Run) any
	Columns    []string // headings of View.Columns
	Operations []api.Operation
}

// View is what is shown of a run.
type View struct {
	progress.Run
	Environment string
	Operation   api.Operation
	RetryOf     string
	RequestedBy string
	Inputs      [][]string // more of what was asked for: names and values; those without a value are left out
	Outputs     [][]string // more of what became of it, likewise
	Columns     []string   // of a list
}

// example is an id for help texts.
const example = "019ae2c5-6d1f-7c3e-8a55-0d6f6e6f2b11"

// Example is an example for help texts, of a command on a run.
func Example(command, flags string) string {
	line := "  kubeopera " + command + " " + example
	if flags != "" {
		line += " " + flags
	}
	return line
}

// OneRun accepts the id of a run.
func (k *Kind[Run, S]) OneRun(_ *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return exit.Usagef("needs the id of one run, such as `kubeopera %s list` shows", k.Command)
	}
	return nil
}

// NoArguments accepts nothing.
func NoArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.Usagef("takes no arguments")
	}
	return nil
}

// MayRetry is true for runs that have ended without success.
func MayRetry(s api.Status) bool { return s == api.StatusFailed || s == api.StatusCancelled }

// Screen is where text of others goes: as it is, unless it could steer a terminal.
func (k *Kind[Run, S]) Screen() io.Writer {
	out := k.Terminal.Out
	if terminal.IsTerminal(out) {
		return terminal.CleanWriter(out)
	}
	return out
}

// Stamp is a time for people and programs; empty for the zero time.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// TimeLimit is ctx for at most d, whose end has the cause ErrTimeout; 0 is no limit.
func TimeLimit(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, d, ErrTimeout)
}

// ErrTimeout is the cause of a context that --timeout has ended.
var ErrTimeout = errors.New("--timeout is over")
