// Command gitops-scaffolder is the HTTP service that makes the Flux trees of
// environments: one Kubernetes Job for every request.
//
// It is configured by environment variables, which --help lists.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/kubeopera/platform/scaffolder/internal/config"
	"github.com/kubeopera/platform/scaffolder/internal/service"
	"github.com/kubeopera/platform/shared/runserver"
)

// version is set by the linker: -X main.version=...
var version = "devel"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gitops-scaffolder:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	return runserver.Program[config.Config]{
		Name: "gitops-scaffolder", Version: version,
		About: `gitops-scaffolder makes the Flux trees of environments: one Kubernetes Job for
every request to its HTTP API (/docs describes it).
`,
		Settings: config.Settings(),
		LogLevel: func(c config.Config) slog.Level { return c.LogLevel },
		Run: func(ctx context.Context, cfg config.Config, log *slog.Logger) error {
			return service.Run(ctx, cfg, version, log)
		},
	}.Main(ctx, args, getenv, stdout, stderr)
}
