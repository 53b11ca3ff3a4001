package cloudcred

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/kubeopera/platform/shared/runcontract"
)

// KindSSHKey is a private key by which machines let somebody in.
const KindSSHKey Kind = "ssh_key"

// SSHCredential is a way into machines that auth-service knows under an id.
type SSHCredential struct {
	ID   string
	Name string

	PrivateKey  Secret // in PEM form
	Passphrase  Secret // of PrivateKey; empty: it has none
	Certificate string // for PrivateKey, in authorized_keys form; empty: none
}

// Lengths in bytes that nobody's passphrase or certificate reaches.
const (
	maxPassphrase  = 1 << 10
	maxCertificate = 16 << 10
)

// ResolveSSH gets an SSH credential, as Resolve gets one for AWS. ErrUnsupported
// means that it is one for something else.
func (c *Client) ResolveSSH(ctx context.Context, id string) (SSHCredential, error) {
	w, err := c.ask(ctx, id)
	if err != nil {
		return SSHCredential{}, err
	}
	if w.Kind != KindSSHKey {
		return SSHCredential{}, fmt.Errorf("credential %s: %w: it is of another kind than %s; name another credential", w.ID, ErrUnsupported, KindSSHKey)
	}
	s := SSHCredential{
		ID: w.ID, Name: w.Name,
		PrivateKey: w.SSHKey.PrivateKey, Passphrase: w.SSHKey.Passphrase, Certificate: strings.TrimSpace(w.SSHKey.Certificate),
	}
	if err := s.Validate(); err != nil {
		return SSHCredential{}, &InvalidError{ID: w.ID, Reason: strings.ReplaceAll(err.Error(), "\n", "; ")}
	}
	return s, nil
}

// Validate says what makes a credential unfit: its form only. It names the field
// and no value.
func (s SSHCredential) Validate() error {
	var errs []error
	key := s.PrivateKey.Reveal()
	block, rest := pem.Decode([]byte(key))
	switch {
	case len(key) > maxPrivateKey || block == nil || !strings.HasSuffix(block.Type, "PRIVATE KEY") || strings.TrimSpace(string(rest)) != "":
		errs = append(errs, errors.New("private_key must be one in PEM form, from -----BEGIN to -----END"))
	case s.Passphrase == "" && CheckPrivateKey(key) != nil:
		errs = append(errs, errors.New("private_key is protected by a passphrase, and passphrase is empty"))
	}
	if pass := s.Passphrase.Reveal(); len(pass) > maxPassphrase || strings.ContainsAny(pass, "\x00\r\n") {
		errs = append(errs, fmt.Errorf("passphrase must be one line of at most %d bytes", maxPassphrase))
	}
	if cert := s.Certificate; cert != "" {
		fields := strings.Fields(cert)
		if len(cert) > maxCertificate || len(fields) < 2 || !strings.Contains(fields[0], "-cert-v01@openssh.com") || strings.ContainsAny(cert, "\x00\r\n") {
			errs = append(errs, errors.New("certificate must be one line, as ssh-keygen -s writes it: type and certificate in base64"))
		}
	}
	return errors.Join(errs...)
}

// Files are the keys of a credential Secret.
func (s SSHCredential) Files() map[string][]byte {
	files := map[string][]byte{runcontract.CredentialMachineKeyFile: []byte(s.PrivateKey.Reveal())}
	if s.Passphrase != "" {
		files[runcontract.CredentialMachinePassphraseFile] = []byte(s.Passphrase.Reveal())
	}
	if s.Certificate != "" {
		files[runcontract.CredentialMachineCertificateFile] = []byte(s.Certificate + "\n")
	}
	return files
}
