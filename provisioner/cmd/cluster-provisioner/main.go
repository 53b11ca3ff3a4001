// Command cluster-provisioner is the HTTP service that provisions Kubernetes
// clusters: one run of Terraform in a Kubernetes Job for every request.
//
// It is configured by environment variables, which --help lists.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/kubeopera/platform/provisioner/internal/config"
)

// version is set by the linker: -X main.version=...
var version = "devel"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster-provisioner:", err)
		os.Exit(1)
	}
}

// run is the program with its surroundings as parameters. It returns once
// everything has stopped.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("cluster-provisioner", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the error says it
	showVersion := flags.Bool("version", false, "print the version and exit")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return help(stdout)
	case err != nil:
		return fmt.Errorf("%w (see --help)", err)
	case flags.NArg() > 0:
		return errors.New("it takes no arguments (see --help)")
	case *showVersion:
		_, err := fmt.Fprintln(stdout, version)
		return err
	}
	cfg, err := config.Read(getenv)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: cfg.LogLevel}))
	klog.SetSlogLogger(log.With("component", "client-go"))
	log.InfoContext(ctx, "starting", "version", version, "config", cfg)
	return serve(ctx, cfg, log)
}

func help(w io.Writer) error {
	if _, err := fmt.Fprint(w, `cluster-provisioner provisions Kubernetes clusters: one run of Terraform in a
Kubernetes Job for every request to its HTTP API (/docs describes it).

Usage: cluster-provisioner [--help | --version]

It is configured by environment variables:

`); err != nil {
		return err
	}
	return config.WriteHelp(w)
}
