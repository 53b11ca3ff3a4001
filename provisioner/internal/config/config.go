package config

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/kubeopera/platform/shared/envconfig"
	"github.com/kubeopera/platform/shared/runserver"
)

// Config is the whole configuration of the service.
type Config struct {
	runserver.Config

	ModulesRepositoryURL string
	ModulesRepositoryRef string
	ModulesCAConfigMap   string // empty: a publicly trusted certificate
	ModulesAuthSecret    string // empty: a public repository

	APIAllowedCIDRs      []string
	ReservedEnvironments []string
	MaxWorkers           int
	KubeconfigExec       string

	// ControlPlaneTimeout and ControlPlanePollInterval are for nodes that
	// bootstrap themselves.
	ControlPlaneTimeout      time.Duration
	ControlPlanePollInterval time.Duration

	RunnerBackendConfig map[string]string
}

// Read reads the configuration. Its error names every variable that is missing
// or wrong, and none of their values.
func Read(getenv func(string) string) (Config, error) {
	return envconfig.Read(Settings(), getenv)
}

// LogValue is the configuration for the log: secrets are redacted, and of what
// goes to the runner only the names are shown.
func (c Config) LogValue() slog.Value {
	return slog.GroupValue(append(c.Attrs(),
		slog.String("modules_repository_url", c.ModulesRepositoryURL),
		slog.String("modules_repository_ref", c.ModulesRepositoryRef),
		slog.String("modules_ca_configmap", c.ModulesCAConfigMap),
		slog.String("modules_auth_secret", c.ModulesAuthSecret),
		slog.Any("api_allowed_cidrs", c.APIAllowedCIDRs),
		slog.Any("reserved_environments", c.ReservedEnvironments),
		slog.Int("max_workers", c.MaxWorkers),
		slog.String("kubeconfig_exec", c.KubeconfigExec),
		slog.String("control_plane_timeout", c.ControlPlaneTimeout.String()),
		slog.String("control_plane_poll_interval", c.ControlPlanePollInterval.String()),
		slog.Any("runner_backend_config", slices.Sorted(maps.Keys(c.RunnerBackendConfig))),
	)...)
}
