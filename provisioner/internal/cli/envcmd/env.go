// Package envcmd is `kubeopera env`: machines of one's own are set up as an
// Environment of package v1alpha1 says, from here and without a service. A file
// holds a command.
package envcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/output"
	"github.com/kubeopera/platform/provisioner/internal/cli/runcmd"
	"github.com/kubeopera/platform/provisioner/internal/cli/session"
	"github.com/kubeopera/platform/shared/logger"
)

// commands is what the commands share.
type commands struct {
	session *session.Session
	library library
	stderr  io.Writer // the terminal's, for several goroutines
}

// New makes the command with its subcommands.
func New(s *session.Session) *cobra.Command {
	c := newCommands(s, realLibrary{})
	root := &cobra.Command{
		Use:     "env",
		Aliases: []string{"environment"},
		Short:   "Set up machines of your own, without a service",
		Long: `Set up machines of your own over SSH: kernel, NVIDIA driver, container runtime and
toolkit, Kubernetes on one machine or a cluster on many. What is wanted is in an
environment file (holodeck.nvidia.com/v1alpha1). No service takes part.

The machine is the one of the file (spec.instance.hostUrl). A cluster's machines are
in a file of their own (--machines), a list of which each has

  address      at which the other machines find it, too
  role         control-plane or worker
  name         of the node (default: control-plane-0, worker-0 and so on)
  user         SSH user (default: spec.auth.username, else your own name)
  port         SSH port (default: 22)
  host_key     its public SSH host key (default: spec.auth.sshConfig.knownHostsPolicy)
  transport    direct, or ssm for AWS Systems Manager
  instance_id  with transport ssm

Without it they are those of the file's status.cluster.nodes, if it has that.

What was done already is recognised: after a failure or an interrupt the same
command goes on.`,
	}
	root.AddCommand(c.plan(), c.apply(), c.health(), c.reset())
	return root
}

func newCommands(s *session.Session, l library) *commands {
	return &commands{session: s, library: l, stderr: &lockedWriter{out: s.Terminal.Err}}
}

// options are the flags that all commands have.
type options struct {
	target  targetFlags
	format  *output.Format
	timeout time.Duration
	verbose int
	quiet   bool
}

func (c *commands) addOptions(cmd *cobra.Command) *options {
	o := &options{format: output.Flag(cmd)}
	o.target.add(cmd)
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "give up after so long, such as 45m (exit code 5)")
	cmd.Flags().CountVarP(&o.verbose, "verbose", "v", "show what the scripts print; twice: for who looks for a fault")
	cmd.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "show nothing until the end")
	return o
}

func (o *options) check() error {
	switch {
	case o.quiet && o.verbose > 0:
		return exit.Usagef("--quiet and --verbose exclude each other")
	case o.timeout < 0:
		return exit.Usagef("--timeout must not be negative")
	}
	return nil
}

// ending gives what ended early its exit code.
func (o *options) ending(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() == nil:
		return err
	case errors.Is(context.Cause(ctx), runcmd.ErrTimeout):
		return &exit.Error{Code: exit.NotFinished, Err: fmt.Errorf("not done within %s\n  the same command goes on from here", o.timeout)}
	}
	return &exit.Error{Code: exit.Interrupted, Err: errors.New("interrupted; the scripts that were at work have been stopped\n  the same command goes on from here")}
}

// log is where the library writes: to the terminal if it is to be verbose, else
// each message to said.
func (c *commands) log(o *options, said func(string)) *logger.FunLogger {
	if o.verbose > 0 {
		log := &logger.FunLogger{Out: c.stderr, IsCI: true} // no animations between the lines
		log.SetVerbosity(logger.VerbosityNormal + logger.Verbosity(o.verbose-1))
		return log
	}
	return logger.NewSlog(slog.New(&sayer{said: said}))
}

// sayer is a slog handler that passes messages on and no more.
type sayer struct{ said func(string) }

func (s *sayer) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (s *sayer) WithAttrs([]slog.Attr) slog.Handler               { return s }
func (s *sayer) WithGroup(string) slog.Handler                    { return s }
func (s *sayer) Handle(_ context.Context, r slog.Record) error    { s.said(r.Message); return nil }

// lockedWriter lets several goroutines write whole lines.
type lockedWriter struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}
