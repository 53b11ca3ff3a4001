package sim

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/sim/git"
)

// Repository is a repository for GitOps trees. Only its token's owner and Flux,
// who reads it, may use it, unless a test allows more.
type Repository struct {
	*git.Repository

	Token      redact.Secret // may write
	Credential string        // id of the token in AuthService
	fluxToken  redact.Secret // may read
}

// fluxUser is who Flux reads repositories as.
const fluxUser = "flux"

// CreateRepository makes an empty repository for trees.
func (s *Simulator) CreateRepository(ctx context.Context, name string) (*Repository, error) {
	bare, err := s.Git.Create(ctx, name)
	if err != nil {
		return nil, err
	}
	r := &Repository{Repository: bare, Token: redact.Secret(rand.Text()), Credential: uuid.NewString(), fluxToken: redact.Secret(rand.Text())}
	r.Allow(git.Grant{Password: r.Token.Reveal()})
	r.Allow(git.Grant{Username: fluxUser, Password: r.fluxToken.Reveal(), ReadOnly: true})
	s.AuthService.PutGit(cloudcred.GitCredential{ID: r.Credential, Name: name, Kind: cloudcred.KindGitToken, Token: r.Token})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repositories = append(s.repositories, r)
	return r, nil
}

// Repositories are those that CreateRepository has made.
func (s *Simulator) Repositories() []*Repository {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.repositories)
}

// Secrets are secrets of the platform's own that must be nowhere but in its
// configuration, by what they are.
func (s *Simulator) Secrets() map[string]redact.Secret {
	secrets := map[string]redact.Secret{
		"the AWS secret access key":                       s.AccessKey.Secret,
		"the API key of cluster-provisioner":              redact.Secret(s.ClusterProvisioner.Key()),
		"the API key of gitops-scaffolder":                redact.Secret(s.GitOpsScaffolder.Key()),
		"gitops-scaffolder's key for cluster-provisioner": s.provisionerKey,
		"gitops-scaffolder's secret of digests":           s.digestSecret,
	}
	for _, r := range s.Repositories() {
		secrets["the token of "+r.URL()] = r.Token
		secrets["Flux's token of "+r.URL()] = r.fluxToken
	}
	return secrets
}

// MountedDir is the folder in Config.Dir for what a Deployment mounts from Secrets.
const MountedDir = "mounted"

// mount writes a secret of the services' configuration and gives the file.
func (s *Simulator) mount(name string, secret redact.Secret) (file string, err error) {
	dir := filepath.Join(s.config.Dir, MountedDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file = filepath.Join(dir, name)
	return file, os.WriteFile(file, []byte(secret.Reveal()+"\n"), 0o600)
}

// startGitOpsScaffolder starts the second service.
func (s *Simulator) startGitOpsScaffolder(ctx context.Context) error {
	s.digestSecret = redact.Secret(rand.Text() + rand.Text())
	env := map[string]string{
		"CLUSTER_PROVISIONER_URL": s.ClusterProvisioner.URL(),
		"GITOPS_REPOSITORY_URL":   s.Trees.URL(),
		"GIT_CA_CONFIGMAP":        gitCA,
		"POLL_INTERVAL":           "1s",
		"SEALED_SECRETS_TIMEOUT":  "10m", // the controllers may have to be built first
		"MERGE_TIMEOUT":           "10m",
	}
	var err error
	for variable, secret := range map[string]redact.Secret{
		"CLUSTER_PROVISIONER_API_KEY_FILE": s.provisionerKey,
		"GITOPS_TOKEN_FILE":                s.Trees.Token,
		"DIGEST_KEY_FILE":                  s.digestSecret,
	} {
		if env[variable], err = s.mount(variable, secret); err != nil {
			return err
		}
	}
	if s.GitOpsScaffolder, err = s.newService(ctx, gitopsScaffolder, filepath.Join(s.config.Bin, gitopsScaffolder), env); err != nil {
		return err
	}
	s.background(ctx, s.followScaffolds)
	return s.GitOpsScaffolder.Start(ctx, nil)
}
