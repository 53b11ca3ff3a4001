package scaffold

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/kubeconfig"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runservice"
)

// Timeout is how long a run with these inputs may take; see Config.
func (in Inputs) Timeout(run, merge time.Duration) time.Duration {
	if in.Mode == api.PushPullRequest && !in.DryRun {
		return run + 2*merge
	}
	return run
}

// gather looks up what inputs name, and gives the inputs completed by what was
// found and the files of the run's credential Secret. exec is of the caller's
// kubeconfig.
func (s *Service) gather(ctx context.Context, in Inputs, secrets api.ScaffoldSecrets, exec *kubeconfig.Exec) (Inputs, map[string][]byte, error) {
	if in.Repository.Platform {
		if s.cfg.Repository == nil { // there was one when the run was started
			return in, nil, runservice.Invalid("body", "cannot be retried: the service has no repository of its own any more")
		}
		// As it is now: its credential must not go to where it was.
		in.Repository = *s.cfg.Repository
	}
	platform, err := s.cfg.Platform.Secrets()
	if err != nil {
		return in, nil, err
	}
	files := map[string][]byte{runcontract.CredentialRegistryPasswordFile: []byte(secrets.RegistryPassword)}
	digestKey, err := hkdf.Key(sha256.New, []byte(platform.DigestSecret.Reveal()), nil, "kubeopera sealed value digest of "+in.Tree.Environment, sha256.Size)
	if err != nil {
		return in, nil, fmt.Errorf("key of digests: %w", err)
	}
	files[runcontract.CredentialDigestKeyFile] = digestKey
	switch {
	case !in.Signed:
	case secrets.SigningKey != "":
		files[runcontract.CredentialSigningKeyFile] = []byte(secrets.SigningKey)
	case platform.SigningKey != "":
		files[runcontract.CredentialSigningKeyFile] = []byte(keyFile(platform.SigningKey.Reveal()))
	default:
		in.Signed = false // the platform has stopped to sign since
	}
	if in, err = s.access(ctx, in, secrets, platform, files); err != nil {
		return in, nil, err
	}
	if in, err = s.cluster(ctx, in, secrets, exec, files); err != nil {
		return in, nil, err
	}
	return in, files, nil
}

// access adds the files with which the repository is reached.
func (s *Service) access(ctx context.Context, in Inputs, secrets api.ScaffoldSecrets, platform PlatformSecrets, files map[string][]byte) (Inputs, error) {
	r := &in.Repository
	token, key, knownHosts := secrets.Token, secrets.SSHKey, r.KnownHosts
	switch {
	case r.Platform:
		token, key, knownHosts = platform.Token.Reveal(), platform.SSHKey.Reveal(), platform.KnownHosts
	case r.CredentialID != "":
		stored, err := s.resolveGit(ctx, r.CredentialID)
		if err != nil {
			return in, err
		}
		token, key = stored.Token.Reveal(), stored.PrivateKey.Reveal()
		if knownHosts == "" {
			knownHosts = stored.KnownHosts
		}
		if r.Username == "" {
			r.Username = stored.Username
		}
		kind := map[runcontract.RepositoryAuth]cloudcred.Kind{runcontract.RepositoryAuthToken: cloudcred.KindGitToken, runcontract.RepositoryAuthSSH: cloudcred.KindGitSSHKey}[r.Auth]
		if stored.Kind != kind {
			return in, &runservice.CredentialError{ID: r.CredentialID, Reason: fmt.Sprintf("a credential of kind %s, for the URL that the repository has: it is of kind %s", kind, stored.Kind)}
		}
		if kind == cloudcred.KindGitSSHKey && strings.TrimSpace(knownHosts) == "" {
			return in, &runservice.CredentialError{ID: r.CredentialID, Reason: "a credential with known_hosts, or known_hosts beside it: without the server's host key anybody could be the server"}
		}
	}
	if r.Auth == runcontract.RepositoryAuthToken {
		if r.Username == "" {
			r.Username = defaultUsername
		}
		files[runcontract.CredentialGitTokenFile] = []byte(token)
		return in, nil
	}
	files[runcontract.CredentialSSHKeyFile] = []byte(keyFile(key))
	files[runcontract.CredentialKnownHostsFile] = []byte(strings.TrimSpace(knownHosts) + "\n")
	return in, nil
}

// resolveGit asks auth-service for a Git credential; see runservice.Resolver.
func (s *Service) resolveGit(ctx context.Context, id string) (cloudcred.GitCredential, error) {
	stored, err := s.cfg.GitCredentials.ResolveGit(ctx, id)
	use := runservice.CredentialUse{
		Name: "the Git credential", Taker: "Git",
		Wanted: fmt.Sprintf("a credential of kind %s or %s: there is no use for another", cloudcred.KindGitToken, cloudcred.KindGitSSHKey),
	}
	return stored, use.Refused(id, err)
}

// cluster adds the files with which the target is reached.
func (s *Service) cluster(ctx context.Context, in Inputs, secrets api.ScaffoldSecrets, exec *kubeconfig.Exec, files map[string][]byte) (Inputs, error) {
	t := &in.Target
	if t.ProvisionID == "" {
		files[runcontract.CredentialKubeconfigFile] = []byte(secrets.Kubeconfig)
		return s.awsFiles(ctx, in, exec, files)
	}
	cluster, err := s.cfg.Clusters.Cluster(ctx, t.ProvisionID)
	if err != nil {
		return in, fmt.Errorf("look up the cluster of provisioning run %s: %w", t.ProvisionID, err)
	}
	info, err := kubeconfig.Check(cluster.Kubeconfig)
	if err != nil {
		return in, &ClusterError{Provision: t.ProvisionID, Status: api.StatusSucceeded, Reason: "its kubeconfig cannot be used: " + err.Error()}
	}
	files[runcontract.CredentialKubeconfigFile] = cluster.Kubeconfig
	t.Server, t.EKS = info.Server, nil
	if info.Exec == nil {
		t.CredentialID = ""
		return in, nil
	}
	t.EKS = &runcontract.EKSCluster{Name: info.Exec.Cluster, Region: info.Exec.Region}
	if t.CredentialID == "" && info.Exec.AccessKeyID == "" {
		t.CredentialID = strings.ToLower(cluster.CredentialID)
	}
	return s.awsFiles(ctx, in, info.Exec, files)
}

// awsFiles adds the AWS files of a target whose tokens AWS signs: of the stored
// credential if one is named, else of the key that the kubeconfig holds.
func (s *Service) awsFiles(ctx context.Context, in Inputs, exec *kubeconfig.Exec, files map[string][]byte) (Inputs, error) {
	t := in.Target
	if t.EKS == nil {
		return in, nil
	}
	var credential cloudcred.Credential
	switch {
	case t.CredentialID != "":
		resolver := runservice.Resolver{Credentials: s.cfg.Credentials, Timeout: in.Timeout(s.cfg.RunTimeout, s.cfg.MergeTimeout), Now: s.cfg.Now}
		var err error
		if credential, err = resolver.Resolve(ctx, t.CredentialID); err != nil {
			return in, err
		}
	case exec != nil:
		key := execKey(exec)
		if err := key.Validate(); err != nil {
			return in, &ClusterError{Provision: t.ProvisionID, Status: api.StatusSucceeded, Reason: "the AWS key in its kubeconfig is none"}
		}
		credential = cloudcred.Credential{Kind: cloudcred.KindAccessKey, AccessKey: &key}
	}
	maps.Copy(files, credential.Files(t.EKS.Region, in.Tree.Environment))
	return in, nil
}

func sameID(a, b string) bool { return a != "" && strings.EqualFold(a, b) }
