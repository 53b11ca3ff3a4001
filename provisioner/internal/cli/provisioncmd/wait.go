package provisioncmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/output"
	"github.com/kubeopera/platform/provisioner/internal/cli/progress"
	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/client"
)

// following is how a command goes on once it has a run: it prints it, at once or
// when it has ended.
type following struct {
	format  *output.Format
	wait    bool
	quiet   bool
	timeout time.Duration
}

// addFollowing adds the flags.
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

// follow prints the run, after its end with --wait. A run that did not succeed is an
// error then.
func (c *commands) follow(ctx context.Context, p *client.Provisioner, run api.Provision, f *following) error {
	if f.wait {
		last, err := c.wait(ctx, p, run, f)
		if err != nil {
			return err
		}
		run = last
	}
	if err := output.Print(c.session.Terminal.Out, *f.format, c.oneRun(run)); err != nil {
		return err
	}
	if !f.wait {
		return nil
	}
	return endError(run)
}

// endError is nil for a run that has succeeded.
func endError(run api.Provision) error {
	switch run.Status {
	case api.StatusFailed:
		return &exit.Error{Code: exit.RunFailed, Err: fmt.Errorf("run %s failed: %s (%s)\n  log: kubeopera provision logs %s", run.ID, run.Message, run.ErrorCode, run.ID)}
	case api.StatusCancelled:
		return &exit.Error{Code: exit.RunCancelled, Err: fmt.Errorf("run %s was cancelled", run.ID)}
	case api.StatusSucceeded, api.StatusQueued, api.StatusRunning, api.StatusCancelling:
	}
	return nil
}

// display is what shows a run.
type display interface {
	Seed(events []api.Event)
	Run(watch func(show func(api.Provision)) error) error
}

type noDisplay struct{}

func (noDisplay) Seed([]api.Event)                                {}
func (noDisplay) Run(watch func(func(api.Provision)) error) error { return watch(nil) }

func (c *commands) display(quiet bool) display {
	t := c.session.Terminal
	if quiet {
		return noDisplay{}
	}
	if _, ok := t.Screen(); !ok {
		return progress.NewLines(t.Err)
	}
	return progress.NewLive(t.Err, func() terminal.Screen {
		screen, _ := t.Screen()
		return screen
	})
}

// wait shows a run until it has ended.
func (c *commands) wait(ctx context.Context, p *client.Provisioner, run api.Provision, f *following) (api.Provision, error) {
	limited, cancel := timeLimit(ctx, f.timeout)
	defer cancel()
	d := c.display(f.quiet)
	if run.StartedAt != nil {
		// What was before; without it, the picture begins with what is.
		if events, err := p.ProvisionEvents(limited, run.ID); err == nil {
			d.Seed(events)
		}
	}
	var last api.Provision
	err := d.Run(func(show func(api.Provision)) (err error) {
		last, err = p.Wait(limited, run.ID, show)
		return err
	})
	switch {
	case err == nil:
		return last, nil
	case errors.Is(context.Cause(limited), errTimeout):
		return last, &exit.Error{Code: exit.NotFinished, Err: fmt.Errorf("run %s has not ended within %s; %s", run.ID, f.timeout, goOn(run.ID))}
	case ctx.Err() != nil:
		return last, &exit.Error{Code: exit.Interrupted, Err: fmt.Errorf("run %s was not waited for any longer; %s", run.ID, goOn(run.ID))}
	}
	return last, err
}

func goOn(id string) string {
	return fmt.Sprintf("it goes on\n  watch:  kubeopera provision get %s --wait\n  cancel: kubeopera provision cancel %s", id, id)
}
