// Package service is gitops-scaffolder put together: what it is made of beside
// what every service of runs has (shared/runserver).
package service

import (
	"context"
	"log/slog"

	"github.com/kubeopera/platform/scaffolder/internal/clusters"
	"github.com/kubeopera/platform/scaffolder/internal/config"
	"github.com/kubeopera/platform/scaffolder/internal/httpapi"
	"github.com/kubeopera/platform/scaffolder/internal/launch"
	"github.com/kubeopera/platform/scaffolder/internal/scaffold"
	"github.com/kubeopera/platform/shared/cloudcred"
	edge "github.com/kubeopera/platform/shared/httpapi"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runserver"
)

// serviceName is in the labels of everything that the service makes.
const serviceName = "gitops-scaffolder"

// Run is the service: it returns once ctx has ended and everything has stopped,
// or when it cannot go on.
func Run(ctx context.Context, cfg config.Config, version string, log *slog.Logger) error {
	if err := cfg.Check(); err != nil {
		return err
	}
	if _, err := cfg.Files.Secrets(); err != nil { // rather now than with the first run
		return err
	}
	credentials, err := cloudcred.NewClient(cloudcred.Config{BaseURL: cfg.AuthServiceURL, APIKeyFile: cfg.AuthServiceAPIKeyFile})
	if err != nil {
		return err
	}
	domain := scaffold.Config{
		Credentials: credentials, GitCredentials: credentials, Platform: cfg.Files, Signs: cfg.Files.SigningKey != "",
		Services: cfg.Services, RunTimeout: cfg.RunTimeout, MergeTimeout: cfg.MergeTimeout,
	}
	if cfg.Repository.URL != "" {
		domain.Repository = &cfg.Repository
	}
	if cfg.ProvisionerURL != "" {
		if domain.Clusters, err = clusters.New(cfg.ProvisionerURL, cfg.ProvisionerAPIKeyFile); err != nil {
			return err
		}
	}
	return runserver.Run(ctx, cfg.Config, runserver.Service{
		Name: serviceName, Version: version, Kind: runcontract.KindScaffold, Table: "scaffold_jobs", Log: log,
		Render: launch.Renderer(launch.Config{
			Namespace:            cfg.Namespace,
			ManagedBy:            serviceName,
			CAConfigMap:          cfg.CAConfigMap,
			AuthorName:           cfg.AuthorName,
			AuthorEmail:          cfg.AuthorEmail,
			Timeout:              cfg.RunTimeout,
			MergeTimeout:         cfg.MergeTimeout,
			GracePeriod:          cfg.GracePeriod,
			StartDeadline:        cfg.StartDeadline,
			SealedSecretsTimeout: cfg.SealedSecretsTimeout,
			PollInterval:         cfg.PollInterval,
			Env:                  cfg.RunnerEnv,
		}),
		API: func(engine *runs.Engine, api edge.Config) (*edge.API, error) {
			domain.Runs = engine
			service, err := scaffold.New(domain)
			if err != nil {
				return nil, err
			}
			return httpapi.New(service, api)
		},
	})
}
