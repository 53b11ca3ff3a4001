package config

import (
	"bytes"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/scaffolder/internal/platform"
	"github.com/kubeopera/platform/scaffolder/internal/scaffold"
	"github.com/kubeopera/platform/shared/runcontract"
)

// env is the smallest configuration with changes.
func env(changes ...string) func(string) string {
	m := map[string]string{
		"API_KEYS_FILE": "/keys", "AUTH_SERVICE_URL": "http://auth-service", "AUTH_SERVICE_API_KEY_FILE": "/key", "DIGEST_KEY_FILE": "/digest",
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
		Config: got.Config, Repository: scaffold.Repository{Branch: "main", Username: "git"}, Files: platform.Files{DigestSecret: "/digest"},
		AuthorName: "KubeOpera", AuthorEmail: "gitops-scaffolder@kubeopera.invalid", Services: got.Services,
		SealedSecretsTimeout: 20 * time.Minute, MergeTimeout: 8 * time.Hour, PollInterval: 5 * time.Second,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.DatabaseURL.Reveal() != "sqlite:gitops-scaffolder.db" || got.RunTimeout != time.Hour || got.GracePeriod != 2*time.Minute {
		t.Errorf("defaults of what services share: %+v", got.Config)
	}
}

// TestDefaultServicesAreThoseOfTheTree: a service that the platform has can be
// asked for.
func TestDefaultServicesAreThoseOfTheTree(t *testing.T) {
	t.Parallel()
	got, err := Read(env())
	if err != nil {
		t.Fatal(err)
	}
	apps, err := os.ReadDir("../../../scaffoldrunner/platform/tree/apps")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, a := range apps {
		want = append(want, a.Name())
	}
	if diff := cmp.Diff(want, got.Services); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		env   func(string) string
		check func(Config) bool
		wrong string
	}{
		{name: "a repository by https", env: env("GITOPS_REPOSITORY_URL", "https://git.example.com/x.git", "GITOPS_TOKEN_FILE", "/token"), check: func(c Config) bool {
			return c.Repository.Platform && c.Repository.Auth == runcontract.RepositoryAuthToken && c.Files.Token == "/token"
		}},
		{name: "a repository by ssh", env: env("GITOPS_REPOSITORY_URL", "git@git.example.com:x.git", "GITOPS_SSH_KEY_FILE", "/k", "GITOPS_KNOWN_HOSTS_FILE", "/h"), check: func(c Config) bool {
			return c.Repository.Auth == runcontract.RepositoryAuthSSH
		}},
		{name: "services of the repository's own", env: env("SERVICES", "*"), check: func(c Config) bool { return c.Services == nil }},
		{name: "some services", env: env("SERVICES", "a, b"), check: func(c Config) bool { return slices.Equal(c.Services, []string{"a", "b"}) }},
		{name: "an author", env: env("COMMIT_AUTHOR", "Acme Bot <bot@acme.example.com>"), check: func(c Config) bool { return c.AuthorName == "Acme Bot" && c.AuthorEmail == "bot@acme.example.com" }},
		{name: "a service that is none", env: env("SERVICES", "A B"), wrong: "SERVICES"},
		{name: "a repository without its token", env: env("GITOPS_REPOSITORY_URL", "https://git.example.com/x.git"), wrong: "GITOPS_TOKEN_FILE is required"},
		{name: "a repository without known hosts", env: env("GITOPS_REPOSITORY_URL", "git@git.example.com:x.git", "GITOPS_SSH_KEY_FILE", "/k"), wrong: "GITOPS_KNOWN_HOSTS_FILE"},
		{name: "a token without its repository", env: env("GITOPS_TOKEN_FILE", "/token"), wrong: "GITOPS_REPOSITORY_URL"},
		{name: "a repository with a password", env: env("GITOPS_REPOSITORY_URL", "https://u:hunter2@git.example.com/x.git", "GITOPS_TOKEN_FILE", "/t"), wrong: "GITOPS_REPOSITORY_URL"},
		{name: "a branch that is none", env: env("GITOPS_REPOSITORY_BRANCH", "-f"), wrong: "GITOPS_REPOSITORY_BRANCH"},
		{name: "a provisioner without its key", env: env("CLUSTER_PROVISIONER_URL", "http://cluster-provisioner"), wrong: "CLUSTER_PROVISIONER_API_KEY_FILE"},
		{name: "an author without an address", env: env("COMMIT_AUTHOR", "me"), wrong: "COMMIT_AUTHOR"},
		{name: "no key of digests", env: env("DIGEST_KEY_FILE", ""), wrong: "DIGEST_KEY_FILE is required"},
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
			if err != nil || !c.check(got) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// TestTheLogHoldsNoSecret: the configuration is logged at every start.
func TestTheLogHoldsNoSecret(t *testing.T) {
	t.Parallel()
	c, err := Read(env("DATABASE_URL", "postgres://u:hunter2@db/x", "RUNNER_ENV", "HTTPS_PROXY=http://hunter2.example"))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	slog.New(slog.NewTextHandler(&out, nil)).InfoContext(t.Context(), "configuration", "config", c)
	if strings.Contains(out.String(), "hunter2") {
		t.Errorf("the log holds a secret: %s", &out)
	}
	if !strings.Contains(out.String(), "HTTPS_PROXY") || !strings.Contains(out.String(), "config.merge_timeout=8h0m0s") {
		t.Errorf("the log lacks the configuration: %s", &out)
	}
}
