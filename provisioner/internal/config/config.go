package config

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/kubeopera/platform/shared/redact"
)

// Config is the whole configuration of the service.
type Config struct {
	ListenAddress string
	LogLevel      slog.Level
	DatabaseURL   redact.Secret // may hold a password
	APIKeysFile   string

	AuthServiceURL        string
	AuthServiceAPIKeyFile string

	Kubeconfig string // empty: in-cluster
	Namespace  string

	ModulesRepositoryURL string
	ModulesRepositoryRef string
	ModulesCAConfigMap   string // empty: a publicly trusted certificate
	ModulesAuthSecret    string // empty: a public repository

	APIAllowedCIDRs      []string
	ReservedEnvironments []string
	MaxWorkers           int
	KubeconfigExec       string

	MaxConcurrentRuns int
	RunTimeout        time.Duration
	GracePeriod       time.Duration
	StartDeadline     time.Duration
	// ControlPlaneTimeout and ControlPlanePollInterval are for nodes that
	// bootstrap themselves.
	ControlPlaneTimeout      time.Duration
	ControlPlanePollInterval time.Duration
	SweepInterval            time.Duration
	// CredentialOrphanAge is when a credential Secret without a run is swept. It
	// is longer than a start takes: the Secret comes before the row.
	CredentialOrphanAge time.Duration

	RunnerEnv           map[string]string
	RunnerBackendConfig map[string]string
}

// Read reads the configuration. Its error names every variable that is missing
// or wrong, and none of their values.
func Read(getenv func(string) string) (Config, error) {
	var c Config
	var errs []error
	for _, s := range settings() {
		value := getenv(s.name)
		if value == "" {
			value = s.fallback
		}
		if value == "" {
			if s.required {
				errs = append(errs, fmt.Errorf("%s is required: %s", s.name, s.help))
			}
			continue
		}
		if err := s.set(&c, value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return Config{}, fmt.Errorf("configuration:\n%w", err)
	}
	return c, nil
}

// LogValue is the configuration for the log: secrets are redacted, and of what
// goes to the runner only the names are shown.
func (c Config) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("listen_address", c.ListenAddress),
		slog.String("log_level", c.LogLevel.String()),
		slog.Any("database_url", c.DatabaseURL),
		slog.String("api_keys_file", c.APIKeysFile),
		slog.String("auth_service_url", c.AuthServiceURL),
		slog.String("auth_service_api_key_file", c.AuthServiceAPIKeyFile),
		slog.String("kubeconfig", c.Kubeconfig),
		slog.String("namespace", c.Namespace),
		slog.String("modules_repository_url", c.ModulesRepositoryURL),
		slog.String("modules_repository_ref", c.ModulesRepositoryRef),
		slog.String("modules_ca_configmap", c.ModulesCAConfigMap),
		slog.String("modules_auth_secret", c.ModulesAuthSecret),
		slog.Any("api_allowed_cidrs", c.APIAllowedCIDRs),
		slog.Any("reserved_environments", c.ReservedEnvironments),
		slog.Int("max_workers", c.MaxWorkers),
		slog.String("kubeconfig_exec", c.KubeconfigExec),
		slog.Int("max_concurrent_runs", c.MaxConcurrentRuns),
		slog.String("run_timeout", c.RunTimeout.String()),
		slog.String("grace_period", c.GracePeriod.String()),
		slog.String("start_deadline", c.StartDeadline.String()),
		slog.String("control_plane_timeout", c.ControlPlaneTimeout.String()),
		slog.String("control_plane_poll_interval", c.ControlPlanePollInterval.String()),
		slog.String("sweep_interval", c.SweepInterval.String()),
		slog.String("credential_orphan_age", c.CredentialOrphanAge.String()),
		slog.Any("runner_env", slices.Sorted(maps.Keys(c.RunnerEnv))),
		slog.Any("runner_backend_config", slices.Sorted(maps.Keys(c.RunnerBackendConfig))),
	)
}
