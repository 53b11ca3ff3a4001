package config

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/envconfig"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runserver"
)

// env is the smallest configuration with changes.
func env(changes ...string) func(string) string {
	m := map[string]string{
		"API_KEYS_FILE":             "/keys",
		"AUTH_SERVICE_URL":          "http://auth-service",
		"AUTH_SERVICE_API_KEY_FILE": "/key",
		"MODULES_REPOSITORY_URL":    "https://git.example.com/gitops-iac.git",
		"MODULES_REPOSITORY_REF":    "v1.2.3",
	}
	for i := 0; i < len(changes); i += 2 {
		m[changes[i]] = changes[i+1]
	}
	return func(name string) string { return m[name] }
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	got, err := Read(env())
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Config: runserver.Config{
			ListenAddress: ":8080", LogLevel: slog.LevelInfo, DatabaseURL: "sqlite:cluster-provisioner.db", APIKeysFile: "/keys",
			AuthServiceURL: "http://auth-service", AuthServiceAPIKeyFile: "/key", Namespace: "kubeopera-provisioning",
			MaxConcurrentRuns: 5, RunTimeout: 90 * time.Minute, GracePeriod: 20 * time.Minute, StartDeadline: 10 * time.Minute,
			SweepInterval: 2 * time.Second, CredentialOrphanAge: 10 * time.Minute,
		},
		ModulesRepositoryURL: "https://git.example.com/gitops-iac.git", ModulesRepositoryRef: "v1.2.3",
		ReservedEnvironments: []string{"development", "staging", "production"}, MaxWorkers: 100, KubeconfigExec: "aws",
		ControlPlaneTimeout: 20 * time.Minute, ControlPlanePollInterval: 20 * time.Second,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		env   func(string) string
		got   func(Config) any
		want  any
		wrong string // what the error says; empty: none
	}{
		{name: "lists lose their spaces", env: env("API_ALLOWED_CIDRS", "198.51.100.0/24, 203.0.113.0/24,"), got: func(c Config) any { return c.APIAllowedCIDRs }, want: []string{"198.51.100.0/24", "203.0.113.0/24"}},
		{name: "pairs between commas", env: env("RUNNER_ENV", "AWS_ENDPOINT_URL=http://127.0.0.1:4566/?a=b,AWS_CA_BUNDLE=/ca"), got: func(c Config) any { return c.RunnerEnv }, want: map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:4566/?a=b", "AWS_CA_BUNDLE": "/ca"}},
		{name: "pairs between line breaks", env: env("RUNNER_ENV", "NO_PROXY=a,b\nHTTPS_PROXY=http://proxy\n"), got: func(c Config) any { return c.RunnerEnv }, want: map[string]string{"NO_PROXY": "a,b", "HTTPS_PROXY": "http://proxy"}},
		{name: "Postgres", env: env("DATABASE_URL", "postgres://u:p@db/x"), got: func(c Config) any { return c.DatabaseURL }, want: redact.Secret("postgres://u:p@db/x")},
		{name: "debug", env: env("LOG_LEVEL", "DEBUG"), got: func(c Config) any { return c.LogLevel }, want: slog.LevelDebug},

		{name: "nothing at all", env: func(string) string { return "" }, wrong: "MODULES_REPOSITORY_REF is required"},
		{name: "an address without a port", env: env("LISTEN_ADDRESS", "localhost"), wrong: "LISTEN_ADDRESS: must be host:port"},
		{name: "another level", env: env("LOG_LEVEL", "loud"), wrong: "LOG_LEVEL"},
		{name: "another database", env: env("DATABASE_URL", "mysql://x"), wrong: "DATABASE_URL"},
		{name: "a URL without a scheme", env: env("AUTH_SERVICE_URL", "auth-service:8080"), wrong: "AUTH_SERVICE_URL"},
		{name: "a repository with a token", env: env("MODULES_REPOSITORY_URL", "https://x:hunter2@git.example.com/x.git"), wrong: "MODULES_AUTH_SECRET"},
		{name: "a reference that is an option", env: env("MODULES_REPOSITORY_REF", "--upload-pack=x"), wrong: "MODULES_REPOSITORY_REF"},
		{name: "a namespace in upper case", env: env("NAMESPACE", "X"), wrong: "NAMESPACE"},
		{name: "no runs at a time", env: env("MAX_CONCURRENT_RUNS", "0"), wrong: "MAX_CONCURRENT_RUNS: must be a whole number from 1"},
		{name: "a duration without a unit", env: env("RUN_TIMEOUT", "90"), wrong: "RUN_TIMEOUT"},
		{name: "a negative duration", env: env("GRACE_PERIOD", "-1m"), wrong: "GRACE_PERIOD"},
		{name: "another plugin", env: env("KUBECONFIG_EXEC", "gcloud"), wrong: "KUBECONFIG_EXEC: must be aws or eks-token-helper"},
		{name: "a pair without a value", env: env("RUNNER_ENV", "X"), wrong: "RUNNER_ENV"},
		{name: "a key twice", env: env("RUNNER_ENV", "X=1,X=2"), wrong: "once"},
		{name: "a repository without TLS", env: env("MODULES_REPOSITORY_URL", "http://git.example.com/x.git"), wrong: "https"},
		{name: "a variable of Terraform's own", env: env("RUNNER_ENV", "TF_LOG=trace"), wrong: "TF_LOG"},
		{name: "a proxy's password", env: env("RUNNER_ENV", "HTTPS_PROXY=http://u:hunter2@proxy"), wrong: "password"},
		{name: "an AWS key", env: env("RUNNER_ENV", "AWS_SECRET_ACCESS_KEY=hunter2"), wrong: "auth-service"},
		{name: "an AWS key for the backend", env: env("RUNNER_BACKEND_CONFIG", "secret_key=hunter2"), wrong: "auth-service"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Read(c.env)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("error %v, want one that says %q and no secret", err, c.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, c.got(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := Read(env("LOG_LEVEL", "loud", "MAX_WORKERS", "many", "API_KEYS_FILE", ""))
	for _, says := range []string{"LOG_LEVEL", "MAX_WORKERS", "API_KEYS_FILE is required"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v does not mention %s", err, says)
		}
	}
}

func TestHelpNamesEveryVariable(t *testing.T) {
	t.Parallel()
	var help bytes.Buffer
	if err := envconfig.WriteHelp(&help, Settings()); err != nil {
		t.Fatal(err)
	}
	for _, s := range Settings() {
		if !strings.Contains(help.String(), "  "+s.Name+" ") || s.Help == "" {
			t.Errorf("%s is not in the help, or has none", s.Name)
		}
	}
}

// TestTheLogHoldsNoSecret: the configuration is logged at every start.
func TestTheLogHoldsNoSecret(t *testing.T) {
	t.Parallel()
	c, err := Read(env("DATABASE_URL", "postgres://u:hunter2@db/x", "RUNNER_ENV", "HTTPS_PROXY=http://hunter2.example", "RUNNER_BACKEND_CONFIG", "use_path_style=true"))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	slog.New(slog.NewTextHandler(&out, nil)).InfoContext(t.Context(), "configuration", "config", c)
	if strings.Contains(out.String(), "hunter2") {
		t.Errorf("the log holds a secret: %s", &out)
	}
	if !strings.Contains(out.String(), "HTTPS_PROXY") || !strings.Contains(out.String(), "config.run_timeout=1h30m0s") {
		t.Errorf("the log lacks the configuration: %s", &out)
	}
}
