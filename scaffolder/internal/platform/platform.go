// Package platform reads what the platform itself brings to scaffolding runs from
// files that can be rotated.
package platform

import (
	"fmt"
	"os"
	"strings"

	"github.com/kubeopera/platform/scaffolder/internal/scaffold"
	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/redact"
)

// minDigestSecret is what the secret of digests must have at least, in bytes.
const minDigestSecret = 32

// Files are where the secrets are; of all but DigestSecret the empty path means
// that there is none.
type Files struct {
	Token        string
	SSHKey       string
	KnownHosts   string
	SigningKey   string
	DigestSecret string
}

// Secrets implements scaffold.Platform.
func (f Files) Secrets() (scaffold.PlatformSecrets, error) {
	var s scaffold.PlatformSecrets
	for _, file := range []struct {
		path, what string
		set        func(text string) error
	}{
		{f.Token, "token of the platform's repository", func(text string) error {
			s.Token = redact.Secret(text)
			return cloudcred.CheckToken(text)
		}},
		{f.SSHKey, "SSH key of the platform's repository", func(text string) error {
			s.SSHKey = redact.Secret(text)
			return cloudcred.CheckPrivateKey(text)
		}},
		{f.KnownHosts, "known hosts of the platform's repository", func(text string) error {
			s.KnownHosts = text
			return cloudcred.CheckKnownHosts(text)
		}},
		{f.SigningKey, "signing key", func(text string) error {
			s.SigningKey = redact.Secret(text)
			return cloudcred.CheckPrivateKey(text)
		}},
		{f.DigestSecret, "secret of digests", func(text string) error {
			s.DigestSecret = redact.Secret(text)
			if len(text) < minDigestSecret {
				return fmt.Errorf("it must hold at least %d bytes", minDigestSecret)
			}
			return nil
		}},
	} {
		if file.path == "" {
			continue
		}
		data, err := os.ReadFile(file.path)
		if err != nil {
			return scaffold.PlatformSecrets{}, fmt.Errorf("%s: %w", file.what, err)
		}
		if err := file.set(strings.TrimSpace(string(data))); err != nil {
			return scaffold.PlatformSecrets{}, fmt.Errorf("%s: %s: %w", file.what, file.path, err)
		}
	}
	return s, nil
}
