package service

import (
	"context"
	"log/slog"

	"github.com/kubeopera/platform/provisioner/internal/config"
	"github.com/kubeopera/platform/provisioner/internal/httpapi"
	"github.com/kubeopera/platform/provisioner/internal/kube"
	"github.com/kubeopera/platform/provisioner/internal/launch"
	"github.com/kubeopera/platform/provisioner/internal/provision"
	"github.com/kubeopera/platform/provisioner/internal/terraformenv"
	"github.com/kubeopera/platform/shared/cloudcred"
	edge "github.com/kubeopera/platform/shared/httpapi"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runs"
	"github.com/kubeopera/platform/shared/runserver"
)

// serviceName is in the labels of everything that the service makes.
const serviceName = "cluster-provisioner"

// Options is what a program adds to its configuration.
type Options struct {
	// Version is the program's, for its user agent.
	Version string
	Log     *slog.Logger
	// Environment renders the files of a Terraform environment; nil: the ones
	// that the topologies have.
	Environment func(terraformenv.Environment) (map[string]string, error)
}

// Run is the service: it returns once ctx has ended and everything has stopped,
// or when it cannot go on.
func Run(ctx context.Context, cfg config.Config, opts Options) error {
	credentials, err := cloudcred.NewClient(cloudcred.Config{BaseURL: cfg.AuthServiceURL, APIKeyFile: cfg.AuthServiceAPIKeyFile})
	if err != nil {
		return err
	}
	return runserver.Run(ctx, cfg.Config, runserver.Service{
		Name: serviceName, Version: opts.Version, Kind: runcontract.KindProvision, Table: "provision_jobs", Log: opts.Log,
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
			Environment:              opts.Environment,
		}),
		API: func(engine *runs.Engine, api edge.Config) (*edge.API, error) {
			service, err := provision.New(provision.Config{
				Runs:        engine,
				Credentials: credentials, SSHCredentials: credentials,
				Limits: provision.Limits{
					MaxWorkers:           cfg.MaxWorkers,
					ReservedEnvironments: cfg.ReservedEnvironments,
					APIAllowedCIDRs:      cfg.APIAllowedCIDRs,
				},
				RunTimeout: cfg.RunTimeout,
			})
			if err != nil {
				return nil, err
			}
			return httpapi.New(service, api)
		},
	})
}
