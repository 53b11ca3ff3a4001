// Command kubeopera-sim brings up the platform's simulator: `up` leaves it
// running, `demo` provisions clusters in it, scaffolds one, and shows the results.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/sim/machine"
)

func main() {
	// Everything lives in a PID namespace, so that nothing outlives this process.
	if err := machine.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, "kubeopera-sim:", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args, os.Getenv, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "kubeopera-sim:", err)
		os.Exit(1) //nolint:gocritic // stop only matters to a process that goes on
	}
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	root := &cobra.Command{
		Use:   "kubeopera-sim",
		Short: "The whole platform on one machine, without a cloud",
		Long: `kubeopera-sim runs cluster-provisioner and gitops-scaffolder with all that they
need on this machine: real Kubernetes control planes, real Terraform with the real
AWS provider, real Flux and sealed-secrets controllers, and stand-ins for AWS, Git
and auth-service. sim/README.md lists them.

State and logs go to .sim in the checkout and are removed at the next start.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetArgs(args[1:])
	root.SetOut(stdout)
	root.SetErr(stderr)
	env := environment{getenv: getenv, stdout: stdout, stderr: stderr}
	root.AddCommand(upCommand(env), demoCommand(env))
	return root.ExecuteContext(ctx)
}

// environment is the operating system as the commands see it.
type environment struct {
	getenv         func(string) string
	stdout, stderr io.Writer
}
