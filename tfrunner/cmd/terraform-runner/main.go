// Command terraform-runner is what the Job of a provisioning run executes: as
// process 1, as the init container that clones the modules repository, and as
// the container that runs Terraform and publishes what it made.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/tfrunner/internal/run"
)

const usage = `terraform-runner runs Terraform for one provisioning run.

Usage:
  terraform-runner init -- COMMAND [ARGUMENT...]
  terraform-runner clone [flags]
  terraform-runner run [flags]
  terraform-runner version

Commands:
  init      run COMMAND as a container's first process does: pass signals on to
            it alone, reap orphans, end with its exit code, leave nothing behind
  clone     clone the modules repository at a pinned ref (init container)
  run       carry out the run that the mounted run.json describes
  version   print the version

"terraform-runner COMMAND --help" explains a command, its environment variables
and its exit codes.
`

// process is what a command gets from the operating system.
type process struct {
	getenv  func(string) string
	setenv  func(key, value string) error
	environ []string
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
}

// print writes to standard output. If that is gone there is nobody to tell.
func (p process) print(text string) { _, _ = io.WriteString(p.stdout, text) }

// complain writes to standard error.
func (p process) complain(format string, args ...any) { _, _ = fmt.Fprintf(p.stderr, format, args...) }

func main() {
	os.Exit(int(command(os.Args[1:], process{
		getenv:  os.Getenv,
		setenv:  os.Setenv,
		environ: os.Environ(),
		stdin:   os.Stdin,
		stdout:  os.Stdout,
		stderr:  os.Stderr,
	})))
}

// exitUsage is for command lines that cannot be understood.
const exitUsage = runcontract.ExitInvalidSpec

func command(args []string, p process) runcontract.ExitCode {
	if len(args) == 0 {
		p.complain("%s", usage)
		return exitUsage
	}
	switch args[0] {
	case "init":
		return initCommand(args[1:], p)
	case "clone":
		return cloneCommand(args[1:], p)
	case "run":
		return runCommand(args[1:], p)
	case gitHelper:
		return credentialCommand(args[1:], p)
	case "version", "--version", "-version":
		p.print("terraform-runner " + version() + "\n")
		return runcontract.ExitOK
	case "help", "--help", "-help", "-h":
		p.print(usage)
		return runcontract.ExitOK
	}
	p.complain("terraform-runner: unknown command %q\n\n%s", args[0], usage)
	return exitUsage
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown)"
	}
	return info.Main.Version
}

// parse parses a command's flags; done is true if there is nothing more to do.
func parse(flags *flag.FlagSet, help string, args []string, p process) (code runcontract.ExitCode, done bool) {
	flags.SetOutput(p.stderr)
	flags.Usage = func() {
		_, _ = io.WriteString(flags.Output(), help)
		flags.PrintDefaults()
	}
	for _, a := range args {
		if a == "--help" || a == "-help" || a == "-h" { // what was asked for is no error
			flags.SetOutput(p.stdout)
		}
		if a == "--" {
			break
		}
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return runcontract.ExitOK, true
	case err != nil:
		return exitUsage, true
	case flags.NArg() > 0:
		p.complain("terraform-runner %s: unexpected argument %q\n", flags.Name(), flags.Arg(0))
		return exitUsage, true
	}
	return runcontract.ExitOK, false
}

// interruptible is a context that the first SIGTERM or SIGINT ends. Later ones
// change nothing: Terraform is being stopped already, and a second interrupt
// would make it give up its state.
func interruptible() (context.Context, func()) {
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
				cancel(run.ErrInterrupted)
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
