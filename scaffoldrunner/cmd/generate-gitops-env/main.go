// Command generate-gitops-env writes the Flux tree of an environment into the
// work tree of a repository.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
	"github.com/kubeopera/platform/scaffoldrunner/platform"
	"github.com/kubeopera/platform/scaffoldrunner/seal"
	"github.com/kubeopera/platform/scaffoldrunner/verify"
)

// Exit codes.
const (
	exitOK = iota
	exitFailed
	exitUsage
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command(ctx, os.Args[1:], time.Now, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// command is the whole program.
func command(ctx context.Context, args []string, now func() time.Time, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parse(args, stdin, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "generate-gitops-env: %v\n\"generate-gitops-env -help\" lists the flags\n", err)
		return exitUsage
	}
	if err := generate(ctx, o, now, stdout, stderr); err != nil {
		if refused, ok := errors.AsType[*verify.Error](err); ok {
			_, _ = fmt.Fprintln(stderr, "generate-gitops-env: nothing was written, since what was generated must not be pushed:")
			for _, f := range refused.Findings {
				_, _ = fmt.Fprintln(stderr, "  "+f.String())
			}
			return exitFailed
		}
		_, _ = fmt.Fprintf(stderr, "generate-gitops-env: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// generate reads the repository, generates, verifies, and writes or shows the
// difference. Nothing is written unless all of it was found good.
func generate(ctx context.Context, o options, now func() time.Time, stdout, stderr io.Writer) error {
	repository, err := openRepository(o.output, o.dryRun)
	if err != nil {
		return err
	}
	defer func() { _ = repository.Close() }()
	tree, err := repository.load()
	if err != nil {
		return err
	}
	base := gitopsenv.Base{Repository: tree, Platform: platform.Tree()}
	config := verify.Config{Base: base, Inputs: o.inputs, AllowDeletion: o.allowDeletion}
	if o.infraOnly {
		config.Environment, err = gitopsenv.Infrastructure(base, o.inputs)
	} else {
		var sealer *seal.Sealer
		if sealer, config.Certificate, err = o.sealer(now()); err == nil {
			config.Environment, err = gitopsenv.Complete(base, o.inputs, sealer)
		}
	}
	if err != nil {
		return err
	}
	for _, note := range config.Environment.Notes {
		_, _ = fmt.Fprintln(stderr, "note: "+note)
	}
	if err := verify.Verify(config); err != nil {
		return err
	}
	changes := gitopsenv.Changes(tree, config.Environment.Tree)
	if o.dryRun {
		_, err := stdout.Write(gitopsenv.Diff(changes))
		return err
	}
	if err := repository.write(ctx, changes); err != nil {
		return fmt.Errorf("%w; what was written is whole files: run again", err)
	}
	for _, c := range changes {
		verb := "changed"
		switch {
		case c.Old == nil:
			verb = "created"
		case c.New == nil:
			verb = "deleted"
		}
		_, _ = fmt.Fprintf(stdout, "%s %s\n", verb, c.Path)
	}
	if len(changes) == 0 {
		_, _ = fmt.Fprintln(stdout, "nothing to change")
	}
	return nil
}
