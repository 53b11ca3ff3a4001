package provision

import (
	"context"
	"fmt"
	"maps"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/runservice"
)

// SSHCredentials resolves the SSH credentials that auth-service keeps.
type SSHCredentials interface {
	ResolveSSH(ctx context.Context, id string) (cloudcred.SSHCredential, error)
}

// credentials are what a run works with.
type credentials struct {
	kind  cloudcred.Kind    // of the one for AWS; empty: there is none
	files map[string][]byte // of the run's credential Secret
}

// resolve asks auth-service for what the inputs name.
func (s *Service) resolve(ctx context.Context, in Inputs) (credentials, error) {
	c := credentials{files: map[string][]byte{}}
	if in.CredentialID != "" {
		credential, err := s.credentials.Resolve(ctx, in.CredentialID)
		if err != nil {
			return credentials{}, err
		}
		c.kind = credential.Kind
		maps.Copy(c.files, credential.Files(in.Region, in.Environment))
	}
	if in.SSHCredentialID != "" {
		credential, err := s.resolveSSH(ctx, in.SSHCredentialID)
		if err != nil {
			return credentials{}, err
		}
		maps.Copy(c.files, credential.Files())
	}
	return c, nil
}

// resolveSSH gives a *runservice.CredentialError for a credential that cannot be
// used; that auth-service does not answer is another error.
func (s *Service) resolveSSH(ctx context.Context, id string) (cloudcred.SSHCredential, error) {
	credential, err := s.ssh.ResolveSSH(ctx, id)
	use := runservice.CredentialUse{Name: "the SSH credential", Taker: "machines", Wanted: fmt.Sprintf("a credential of kind %s", cloudcred.KindSSHKey)}
	return credential, use.Refused(id, err)
}

func defaultAuth(kind cloudcred.Kind) api.KubeconfigAuth {
	if kind == cloudcred.KindAccessKey {
		return api.KubeconfigAuthEmbedded
	}
	return api.KubeconfigAuthExecOnly
}
