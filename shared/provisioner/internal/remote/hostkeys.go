package remote

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// hostKeyCheck decides about the key of one handshake.
type hostKeyCheck struct {
	config Config
	// algorithms are the only ones to ask for; nil for any. A server with several
	// keys else presents one of another kind than the known one.
	algorithms []string
	refused    *HostKeyError // set by check
}

// newHostKeyCheck looks up what is known of the host.
func newHostKeyCheck(c Config) (*hostKeyCheck, error) {
	h := &hostKeyCheck{config: c}
	if len(c.HostKeys.Pinned) > 0 {
		h.algorithms = algorithms(c.HostKeys.Pinned)
		return h, nil
	}
	if c.HostKeys.Policy == PolicyOff {
		return h, nil
	}
	unlock, err := h.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	known, err := h.known()
	if err != nil {
		return nil, err
	}
	want, authorities := known.keys(c.address())
	h.algorithms = algorithms(want)
	if len(want) == 0 {
		h.algorithms = slices.Clone(preferred)
	}
	// A certificate is of use only if there is somebody to vouch for it.
	for _, a := range ssh.SupportedAlgorithms().HostKeys {
		if authorities && strings.Contains(a, "-cert-") {
			h.algorithms = append(h.algorithms, a)
		}
	}
	return h, nil
}

// preferred is what a host that was never seen is asked for, in this order.
var preferred = []string{
	ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
}

// algorithms are those by which a server proves to have one of keys.
func algorithms(keys []ssh.PublicKey) []string {
	var out []string
	for _, k := range keys {
		kinds := []string{k.Type()}
		if k.Type() == ssh.KeyAlgoRSA { // the key's name is that of its oldest algorithm
			kinds = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
		}
		for _, kind := range kinds {
			if !slices.Contains(out, kind) {
				out = append(out, kind)
			}
		}
	}
	return out
}

// check is the handshake's callback.
func (h *hostKeyCheck) check(_ string, _ net.Addr, key ssh.PublicKey) error {
	refused := h.decide(key)
	if refused == nil {
		return nil
	}
	refused.Target = h.config.Target
	refused.Fingerprint = key.Type() + " " + ssh.FingerprintSHA256(key)
	h.refused = refused
	return refused
}

func (h *hostKeyCheck) decide(key ssh.PublicKey) *HostKeyError {
	keys := h.config.HostKeys
	if len(keys.Pinned) > 0 {
		for _, p := range keys.Pinned {
			if bytes.Equal(p.Marshal(), key.Marshal()) {
				return nil
			}
		}
		return &HostKeyError{
			Err:  errors.New("not one of the keys that were given for it"),
			Hint: "compare with the host's console; if the machine was replaced, give its new key",
		}
	}
	if keys.Policy == PolicyOff {
		return nil
	}
	unlock, err := h.lock()
	if err != nil {
		return &HostKeyError{Err: err, Hint: "make the directory writable, or pin the key"}
	}
	defer unlock()
	known, err := h.known()
	if err != nil {
		return &HostKeyError{Err: err, Hint: "repair the file"}
	}
	err = known.check(h.config.address(), key)
	var unknown *knownhosts.KeyError
	var revoked *knownhosts.RevokedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &revoked):
		return &HostKeyError{Err: fmt.Errorf("revoked by %s, line %d", revoked.Revoked.Filename, revoked.Revoked.Line), Hint: "give the host a new key"}
	case errors.As(err, &unknown) && len(unknown.Want) > 0:
		return &HostKeyError{
			Err: fmt.Errorf("another than in %s, line %d", unknown.Want[0].Filename, unknown.Want[0].Line),
			Hint: "somebody may be in between; if the machine was replaced, compare with its console and run ssh-keygen -R '" +
				knownhosts.Normalize(h.config.address()) + "' -f '" + keys.KnownHostsFile + "'",
		}
	case !errors.As(err, &unknown):
		return &HostKeyError{Err: err, Hint: "have the host certified anew, or pin its key"}
	case keys.Policy == PolicyStrict:
		return &HostKeyError{
			Err:  fmt.Errorf("not in %s", keys.KnownHostsFile),
			Hint: "compare with the host's console and add it there, or pin it",
		}
	}
	if err := h.remember(known, key); err != nil {
		return &HostKeyError{Err: err, Hint: "make the file writable, or pin the key"}
	}
	return nil
}

// remember adds a key to what is known.
func (h *hostKeyCheck) remember(known knownHosts, key ssh.PublicKey) error {
	line := knownhosts.Line([]string{h.config.address()}, key) + "\n"
	if n := len(known.text); n > 0 && known.text[n-1] != '\n' {
		line = "\n" + line
	}
	file, err := os.OpenFile(h.config.HostKeys.KnownHostsFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("remember host key: %w", err)
	}
	_, err = file.WriteString(line)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("remember host key: %w", err)
	}
	return nil
}

// lock keeps other processes from the known hosts if any may add to them. The file
// of the lock stays: removing it would let two processes lock two files of that name.
func (h *hostKeyCheck) lock() (unlock func(), err error) {
	if h.config.HostKeys.Policy != PolicyAcceptNew {
		return func() {}, nil // the file may be read-only
	}
	path := h.config.HostKeys.KnownHostsFile
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("known hosts: %w", err)
	}
	file, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the path is the caller's configuration
	if err != nil {
		return nil, fmt.Errorf("lock known hosts: %w", err)
	}
	if err := lockFile(file); err != nil {
		return nil, errors.Join(fmt.Errorf("lock known hosts: %w", err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}

// knownHosts is a file of known hosts as it was when it was read.
type knownHosts struct {
	text  []byte
	check func(address string, key ssh.PublicKey) error
}

// known reads the file; one that does not exist knows nobody.
func (h *hostKeyCheck) known() (knownHosts, error) {
	path := h.config.HostKeys.KnownHostsFile
	text, err := os.ReadFile(path) //nolint:gosec // the path is the caller's configuration
	if errors.Is(err, fs.ErrNotExist) {
		return knownHosts{check: func(string, ssh.PublicKey) error { return new(knownhosts.KeyError) }}, nil
	}
	if err != nil {
		return knownHosts{}, fmt.Errorf("known hosts: %w", err)
	}
	callback, err := knownhosts.New(path)
	if err != nil {
		return knownHosts{}, fmt.Errorf("known hosts: %w", err)
	}
	return knownHosts{text: text, check: func(address string, key ssh.PublicKey) error {
		// The peer's address does not matter: it may be a tunnel's.
		return callback(address, &net.TCPAddr{}, key)
	}}, nil
}

// keys are the plain keys of a host, and whether authorities may vouch for it. The
// package tells them only to who presents a key that is none of them.
func (k knownHosts) keys(address string) (keys []ssh.PublicKey, authorities bool) {
	if unknown, ok := errors.AsType[*knownhosts.KeyError](k.check(address, noKey{})); ok {
		for _, w := range unknown.Want {
			keys = append(keys, w.Key)
		}
	}
	return keys, bytes.Contains(k.text, []byte("@cert-authority"))
}

// noKey is nobody's key.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return []byte("none") }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("not a key") }
