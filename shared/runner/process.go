package runner

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner/pidone"
	"github.com/kubeopera/platform/shared/runner/runlog"
)

// Process is what a runner's command gets from the operating system.
type Process struct {
	Name    string // of the program
	Getenv  func(string) string
	Setenv  func(key, value string) error
	Environ []string
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
}

// Print writes to standard output. If that is gone there is nobody to tell.
func (p Process) Print(text string) { _, _ = io.WriteString(p.Stdout, text) }

// Complain writes to standard error.
func (p Process) Complain(format string, args ...any) { _, _ = fmt.Fprintf(p.Stderr, format, args...) }

// Command is one of a program's commands; args are those after its name.
type Command func(args []string, p Process) runcontract.ExitCode

// Dispatch carries out the command that args name: one of commands, or init,
// version or help, which every runner has.
func (p Process) Dispatch(args []string, usage string, commands map[string]Command) runcontract.ExitCode {
	if len(args) == 0 {
		p.Complain("%s", usage)
		return ExitUsage
	}
	if command, ok := commands[args[0]]; ok {
		return command(args[1:], p)
	}
	switch args[0] {
	case "init":
		return p.Init(args[1:])
	case "version", "--version", "-version":
		p.Print(p.Name + " " + Version() + "\n")
		return runcontract.ExitOK
	case "help", "--help", "-help", "-h":
		p.Print(usage)
		return runcontract.ExitOK
	}
	p.Complain("%s: unknown command %q\n\n%s", p.Name, args[0], usage)
	return ExitUsage
}

// ExitUsage is for command lines that cannot be understood.
const ExitUsage = runcontract.ExitInvalidSpec

// Version is the program's version.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown)"
	}
	return info.Main.Version
}

// Parse parses a command's flags, of which it has no others; done is true if there
// is nothing more to do.
func (p Process) Parse(flags *flag.FlagSet, help string, args []string) (code runcontract.ExitCode, done bool) {
	flags.SetOutput(p.Stderr)
	flags.Usage = func() {
		_, _ = io.WriteString(flags.Output(), help)
		flags.PrintDefaults()
	}
	for _, a := range args {
		if isHelp(a) { // what was asked for is no error
			flags.SetOutput(p.Stdout)
		}
		if a == "--" {
			break
		}
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return runcontract.ExitOK, true
	case err != nil:
		return ExitUsage, true
	case flags.NArg() > 0:
		p.Complain("%s %s: unexpected argument %q\n", p.Name, flags.Name(), flags.Arg(0))
		return ExitUsage, true
	}
	return runcontract.ExitOK, false
}

func isHelp(argument string) bool {
	return argument == "--help" || argument == "-help" || argument == "-h"
}

const initHelp = `%s init -- COMMAND [ARGUMENT...]

Runs COMMAND the way a container's first process must: SIGTERM and SIGINT are
passed on to COMMAND alone, orphaned processes are reaped, and when COMMAND has
ended, whatever it left running is killed. The exit code is COMMAND's, or 128
plus the signal that ended it; 126 and 127 if it cannot be run or found.
`

// Init is the command init: what follows it after "--" is run as by package pidone.
func (p Process) Init(args []string) runcontract.ExitCode {
	help := fmt.Sprintf(initHelp, p.Name)
	separator := slices.Index(args, "--")
	switch {
	case separator == 0 && len(args) > 1:
		code, err := pidone.Run(args[1:], p.Environ)
		if err != nil {
			p.Complain("%s init: %v\n", p.Name, err)
		}
		return runcontract.ExitCode(code)
	case len(args) == 1 && isHelp(args[0]):
		p.Print(help)
		return runcontract.ExitOK
	}
	p.Complain("%s", help)
	return ExitUsage
}

// Interruptible is a context that the first SIGTERM or SIGINT ends, with
// ErrInterrupted. Later ones change nothing: the run is being stopped already, and
// what it runs may take a second interrupt for a reason to give up.
func Interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-signals:
				cancel(ErrInterrupted)
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		close(done)
		<-ended
		signal.Stop(signals)
		cancel(nil)
	}
}

// Refuse ends a run of which so little is known that there is no Secret to
// publish to: only the log and the termination message say why.
func Refuse(terminationMessage string, phase api.Phase, code runcontract.ErrorCode, err error, redactor *redact.Redactor, log *runlog.Log) runcontract.ExitCode {
	log.Printf("== failed (%s): %v", code, err)
	result := runcontract.Result{
		Outcome:    runcontract.OutcomeFailed,
		Phase:      phase,
		ErrorCode:  code,
		Message:    redactor.String(err.Error()),
		FinishedAt: time.Now().UTC(),
	}
	if err := os.WriteFile(terminationMessage, result.Compact(), 0o600); err != nil {
		log.Printf("warning: write the termination message: %v", err)
	}
	return code.Exit()
}

// AdoptEnv puts the run spec's variables, which have been checked, into this
// process's environment, from where the AWS SDK takes endpoints, proxies and CA
// bundles.
func (p Process) AdoptEnv(env map[string]string) error {
	for key, value := range env {
		if err := p.Setenv(key, value); err != nil {
			return fmt.Errorf("run spec: env: %w", err)
		}
	}
	// Nobody makes the home folder in a container whose only writable folders are mounts.
	if home := p.Getenv("HOME"); home != "" {
		// The programs that miss it say so clearly enough.
		_ = os.MkdirAll(home, 0o700)
	}
	return nil
}
