package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// identity is what to log in with: a key of one's own, an agent, or both.
type identity struct {
	signer ssh.Signer // nil without a key
	socket string     // empty without an agent
}

// identity reads the keys, once.
func (c Config) identity() (identity, error) {
	refuse := func(hint string, err error) (identity, error) {
		return identity{}, &AuthError{Target: c.Target, User: c.User, Err: err, Hint: hint}
	}
	var id identity
	auth := c.Auth
	if auth.UseAgent {
		id.socket = auth.AgentSocket
		if id.socket == "" {
			id.socket, _ = os.LookupEnv("SSH_AUTH_SOCK")
		}
		if id.socket == "" {
			return refuse("start an agent, or name its socket", errors.New("no SSH agent: SSH_AUTH_SOCK is not set"))
		}
	}
	pem := []byte(auth.Key.Reveal())
	if len(pem) == 0 && auth.KeyFile != "" {
		data, err := os.ReadFile(auth.KeyFile)
		if err != nil {
			return refuse("name a private key that this user may read", fmt.Errorf("read private key: %w", err))
		}
		pem = data
	}
	if len(pem) == 0 {
		if id.socket == "" {
			return refuse("give a private key or use an agent", errors.New("there is no key to log in with"))
		}
		return id, nil
	}
	signer, err := parseKey(pem, auth.Passphrase.Reveal())
	if err != nil {
		if _, missing := errors.AsType[*ssh.PassphraseMissingError](err); missing {
			return refuse("give its passphrase, or use an agent", errors.New("the private key is encrypted"))
		}
		return refuse("give a private key as ssh-keygen writes it (PEM or OpenSSH form) and the right passphrase", fmt.Errorf("private key: %w", err))
	}
	id.signer = signer
	cert := auth.Certificate
	if len(cert) == 0 && auth.CertificateFile != "" {
		if cert, err = os.ReadFile(auth.CertificateFile); err != nil {
			return refuse("name a certificate that this user may read", fmt.Errorf("read certificate: %w", err))
		}
	}
	if len(cert) > 0 {
		if id.signer, err = certified(signer, cert, c.User, time.Now()); err != nil {
			return refuse("have the key certified anew (ssh-keygen -s)", fmt.Errorf("certificate: %w", err))
		}
	}
	return id, nil
}

func parseKey(pem []byte, passphrase string) (ssh.Signer, error) {
	signer, err := ssh.ParsePrivateKey(pem)
	if _, missing := errors.AsType[*ssh.PassphraseMissingError](err); missing && passphrase != "" {
		return ssh.ParsePrivateKeyWithPassphrase(pem, []byte(passphrase))
	}
	return signer, err
}

// certified is signer with a certificate that is good for user now.
func certified(signer ssh.Signer, line []byte, user string, now time.Time) (ssh.Signer, error) {
	key, _, _, _, err := ssh.ParseAuthorizedKey(line)
	if err != nil {
		return nil, err
	}
	cert, ok := key.(*ssh.Certificate)
	if !ok {
		return nil, fmt.Errorf("it is a plain %s key", key.Type())
	}
	if cert.CertType != ssh.UserCert {
		return nil, errors.New("it is for hosts, not for users")
	}
	if unix := now.Unix(); unix < 0 || uint64(unix) >= cert.ValidBefore {
		return nil, errors.New("it has expired")
	}
	if len(cert.ValidPrincipals) > 0 && !slices.Contains(cert.ValidPrincipals, user) {
		return nil, fmt.Errorf("it is for %s", strings.Join(cert.ValidPrincipals, ", "))
	}
	return ssh.NewCertSigner(cert, signer)
}

// method is how to log in once. done closes the connection to the agent.
func (id identity) method(ctx context.Context) (method ssh.AuthMethod, done func(), err error) {
	if id.socket == "" {
		return ssh.PublicKeys(id.signer), func() {}, nil
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", id.socket)
	if err != nil {
		return nil, nil, fmt.Errorf("SSH agent: %w", err)
	}
	keys := agent.NewClient(conn)
	method = ssh.PublicKeysCallback(func() ([]ssh.Signer, error) {
		signers, err := keys.Signers()
		if id.signer == nil {
			if err == nil && len(signers) == 0 {
				err = errors.New("it has no keys")
			}
			if err != nil {
				return nil, fmt.Errorf("SSH agent: %w", err)
			}
			return signers, nil
		}
		// The key that was named comes first: servers count attempts.
		return append([]ssh.Signer{id.signer}, signers...), nil
	})
	return method, func() { _ = conn.Close() }, nil
}

// fingerprint is of the key that is used, with a blank after it; empty if an agent
// chooses.
func (id identity) fingerprint() string {
	if id.signer == nil {
		return ""
	}
	return ssh.FingerprintSHA256(id.signer.PublicKey()) + " "
}
