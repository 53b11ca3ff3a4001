package provisioner

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/logger"
	"github.com/kubeopera/platform/shared/provisioner/internal/remote"
	"github.com/kubeopera/platform/shared/redact"
)

// Connection is how machines are logged in to, beyond the path of a key. The zero
// value is right for most: its key file, first host keys remembered.
type Connection struct {
	// Key is a private key (PEM); it is used instead of a key's path.
	Key redact.Secret
	// Passphrase opens an encrypted key.
	Passphrase redact.Secret
	// CertificateFile is the path of an OpenSSH certificate for the key.
	CertificateFile string
	// UseAgent logs in by the keys of an SSH agent, too.
	UseAgent bool
	// AgentSocket is the agent's socket; SSH_AUTH_SOCK if empty.
	AgentSocket string

	// HostKeyPolicy is one of v1alpha1's host key policies; accept-new if empty.
	// Pinned keys (NodeInfo.HostKeys, WithHostKeys) come before every policy.
	HostKeyPolicy string
	// KnownHostsFile holds the keys of hosts; one in the user's cache directory
	// if empty.
	KnownHostsFile string

	// Bastion is a host to go through to machines that have no Transport.
	Bastion *Bastion

	// Zero means 10 s, 15 s and 15 s.
	ConnectTimeout, HandshakeTimeout, KeepaliveInterval time.Duration
	// KeepaliveMisses is how many keepalives in a row may stay without an answer;
	// zero means 3.
	KeepaliveMisses int
	// MaxRetries is how often an unreachable machine is tried; zero means 20.
	MaxRetries int
}

// Bastion is a host to go through. What it leaves out is as for the machines.
type Bastion struct {
	Host       string // host or host:port
	UserName   string
	KeyPath    string
	Key        redact.Secret
	Passphrase redact.Secret
	HostKeys   []string // accepted keys, as in authorized_keys
}

// ConnectionFromEnvironment is what env's spec.auth.sshConfig asks for.
func ConnectionFromEnvironment(env *v1alpha1.Environment) Connection {
	c := env.Spec.SSHConfig
	if c == nil {
		return Connection{}
	}
	out := Connection{
		UseAgent: c.UseAgent, AgentSocket: c.AgentSocket, HostKeyPolicy: c.KnownHostsPolicy,
		ConnectTimeout: c.ConnectTimeout.Duration, HandshakeTimeout: c.HandshakeTimeout.Duration,
		KeepaliveInterval: c.KeepaliveInterval.Duration, MaxRetries: c.MaxRetries,
	}
	if b := c.Bastion; b != nil {
		out.Bastion = &Bastion{Host: b.Host, UserName: b.Username, KeyPath: b.PrivateKey}
	}
	return out
}

// endpoint is one machine to connect to.
type endpoint struct {
	name      string // for the log
	user      string
	keyPath   string
	target    string // key of known hosts: host:port or instance id
	hostKeys  []string
	transport Transport
}

// config is what package remote wants to know of e.
func (c Connection) config(log *logger.FunLogger, e endpoint) (remote.Config, error) {
	pinned, err := parseHostKeys(e.hostKeys)
	if err != nil {
		return remote.Config{}, fmt.Errorf("host keys of %s: %w", e.target, err)
	}
	auth := remote.Auth{
		Key: c.Key, Passphrase: c.Passphrase, CertificateFile: expandHome(c.CertificateFile),
		UseAgent: c.UseAgent, AgentSocket: c.AgentSocket,
	}
	if c.Key == "" {
		auth.KeyFile = expandHome(e.keyPath)
	}
	return remote.Config{
		Dial:              func(ctx context.Context) (net.Conn, error) { return dialContext(ctx, e.transport) },
		Target:            e.target,
		User:              e.user,
		Auth:              auth,
		HostKeys:          remote.HostKeys{Policy: c.HostKeyPolicy, KnownHostsFile: expandHome(c.KnownHostsFile), Pinned: pinned},
		ConnectTimeout:    c.ConnectTimeout,
		HandshakeTimeout:  c.HandshakeTimeout,
		KeepaliveInterval: c.KeepaliveInterval,
		KeepaliveMisses:   c.KeepaliveMisses,
		MaxRetries:        c.MaxRetries,
		Secrets:           []redact.Secret{c.Key, c.Passphrase},
		Log:               log.Slog().With("node", e.name),
	}, nil
}

// dialBastion connects to the bastion of c. dial is nil without one.
func (c Connection) dialBastion(ctx context.Context, log *logger.FunLogger, user, keyPath string) (dial func(context.Context, string) (net.Conn, error), done func() error, err error) {
	b := c.Bastion
	if b == nil {
		return nil, func() error { return nil }, nil
	}
	own := c
	e := endpoint{name: "bastion", user: user, keyPath: keyPath, hostKeys: b.HostKeys}
	if b.UserName != "" {
		e.user = b.UserName
	}
	if b.Key != "" || b.KeyPath != "" {
		own.Key, own.Passphrase, own.CertificateFile, e.keyPath = b.Key, b.Passphrase, "", b.KeyPath
	}
	direct := NewDirectTransport(b.Host)
	e.transport, e.target = direct, direct.address()
	config, err := own.config(log, e)
	if err != nil {
		return nil, nil, err
	}
	dial, done, err = remote.DialBastion(ctx, config)
	if err != nil {
		return nil, nil, fmt.Errorf("bastion: %w", err)
	}
	return dial, done, nil
}

// target is how known hosts name what t reaches.
func target(t Transport) string {
	switch t := t.(type) {
	case *DirectTransport:
		return t.address()
	case *bastionTransport:
		return t.direct.address()
	}
	return t.Target()
}

func parseHostKeys(lines []string) ([]ssh.PublicKey, error) {
	var keys []ssh.PublicKey
	for i, line := range lines {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil {
			return nil, fmt.Errorf("number %d is not of the form of authorized_keys: %w", i, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// expandHome replaces a leading ~ by the user's home.
func expandHome(path string) string {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || rest != "" && rest[0] != '/' {
		return path
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return path
	}
	return filepath.Join(home, rest)
}
