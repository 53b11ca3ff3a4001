package config

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/kubeopera/platform/shared/redact"
)

// setting is one environment variable.
type setting struct {
	name     string
	fallback string // its value when it is not set
	required bool
	help     string
	set      func(c *Config, value string) error
}

// settings are all variables, in the order of --help.
func settings() []setting {
	return []setting{
		{name: "LISTEN_ADDRESS", fallback: ":8080", help: "where the API, /metrics and the probes are served", set: func(c *Config, v string) error {
			return address(&c.ListenAddress, v)
		}},
		{name: "LOG_LEVEL", fallback: "info", help: "debug, info, warn or error", set: func(c *Config, v string) error {
			return logLevel(&c.LogLevel, v)
		}},
		{name: "DATABASE_URL", fallback: "sqlite:cluster-provisioner.db", help: "sqlite:///path or postgres://...", set: func(c *Config, v string) error {
			c.DatabaseURL = redact.Secret(v)
			return databaseURL(v)
		}},
		{name: "API_KEYS_FILE", required: true, help: "file with a line name:sha256 for every API key; it is read again when it changes", set: func(c *Config, v string) error {
			c.APIKeysFile = v
			return nil
		}},
		{name: "AUTH_SERVICE_URL", required: true, help: "base URL of auth-service, which keeps the cloud credentials", set: func(c *Config, v string) error {
			return webURL(&c.AuthServiceURL, v)
		}},
		{name: "AUTH_SERVICE_API_KEY_FILE", required: true, help: "file with this service's API key for auth-service", set: func(c *Config, v string) error {
			c.AuthServiceAPIKeyFile = v
			return nil
		}},
		{name: "KUBECONFIG", help: "kubeconfig of the cluster where runs live; unset: the cluster that the service runs in", set: func(c *Config, v string) error {
			c.Kubeconfig = v
			return nil
		}},
		{name: "NAMESPACE", fallback: "kubeopera-provisioning", help: "namespace of runs", set: func(c *Config, v string) error {
			return name(&c.Namespace, v)
		}},
		{name: "MODULES_REPOSITORY_URL", required: true, help: "Git URL of the repository with the Terraform modules, without a credential", set: func(c *Config, v string) error {
			return repositoryURL(&c.ModulesRepositoryURL, v)
		}},
		{name: "MODULES_REPOSITORY_REF", required: true, help: "tag or commit of that repository; a branch works, but then two runs may see different modules", set: func(c *Config, v string) error {
			return reference(&c.ModulesRepositoryRef, v)
		}},
		{name: "MODULES_CA_CONFIGMAP", help: "ConfigMap in NAMESPACE with the repository's CA under the key ca.crt; unset: publicly trusted", set: func(c *Config, v string) error {
			return name(&c.ModulesCAConfigMap, v)
		}},
		{name: "MODULES_AUTH_SECRET", help: "Secret in NAMESPACE with username and password for the repository; unset: public", set: func(c *Config, v string) error {
			return name(&c.ModulesAuthSecret, v)
		}},
		{name: "API_ALLOWED_CIDRS", help: "IPv4 ranges that may reach a cluster's public API server when a request names none; unset: the request must", set: func(c *Config, v string) error {
			return list(&c.APIAllowedCIDRs, v)
		}},
		{name: "RESERVED_ENVIRONMENTS", fallback: "development,staging,production", help: "Terraform environments that are kept by hand; requests for them are refused", set: func(c *Config, v string) error {
			return list(&c.ReservedEnvironments, v)
		}},
		{name: "MAX_WORKERS", fallback: "100", help: "most worker nodes that a request may ask for", set: func(c *Config, v string) error {
			return count(&c.MaxWorkers, v, 1, 1000)
		}},
		{name: "KUBECONFIG_EXEC", fallback: "aws", help: "exec plugin in EKS kubeconfigs: aws or eks-token-helper", set: func(c *Config, v string) error {
			return oneOf(&c.KubeconfigExec, v, "aws", "eks-token-helper")
		}},
		{name: "MAX_CONCURRENT_RUNS", fallback: "5", help: "most runs that have a Job at a time; others queue", set: func(c *Config, v string) error {
			return count(&c.MaxConcurrentRuns, v, 1, 500)
		}},
		{name: "RUN_TIMEOUT", fallback: "90m", help: "how long a run may take before Terraform is interrupted", set: func(c *Config, v string) error {
			return duration(&c.RunTimeout, v)
		}},
		{name: "GRACE_PERIOD", fallback: "20m", help: "how long an interrupted Terraform may take to save its state", set: func(c *Config, v string) error {
			return duration(&c.GracePeriod, v)
		}},
		{name: "CONTROL_PLANE_TIMEOUT", fallback: "20m", help: "how long the nodes of vanilla_kubeadm may take for the first kubeconfig, and again for the rest to join", set: func(c *Config, v string) error {
			return duration(&c.ControlPlaneTimeout, v)
		}},
		{name: "CONTROL_PLANE_POLL_INTERVAL", fallback: "20s", help: "how often a run asks what the nodes of vanilla_kubeadm have published", set: func(c *Config, v string) error {
			return duration(&c.ControlPlanePollInterval, v)
		}},
		{name: "START_DEADLINE", fallback: "10m", help: "how long a run's pod may take to start", set: func(c *Config, v string) error {
			return duration(&c.StartDeadline, v)
		}},
		{name: "SWEEP_INTERVAL", fallback: "2s", help: "how often queued and live runs are looked at", set: func(c *Config, v string) error {
			return duration(&c.SweepInterval, v)
		}},
		{name: "CREDENTIAL_ORPHAN_AGE", fallback: "10m", help: "after how long a credential Secret whose run was never recorded is deleted", set: func(c *Config, v string) error {
			return duration(&c.CredentialOrphanAge, v)
		}},
		{name: "RUNNER_ENV", help: "KEY=VALUE,... for Terraform and the AWS SDK: endpoints, proxies, CA bundles; no secrets", set: func(c *Config, v string) error {
			return environment(&c.RunnerEnv, v)
		}},
		{name: "RUNNER_BACKEND_CONFIG", help: "KEY=VALUE,... for terraform init -backend-config; no secrets", set: func(c *Config, v string) error {
			return environment(&c.RunnerBackendConfig, v)
		}},
	}
}

// WriteHelp writes every variable with its default.
func WriteHelp(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range settings() {
		note := ""
		switch {
		case s.required:
			note = " (required)"
		case s.fallback != "":
			note = " (default " + s.fallback + ")"
		}
		if _, err := fmt.Fprintf(table, "  %s\t%s%s\n", s.name, s.help, note); err != nil {
			return err
		}
	}
	return table.Flush()
}
