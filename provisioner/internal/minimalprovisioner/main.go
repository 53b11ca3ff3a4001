// Command minimalprovisioner is cluster-provisioner for tests of what happens
// around an apply: crashes, queues, locks. Its environments are made of resources
// that Terraform has built in, so that a run needs no provider and takes seconds.
// Everything else is the real service with the real runner, configured in the
// same way. It is no topology, and is in no image.
//
// Tags of a request of topology eks steer its run: seconds and destroy_seconds
// say how long the apply and the destroy take, with fail the apply fails, and with
// aws the environment has the AWS provider.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/kubeopera/platform/provisioner/internal/config"
	"github.com/kubeopera/platform/provisioner/internal/service"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "minimalprovisioner:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, getenv func(string) string, stderr io.Writer) error {
	cfg, err := config.Read(getenv)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: cfg.LogLevel}))
	klog.SetSlogLogger(log.With("component", "client-go"))
	log.InfoContext(ctx, "starting", "version", "minimal", "config", cfg)
	return service.Run(ctx, cfg, service.Options{Version: "minimal", Log: log, Environment: render})
}
