package runserver

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/kubeopera/platform/shared/envconfig"
	"github.com/kubeopera/platform/shared/redact"
)

// Config is the part of a service's configuration that all services have.
type Config struct {
	ListenAddress string
	LogLevel      slog.Level
	DatabaseURL   redact.Secret // may hold a password
	APIKeysFile   string
	// RequestDigestKeyFile is optional; without it the key comes from AuthServiceAPIKeyFile.
	RequestDigestKeyFile string

	AuthServiceURL        string
	AuthServiceAPIKeyFile string

	Kubeconfig string // empty: in-cluster
	Namespace  string

	MaxConcurrentRuns int
	RunTimeout        time.Duration
	GracePeriod       time.Duration
	StartDeadline     time.Duration
	SweepInterval     time.Duration
	// CredentialOrphanAge is when a credential Secret without a run is swept. It
	// is longer than a start takes: the Secret comes before the row.
	CredentialOrphanAge time.Duration

	RunnerEnv map[string]string
}

// Defaults are the defaults that differ between services.
type Defaults struct {
	Database    string // DATABASE_URL
	RunTimeout  string // RUN_TIMEOUT
	GracePeriod string // GRACE_PERIOD
	// Work and Saving say what a run's deadline ends and what its grace period is for.
	Work, Saving string
}

// Settings are the variables of Config, in the order of --help.
func Settings(d Defaults) []envconfig.Setting[Config] {
	return []envconfig.Setting[Config]{
		{Name: "LISTEN_ADDRESS", Fallback: ":8080", Help: "where the API, /metrics and the probes are served", Set: func(c *Config, v string) error {
			return envconfig.Address(&c.ListenAddress, v)
		}},
		{Name: "LOG_LEVEL", Fallback: "info", Help: "debug, info, warn or error", Set: func(c *Config, v string) error {
			return envconfig.LogLevel(&c.LogLevel, v)
		}},
		{Name: "DATABASE_URL", Fallback: d.Database, Help: "sqlite:///path or postgres://...", Set: func(c *Config, v string) error {
			return envconfig.DatabaseURL(&c.DatabaseURL, v)
		}},
		{Name: "API_KEYS_FILE", Required: true, Help: "file with a line name:sha256 for every API key; it is read again when it changes", Set: func(c *Config, v string) error {
			return envconfig.Text(&c.APIKeysFile, v)
		}},
		{Name: "AUTH_SERVICE_URL", Required: true, Help: "base URL of auth-service, which keeps the stored credentials", Set: func(c *Config, v string) error {
			return envconfig.WebURL(&c.AuthServiceURL, v)
		}},
		{Name: "AUTH_SERVICE_API_KEY_FILE", Required: true, Help: "file with this service's API key for auth-service", Set: func(c *Config, v string) error {
			return envconfig.Text(&c.AuthServiceAPIKeyFile, v)
		}},
		{Name: "REQUEST_DIGEST_KEY_FILE", Help: "file with a secret of at least 16 bytes, the same for all replicas, by which a request is known that comes again with its Idempotency-Key; unset: AUTH_SERVICE_API_KEY_FILE, and keys used before that key is rotated are refused after", Set: func(c *Config, v string) error {
			return envconfig.Text(&c.RequestDigestKeyFile, v)
		}},
		{Name: "KUBECONFIG", Help: "kubeconfig of the cluster where runs live; unset: the cluster that the service runs in", Set: func(c *Config, v string) error {
			return envconfig.Text(&c.Kubeconfig, v)
		}},
		{Name: "NAMESPACE", Fallback: "kubeopera-provisioning", Help: "namespace of runs", Set: func(c *Config, v string) error {
			return envconfig.Name(&c.Namespace, v)
		}},
		{Name: "MAX_CONCURRENT_RUNS", Fallback: "5", Help: "most runs that have a Job at a time; others queue", Set: func(c *Config, v string) error {
			return envconfig.Count(&c.MaxConcurrentRuns, v, 1, 500)
		}},
		{Name: "RUN_TIMEOUT", Fallback: d.RunTimeout, Help: "how long a run may take before " + d.Work, Set: func(c *Config, v string) error {
			return envconfig.Duration(&c.RunTimeout, v)
		}},
		{Name: "GRACE_PERIOD", Fallback: d.GracePeriod, Help: "how long " + d.Saving, Set: func(c *Config, v string) error {
			return envconfig.Duration(&c.GracePeriod, v)
		}},
		{Name: "START_DEADLINE", Fallback: "10m", Help: "how long a run's pod may take to start", Set: func(c *Config, v string) error {
			return envconfig.Duration(&c.StartDeadline, v)
		}},
		{Name: "SWEEP_INTERVAL", Fallback: "2s", Help: "how often queued and live runs are looked at", Set: func(c *Config, v string) error {
			return envconfig.Duration(&c.SweepInterval, v)
		}},
		{Name: "CREDENTIAL_ORPHAN_AGE", Fallback: "10m", Help: "after how long a credential Secret whose run was never recorded is deleted", Set: func(c *Config, v string) error {
			return envconfig.Duration(&c.CredentialOrphanAge, v)
		}},
		{Name: "RUNNER_ENV", Help: "KEY=VALUE,... for the programs of a run and the AWS SDK: endpoints, proxies, CA bundles; no secrets", Set: func(c *Config, v string) error {
			return envconfig.Environment(&c.RunnerEnv, v)
		}},
	}
}

// Attrs is the configuration for the log: secrets are redacted, and of what goes
// to the runner only the names are shown.
func (c Config) Attrs() []slog.Attr {
	return []slog.Attr{
		slog.String("listen_address", c.ListenAddress),
		slog.String("log_level", c.LogLevel.String()),
		slog.Any("database_url", c.DatabaseURL),
		slog.String("api_keys_file", c.APIKeysFile),
		slog.String("request_digest_key_file", c.RequestDigestKeyFile),
		slog.String("auth_service_url", c.AuthServiceURL),
		slog.String("auth_service_api_key_file", c.AuthServiceAPIKeyFile),
		slog.String("kubeconfig", c.Kubeconfig),
		slog.String("namespace", c.Namespace),
		slog.Int("max_concurrent_runs", c.MaxConcurrentRuns),
		slog.String("run_timeout", c.RunTimeout.String()),
		slog.String("grace_period", c.GracePeriod.String()),
		slog.String("start_deadline", c.StartDeadline.String()),
		slog.String("sweep_interval", c.SweepInterval.String()),
		slog.String("credential_orphan_age", c.CredentialOrphanAge.String()),
		slog.Any("runner_env", slices.Sorted(maps.Keys(c.RunnerEnv))),
	}
}
