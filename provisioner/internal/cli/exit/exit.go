// Package exit says how kubeopera ends: the exit code of an error, which scripts
// branch on, and the words for people. The codes never change their meaning;
// docs/cli.md lists them.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
)

// Code is an exit code.
type Code int

// The exit codes.
const (
	OK           Code = 0
	Failed       Code = 1   // refused request, and whatever has no code of its own
	Usage        Code = 2   // flags, arguments or configuration
	RunFailed    Code = 3   // the run that was waited for
	RunCancelled Code = 4   // the run that was waited for
	NotFinished  Code = 5   // --timeout was over before the run
	NotFound     Code = 6   // no such run, or it has not got what was asked for
	Unauthorized Code = 7   // the API key was not accepted
	Unavailable  Code = 8   // no answer of the service; worth another try
	Conflict     Code = 9   // what the service has stored is against it
	Interrupted  Code = 130 // by a signal
)

// Error is an error with an exit code of its own.
type Error struct {
	Code Code
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Usagef is an error in how the program was called.
func Usagef(format string, args ...any) error {
	return &Error{Usage, fmt.Errorf(format, args...)}
}

// Of is the exit code for an error.
func Of(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	status := client.Status(err)
	switch {
	case err == nil:
		return OK
	case errors.Is(err, context.Canceled):
		return Interrupted
	case client.IsNotFound(err):
		return NotFound
	case client.IsUnauthorized(err):
		return Unauthorized
	case client.IsConflict(err):
		return Conflict
	case status >= http.StatusInternalServerError, status == http.StatusTooManyRequests:
		return Unavailable
	}
	if _, ok := errors.AsType[*url.Error](err); ok && status == 0 {
		return Unavailable
	}
	return Failed
}

// runCommands are the commands for runs by what their paths in APIs begin with.
var runCommands = map[string]string{"provisions": "provision", "scaffolds": "scaffold"}

// Write says what went wrong, with the way on where there is one.
func Write(w io.Writer, err error) {
	var b strings.Builder
	b.WriteString("kubeopera: ")
	if Of(err) == Interrupted && errors.Is(err, context.Canceled) {
		b.WriteString("interrupted\n")
	} else {
		b.WriteString(terminal.CleanLines(err.Error()) + "\n")
	}
	if p, ok := errors.AsType[*api.Problem](err); ok {
		if kind, run, ok := strings.Cut(strings.TrimPrefix(p.Instance, "/api/v1/"), "/"); ok && p.Status == http.StatusConflict && runCommands[kind] != "" && !strings.Contains(run, "/") {
			fmt.Fprintf(&b, "  see: kubeopera %s get %s\n", runCommands[kind], terminal.Clean(run))
		}
		if p.RequestID != "" {
			fmt.Fprintf(&b, "  request id: %s\n", terminal.Clean(p.RequestID))
		}
	}
	_, _ = io.WriteString(w, b.String())
}
