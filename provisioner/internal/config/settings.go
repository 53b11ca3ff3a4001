package config

import (
	"errors"
	"net/url"
	"regexp"

	"github.com/kubeopera/platform/shared/envconfig"
	"github.com/kubeopera/platform/shared/runserver"
)

// Settings are all variables, in the order of --help.
func Settings() []envconfig.Setting[Config] {
	common := runserver.Settings(runserver.Defaults{
		Database: "sqlite:cluster-provisioner.db", RunTimeout: "90m", GracePeriod: "20m",
		Work: "Terraform is interrupted", Saving: "an interrupted Terraform may take to save its state",
	})
	return append(envconfig.Within(common, func(c *Config) *runserver.Config { return &c.Config }), []envconfig.Setting[Config]{
		{Name: "MODULES_REPOSITORY_URL", Required: true, Help: "Git URL of the repository with the Terraform modules, without a credential", Set: func(c *Config, v string) error {
			return repositoryURL(&c.ModulesRepositoryURL, v)
		}},
		{Name: "MODULES_REPOSITORY_REF", Required: true, Help: "tag or commit of that repository; a branch works, but then two runs may see different modules", Set: func(c *Config, v string) error {
			return reference(&c.ModulesRepositoryRef, v)
		}},
		{Name: "MODULES_CA_CONFIGMAP", Help: "ConfigMap in NAMESPACE with the repository's CA under the key ca.crt; unset: publicly trusted", Set: func(c *Config, v string) error {
			return envconfig.Name(&c.ModulesCAConfigMap, v)
		}},
		{Name: "MODULES_AUTH_SECRET", Help: "Secret in NAMESPACE with username and password for the repository; unset: public", Set: func(c *Config, v string) error {
			return envconfig.Name(&c.ModulesAuthSecret, v)
		}},
		{Name: "API_ALLOWED_CIDRS", Help: "IPv4 ranges that may reach a cluster's public API server when a request names none; unset: the request must", Set: func(c *Config, v string) error {
			return envconfig.List(&c.APIAllowedCIDRs, v)
		}},
		{Name: "RESERVED_ENVIRONMENTS", Fallback: "development,staging,production", Help: "Terraform environments that are kept by hand; requests for them are refused", Set: func(c *Config, v string) error {
			return envconfig.List(&c.ReservedEnvironments, v)
		}},
		{Name: "MAX_WORKERS", Fallback: "100", Help: "most worker nodes that a request may ask for", Set: func(c *Config, v string) error {
			return envconfig.Count(&c.MaxWorkers, v, 1, 1000)
		}},
		{Name: "KUBECONFIG_EXEC", Fallback: "aws", Help: "exec plugin in EKS kubeconfigs: aws or eks-token-helper", Set: func(c *Config, v string) error {
			return envconfig.OneOf(&c.KubeconfigExec, v, "aws", "eks-token-helper")
		}},
		{Name: "CONTROL_PLANE_TIMEOUT", Fallback: "20m", Help: "how long the nodes of vanilla_kubeadm may take for the first kubeconfig, and again for the rest to join", Set: func(c *Config, v string) error {
			return envconfig.Duration(&c.ControlPlaneTimeout, v)
		}},
		{Name: "CONTROL_PLANE_POLL_INTERVAL", Fallback: "20s", Help: "how often a run asks what the nodes of vanilla_kubeadm have published", Set: func(c *Config, v string) error {
			return envconfig.Duration(&c.ControlPlanePollInterval, v)
		}},
		{Name: "RUNNER_BACKEND_CONFIG", Help: "KEY=VALUE,... for terraform init -backend-config; no secrets", Set: func(c *Config, v string) error {
			return envconfig.Environment(&c.RunnerBackendConfig, v)
		}},
	}...)
}

// repositoryURL takes https only: whoever can change the modules on their way
// runs code with the customer's credential. It refuses a password, since the URL
// ends up in a Job's spec.
func repositoryURL(to *string, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return errors.New("must be an https URL")
	}
	if u.User != nil {
		return errors.New("must not hold a credential: name a Secret in MODULES_AUTH_SECRET")
	}
	*to = text
	return nil
}

var gitReference = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]*$`)

func reference(to *string, text string) error {
	if !gitReference.MatchString(text) {
		return errors.New("must be a tag, branch or commit: letters, digits, '.', '_', '/', '-'")
	}
	*to = text
	return nil
}
