package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubeopera/platform/provisioner/internal/config"
	"github.com/kubeopera/platform/provisioner/internal/httpapi"
	"github.com/kubeopera/platform/provisioner/internal/kube"
	"github.com/kubeopera/platform/provisioner/internal/launch"
	"github.com/kubeopera/platform/provisioner/internal/provision"
	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/database"
	edge "github.com/kubeopera/platform/shared/httpapi"
	"github.com/kubeopera/platform/shared/jobrun"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runs/store"
)

const (
	// serviceName is in the labels of everything that the service makes.
	serviceName = "cluster-provisioner"
	table       = "provision_jobs"
)

// serve wires the service together and runs it until ctx ends.
func serve(ctx context.Context, cfg config.Config, log *slog.Logger) (err error) {
	keys, err := edge.OpenKeys(cfg.APIKeysFile, log)
	if err != nil {
		return err
	}
	credentials, err := cloudcred.NewClient(cloudcred.Config{BaseURL: cfg.AuthServiceURL, APIKeyFile: cfg.AuthServiceAPIKeyFile})
	if err != nil {
		return err
	}
	client, err := kubernetesClient(cfg.Kubeconfig)
	if err != nil {
		return err
	}
	db, err := database.Open(ctx, cfg.DatabaseURL.Reveal())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := store.Migrate(ctx, db, table); err != nil {
		return err
	}

	cluster := jobrun.New(client, cfg.Namespace, runcontract.KindProvision, serviceName)
	engine, err := runs.New(runs.Config{
		Kind:    runcontract.KindProvision,
		Store:   store.New(db, table),
		Cluster: cluster,
		Render: launch.Renderer(launch.Config{
			Namespace: cfg.Namespace,
			ManagedBy: serviceName,
			Modules: kube.Modules{
				RepositoryURL: cfg.ModulesRepositoryURL,
				RepositoryRef: cfg.ModulesRepositoryRef,
				CAConfigMap:   cfg.ModulesCAConfigMap,
				AuthSecret:    cfg.ModulesAuthSecret,
			},
			Timeout:                  cfg.RunTimeout,
			GracePeriod:              cfg.GracePeriod,
			StartDeadline:            cfg.StartDeadline,
			ControlPlaneTimeout:      cfg.ControlPlaneTimeout,
			ControlPlanePollInterval: cfg.ControlPlanePollInterval,
			KubeconfigExec:           cfg.KubeconfigExec,
			Env:                      cfg.RunnerEnv,
			BackendConfig:            cfg.RunnerBackendConfig,
		}),
		MaxConcurrent: cfg.MaxConcurrentRuns,
		StartDeadline: cfg.StartDeadline,
		SweepInterval: cfg.SweepInterval,
		OrphanAge:     cfg.CredentialOrphanAge,
		Log:           log,
	})
	if err != nil {
		return err
	}
	service, err := provision.New(provision.Config{
		Runs:        engine,
		Credentials: credentials,
		Limits: provision.Limits{
			MaxWorkers:           cfg.MaxWorkers,
			ReservedEnvironments: cfg.ReservedEnvironments,
			APIAllowedCIDRs:      cfg.APIAllowedCIDRs,
		},
		RunTimeout: cfg.RunTimeout,
	})
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewBuildInfoCollector())
	api, err := httpapi.New(service, edge.Config{Keys: keys, Log: log, Ready: ready(engine.Ready, log), Registry: registry})
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
	group.Go(func() error { return edge.Serve(ctx, listener, api, log) })
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	log.InfoContext(ctx, "stopped")
	return nil
}

// ready says which dependency does not answer. Anybody may ask, and a driver's
// error holds addresses and names of users, so that only the log has it.
func ready(check func(context.Context) error, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		err := check(ctx)
		if err == nil {
			return nil
		}
		log.WarnContext(ctx, "not ready", "error", err)
		switch {
		case errors.Is(err, runs.ErrDatabase):
			return errors.New("the database does not answer as it should")
		case errors.Is(err, runs.ErrKubernetes):
			return errors.New("the Kubernetes API does not answer as it should")
		}
		return errors.New("the service's log says why")
	}
}

// kubernetesClient speaks to the cluster where runs live.
func kubernetesClient(kubeconfig string) (kubernetes.Interface, error) {
	var cfg *rest.Config
	var err error
	if kubeconfig != "" {
		cfg, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	} else {
		cfg, err = rest.InClusterConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	cfg.UserAgent = serviceName + "/" + version
	// client-go's own limit, 5 requests a second, would be the bottleneck with a
	// few dozen live runs; the API server has its own fair queues.
	cfg.QPS, cfg.Burst = 50, 100
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	return client, nil
}
