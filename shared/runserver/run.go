package runserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/kubeopera/platform/shared/database"
	"github.com/kubeopera/platform/shared/httpapi"
	"github.com/kubeopera/platform/shared/jobrun"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runs/store"
)

// Service is what sets one service apart from another.
type Service struct {
	Name    string // in the labels of everything that the service makes
	Version string // of the program, for its user agent
	Kind    runcontract.Kind
	Table   string // of its runs
	Log     *slog.Logger
	Render  runs.Renderer
	// API makes the HTTP API over the engine. All of the configuration that this
	// package knows is set.
	API func(engine *runs.Engine, cfg httpapi.Config) (*httpapi.API, error)
}

// Run is a service: it returns once ctx has ended and everything has stopped, or
// when it cannot go on.
func Run(ctx context.Context, cfg Config, s Service) (err error) {
	log := s.Log
	keys, err := httpapi.OpenKeys(cfg.APIKeysFile, log)
	if err != nil {
		return err
	}
	digestKey, err := requestDigestKey(cfg)
	if err != nil {
		return err
	}
	client, err := kubernetesClient(cfg.Kubeconfig, s.Name+"/"+s.Version)
	if err != nil {
		return err
	}
	db, err := database.Open(ctx, cfg.DatabaseURL.Reveal())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := store.Migrate(ctx, db, s.Table); err != nil {
		return err
	}
	cluster := jobrun.New(client, cfg.Namespace, s.Kind, s.Name)
	engine, err := runs.New(runs.Config{
		Kind:          s.Kind,
		Store:         store.New(db, s.Table),
		Cluster:       cluster,
		Render:        s.Render,
		MaxConcurrent: cfg.MaxConcurrentRuns,
		StartDeadline: cfg.StartDeadline,
		GracePeriod:   cfg.GracePeriod,
		SweepInterval: cfg.SweepInterval,
		OrphanAge:     cfg.CredentialOrphanAge,
		Log:           log,
	})
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewBuildInfoCollector(), engine.Collector())
	api, err := s.API(engine, httpapi.Config{
		Keys: keys, Log: log, Registry: registry, DigestKey: digestKey,
		Ready: ready(engine.Ready, func(ctx context.Context) (int64, error) { return store.CheckSchema(ctx, db, s.Table) }, log),
	})
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.ListenAddress)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	log.InfoContext(ctx, "listening", "address", listener.Addr().String())

	// Whichever stops first, by an error or because ctx ended, stops the others.
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return cluster.Run(ctx) })
	group.Go(func() error { return engine.Run(ctx) })
	group.Go(func() error { return httpapi.Serve(ctx, listener, api, log) })
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	log.InfoContext(ctx, "stopped")
	return nil
}
