// Package git runs the git binary with nothing of anybody's configuration: not the
// container's, not a user's, not the server's. It asks nobody anything, runs no
// hooks, and speaks only the protocols that it is given.
//
// A password is never an argument, never in the environment and never in a file of
// ours: git asks for it by the credential protocol (see Answer), which a process
// of the runner's own binary answers from the mounted Secret.
package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kubeopera/platform/shared/redact"
)

// Setting is one of git's settings, which may be there several times.
type Setting struct{ Name, Value string }

// Config is what git runs with.
type Config struct {
	Getenv    func(string) string // PATH, proxies and the like are taken from it
	Protocols []string            // such as https, ssh
	Settings  []Setting           // beside those that all have
	Env       map[string]string   // more of the environment
}

// Env is git's whole environment.
func Env(c Config) []string {
	env := []string{
		"LC_ALL=C", // Classify reads git's words
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_ASKPASS=",
		"GIT_ALLOW_PROTOCOL=" + strings.Join(c.Protocols, ":"),
		"GIT_SSH_COMMAND=ssh -o BatchMode=yes",
	}
	for _, key := range []string{"PATH", "HOME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy"} {
		if value := c.Getenv(key); value != "" {
			env = append(env, key+"="+value)
		}
	}
	settings := append([]Setting{
		{"advice.detachedHead", "false"},
		{"init.defaultBranch", "main"},
		{"http.followRedirects", "initial"},
		// A connection that has gone quiet fails instead of eating the attempt's time.
		{"http.lowSpeedLimit", "1000"},
		{"http.lowSpeedTime", "30"},
		{"core.hooksPath", "/dev/null"},
		{"credential.helper", ""}, // forget helpers of elsewhere
	}, c.Settings...)
	env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(settings)))
	for i, s := range settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s.Name), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s.Value))
	}
	for key, value := range c.Env {
		env = append(env, key+"="+value)
	}
	return env
}

// Helper is the setting that makes git ask a command for username and password.
func Helper(command []string) Setting {
	return Setting{"credential.helper", "!" + ShellQuote(command)}
}

// ShellQuote makes a command line of words, for the shell that git starts.
func ShellQuote(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// Folder is a folder that git runs in.
type Folder struct {
	Dir      string
	Env      []string // see Env
	Redactor *redact.Redactor
}

// outputLimit bounds what is kept of what git says of its troubles, in bytes.
const outputLimit = 64 << 10

// Run runs git and returns its standard output, less white space around it, also
// if it fails: then the error is an *Error.
func (f Folder) Run(ctx context.Context, args ...string) (string, error) {
	out, err := f.Pipe(ctx, nil, args...)
	return strings.TrimSpace(string(out)), err
}

// Pipe runs git with an input, and returns its output as it is.
func (f Folder) Pipe(ctx context.Context, input io.Reader, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = f.Dir, f.Env, input
	// Its helpers for http and ssh go with it: they are in its group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var stdout bytes.Buffer
	stderr := &limited{limit: outputLimit}
	cmd.Stdout, cmd.Stderr = &stdout, stderr
	started := time.Now()
	err := cmd.Run()
	if err == nil {
		return stdout.Bytes(), nil
	}
	e := &Error{Verb: verb(args), Text: f.Redactor.String(strings.ToValidUTF8(stderr.String(), "")), Err: err}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.Late = time.Since(started)
	}
	return stdout.Bytes(), e
}

// verb is the command among git's arguments.
func verb(args []string) string {
	for len(args) > 2 && args[0] == "-c" {
		args = args[2:]
	}
	return args[0]
}

// limited keeps the beginning of what is written.
type limited struct {
	bytes.Buffer
	limit int
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	if room := l.limit - l.Len(); room > 0 {
		l.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// Error is a git command that failed.
type Error struct {
	Verb string        // such as fetch
	Text string        // git's own words, masked
	Late time.Duration // if it was ended because its time was over
	Err  error         // the process's end
}

// Error is what git said, in one line.
func (e *Error) Error() string {
	text := strings.Join(strings.Fields(e.Text), " ")
	switch {
	case e.Late > 0:
		text = fmt.Sprintf("no success in %s", e.Late.Round(time.Second))
	case text == "":
		text = e.Err.Error()
	}
	return "git " + e.Verb + ": " + text
}

// Unwrap is the process's end.
func (e *Error) Unwrap() error { return e.Err }
