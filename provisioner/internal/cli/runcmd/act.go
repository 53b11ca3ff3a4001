package runcmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/output"
)

// following is how a command goes on once it has a run: it prints it, at once or
// when it has ended.
type following struct {
	format  *output.Format
	wait    bool
	quiet   bool
	timeout time.Duration
}

func addFollowing(cmd *cobra.Command) *following {
	f := &following{format: output.Flag(cmd)}
	cmd.Flags().BoolVarP(&f.wait, "wait", "w", false, "wait until the run has ended, and show how it goes; exit code 3 if it fails")
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "with --wait: show nothing until the end")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "with --wait: for so long, such as 45m; the run goes on after that (exit code 5)")
	return f
}

func (f *following) check() error {
	if !f.wait && (f.quiet || f.timeout != 0) {
		return exit.Usagef("--quiet and --timeout need --wait")
	}
	if f.timeout < 0 {
		return exit.Usagef("--timeout must not be negative")
	}
	return nil
}

// Act makes do what cmd does: it gives a run, which is then shown as the flags say
// that Act adds.
func (k *Kind[Run, S]) Act(cmd *cobra.Command, do func(ctx context.Context, s S, args []string) (Run, error)) {
	k.act(cmd, new(string), do)
}

// Start is Act for what starts a run, and so has an idempotency key.
func (k *Kind[Run, S]) Start(cmd *cobra.Command, do func(ctx context.Context, s S, args []string) (Run, error)) {
	key := cmd.Flags().String("idempotency-key", "", "the same key and request give the same run, however often they are sent (default: a new key)")
	k.act(cmd, key, do)
}

func (k *Kind[Run, S]) act(cmd *cobra.Command, key *string, do func(ctx context.Context, s S, args []string) (Run, error)) {
	f := addFollowing(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		s, err := k.Connect(*key)
		if err != nil {
			return err
		}
		run, err := do(cmd.Context(), s, args)
		if err != nil {
			return err
		}
		return k.follow(cmd.Context(), s, run, f)
	}
}

// follow prints the run, after its end with --wait. A run that did not succeed is an
// error then.
func (k *Kind[Run, S]) follow(ctx context.Context, s S, run Run, f *following) error {
	if f.wait {
		last, err := k.wait(ctx, s, run, f)
		if err != nil {
			return err
		}
		run = last
	}
	if err := output.Print(k.Terminal.Out, *f.format, k.oneRun(run, time.Now())); err != nil {
		return err
	}
	if !f.wait {
		return nil
	}
	return k.endError(run)
}
