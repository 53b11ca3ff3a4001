// Command kubeopera is the platform's command line: it starts, watches and ends
// runs of cluster-provisioner and gitops-scaffolder, hands out kubeconfigs, and sets
// up machines over SSH without a service.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/kubeopera/platform/provisioner/internal/cli"
	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
)

// version is set by the linker: -X main.version=...
var version = "devel"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one ends the program at once
	t := terminal.Terminal{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}
	code := cli.Run(ctx, cli.Program{Version: version, Terminal: t}, os.Args[1:])
	stop()
	os.Exit(int(code))
}
