package runserver

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"

	"k8s.io/klog/v2"

	"github.com/kubeopera/platform/shared/envconfig"
)

// Program is the command of a service, which takes its configuration from
// environment variables.
type Program[C any] struct {
	Name     string
	Version  string
	About    string // what it does, for --help; ends in a line break
	Settings []envconfig.Setting[C]
	LogLevel func(C) slog.Level
	Run      func(ctx context.Context, cfg C, log *slog.Logger) error
}

// Main is the program with its surroundings as parameters. It returns once
// everything has stopped.
func (p Program[C]) Main(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the error says it
	showVersion := flags.Bool("version", false, "print the version and exit")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return p.help(stdout)
	case err != nil:
		return fmt.Errorf("%w (see --help)", err)
	case flags.NArg() > 0:
		return errors.New("it takes no arguments (see --help)")
	case *showVersion:
		_, err := fmt.Fprintln(stdout, p.Version)
		return err
	}
	cfg, err := envconfig.Read(p.Settings, getenv)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: p.LogLevel(cfg)}))
	klog.SetSlogLogger(log.With("component", "client-go"))
	log.InfoContext(ctx, "starting", "version", p.Version, "config", cfg)
	return p.Run(ctx, cfg, log)
}

func (p Program[C]) help(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%s\nUsage: %s [--help | --version]\n\nIt is configured by environment variables:\n\n", p.About, p.Name); err != nil {
		return err
	}
	return envconfig.WriteHelp(w, p.Settings)
}
