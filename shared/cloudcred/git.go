package cloudcred

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// The kinds of Git credentials.
const (
	// KindGitToken is a user's access token or password, for https.
	KindGitToken Kind = "git_token"
	// KindGitSSHKey is a private key, for ssh.
	KindGitSSHKey Kind = "git_ssh_key"
)

// GitCredential is a way into Git repositories that auth-service knows under an id.
type GitCredential struct {
	ID   string
	Name string
	Kind Kind

	Username string // for KindGitToken; may be empty
	Token    Secret // for KindGitToken

	PrivateKey Secret // for KindGitSSHKey, without a passphrase
	KnownHosts string // for KindGitSSHKey: the servers' host keys; may be empty
}

// Lengths in bytes that no Git credential reaches.
const (
	maxUsername   = 255
	maxToken      = 4 << 10
	maxPrivateKey = 16 << 10
	maxKnownHosts = 64 << 10
)

// ResolveGit gets a Git credential, as Resolve gets one for AWS. ErrUnsupported
// means that it is one for something else.
func (c *Client) ResolveGit(ctx context.Context, id string) (GitCredential, error) {
	w, err := c.ask(ctx, id)
	if err != nil {
		return GitCredential{}, err
	}
	g := GitCredential{ID: w.ID, Name: w.Name, Kind: w.Kind}
	switch w.Kind {
	case KindGitToken:
		g.Username, g.Token = w.GitToken.Username, w.GitToken.Token
		err = errors.Join(CheckUsername(g.Username), CheckToken(g.Token.Reveal()))
	case KindGitSSHKey:
		g.PrivateKey, g.KnownHosts = w.GitSSHKey.PrivateKey, w.GitSSHKey.KnownHosts
		err = errors.Join(CheckPrivateKey(g.PrivateKey.Reveal()), CheckKnownHosts(g.KnownHosts))
	default:
		return GitCredential{}, fmt.Errorf("credential %s: %w: it is neither %s nor %s; name another credential", w.ID, ErrUnsupported, KindGitToken, KindGitSSHKey)
	}
	if err != nil {
		return GitCredential{}, &InvalidError{ID: w.ID, Reason: strings.ReplaceAll(err.Error(), "\n", "; ")}
	}
	return g, nil
}

// CheckUsername says what makes a name unfit for basic authentication.
func CheckUsername(name string) error {
	if len(name) > maxUsername || strings.ContainsFunc(name, unprintable) || strings.Contains(name, ":") {
		return fmt.Errorf("username must have at most %d printable ASCII characters, and no colon", maxUsername)
	}
	return nil
}

// CheckToken says what makes a token unfit for basic authentication.
func CheckToken(token string) error {
	if token == "" || len(token) > maxToken || strings.ContainsFunc(token, unprintable) {
		return fmt.Errorf("token must have 1 to %d printable ASCII characters without spaces", maxToken)
	}
	return nil
}

func unprintable(r rune) bool { return r <= ' ' || r > '~' }

// CheckPrivateKey says what makes a text unfit to be an SSH private key that can be
// used without asking anybody. The key itself is not looked at.
func CheckPrivateKey(key string) error {
	block, rest := pem.Decode([]byte(key))
	switch {
	case len(key) > maxPrivateKey || block == nil || !strings.HasSuffix(block.Type, "PRIVATE KEY") || strings.TrimSpace(string(rest)) != "":
		return errors.New("the private key must be one in PEM form, from -----BEGIN to -----END")
	case block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["Proc-Type"] != "" || encrypted(block):
		return errors.New("the private key must not be protected by a passphrase")
	}
	return nil
}

// encrypted says whether a key in OpenSSH's own form is: the name of its cipher
// follows the magic (openssh-portable, PROTOCOL.key).
func encrypted(block *pem.Block) bool {
	cipher, ok := bytes.CutPrefix(block.Bytes, []byte("openssh-key-v1\x00"))
	return ok && !bytes.HasPrefix(cipher, []byte("\x00\x00\x00\x04none"))
}

// CheckKnownHosts says what makes a text unfit to be a file of known hosts: its
// form only. Empty text is fit.
func CheckKnownHosts(text string) error {
	if len(text) > maxKnownHosts {
		return fmt.Errorf("known_hosts must have at most %d bytes", maxKnownHosts)
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if strings.HasPrefix(line, "@") { // @cert-authority, @revoked
			fields = fields[1:]
		}
		if len(fields) < 3 || strings.ContainsFunc(line, func(r rune) bool { return r > '~' || r < ' ' && r != '\t' }) {
			return errors.New("known_hosts must have lines of host, type and key, as ssh-keyscan prints them")
		}
	}
	return nil
}
