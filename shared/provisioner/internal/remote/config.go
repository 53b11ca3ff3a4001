package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/kubeopera/platform/shared/redact"
)

// Config is how to reach a host, and how to work on it. The zero value of what is
// optional is right for most.
type Config struct {
	// Dial makes a new connection to the SSH server, each time that one is needed.
	// An error that has Permanent() bool, and it is true, is not tried again.
	Dial func(ctx context.Context) (net.Conn, error)
	// Target names the host, in messages and in known hosts: host, host:port or the
	// id of an instance.
	Target   string
	User     string
	Auth     Auth
	HostKeys HostKeys

	ConnectTimeout    time.Duration // of Dial; 10 s
	HandshakeTimeout  time.Duration // of SSH's handshake and login, and for a session to open; 15 s
	KeepaliveInterval time.Duration // 15 s
	KeepaliveMisses   int           // intervals without an answer after which the connection is closed; 3
	MaxRetries        int           // attempts to connect; 20
	Backoff           time.Duration // before the second attempt; doubles up to 10 s; 500 ms
	Grace             time.Duration // between TERM and KILL for a script that is stopped; 10 s

	// StateDir is where steps are kept on the host; /var/lib/kubeopera/steps.
	StateDir string
	// BootIDFile is where the host's kernel tells its boot id.
	BootIDFile string
	// LogLimit is how many bytes of a script's output the host keeps from its
	// beginning, rounded up to KiB; 16 MiB. 64 KiB of its end are kept besides.
	LogLimit int64

	// Secrets are masked in all output and errors, as are the key and its passphrase.
	Secrets []redact.Secret
	// Log is told of lost connections and of attempts; nil for nobody.
	Log *slog.Logger
}

// Auth is how to log in. Key and agent may be used together.
type Auth struct {
	KeyFile         string        // private key
	Key             redact.Secret // private key (PEM), instead of KeyFile
	Passphrase      redact.Secret // of an encrypted key
	CertificateFile string        // OpenSSH user certificate of the key
	Certificate     []byte        // the same, in the form of a .pub file
	UseAgent        bool
	AgentSocket     string // SSH_AUTH_SOCK if empty
}

// Policies for host keys.
const (
	PolicyAcceptNew = "accept-new" // remember the key of a host that was never seen; the default
	PolicyStrict    = "strict"     // only hosts that are known
	PolicyOff       = "off"        // any key; anybody in between can read and change everything
)

// HostKeys is which keys a host may have.
type HostKeys struct {
	Policy string
	// KnownHostsFile is of OpenSSH's form; kubeopera/known_hosts in the user's cache
	// directory if empty. PolicyAcceptNew adds to it, one process at a time.
	KnownHostsFile string
	// Pinned keys are the only ones accepted, if there are any, whatever the policy.
	Pinned []ssh.PublicKey
}

const (
	defaultStateDir   = "/var/lib/kubeopera/steps"
	defaultBootIDFile = "/proc/sys/kernel/random/boot_id"

	maxBackoff = 10 * time.Second
)

// What stands in known_hosts is of these characters.
var validTarget = regexp.MustCompile(`^[A-Za-z0-9._:%\[\]-]+$`)

// withDefaults is a complete copy of c, or what is wrong with it.
func (c Config) withDefaults() (Config, error) {
	set(&c.ConnectTimeout, 10*time.Second)
	set(&c.HandshakeTimeout, 15*time.Second)
	set(&c.KeepaliveInterval, 15*time.Second)
	set(&c.KeepaliveMisses, 3)
	set(&c.MaxRetries, 20)
	set(&c.Backoff, 500*time.Millisecond)
	set(&c.Grace, 10*time.Second)
	set(&c.StateDir, defaultStateDir)
	set(&c.BootIDFile, defaultBootIDFile)
	set(&c.LogLimit, 16<<20)
	set(&c.HostKeys.Policy, PolicyAcceptNew)
	set(&c.Log, slog.New(slog.DiscardHandler))
	var problems []error
	wrong := func(cond bool, format string, a ...any) {
		if cond {
			problems = append(problems, fmt.Errorf(format, a...))
		}
	}
	wrong(c.Dial == nil, "no dial function")
	wrong(!validTarget.MatchString(c.Target), "target %q is no host name, address or instance id", c.Target)
	wrong(c.User == "" || strings.ContainsFunc(c.User, func(r rune) bool { return r < ' ' }), "user %q is no user name", c.User)
	wrong(min(c.ConnectTimeout, c.HandshakeTimeout, c.KeepaliveInterval, c.Backoff, c.Grace) < 0, "a time is negative")
	wrong(min(c.KeepaliveMisses, c.MaxRetries) < 0 || c.LogLimit < 0, "a number is negative")
	wrong(!cleanPath(c.StateDir), "state directory %q is no clean absolute path", c.StateDir)
	wrong(!cleanPath(c.BootIDFile), "boot id file %q is no clean absolute path", c.BootIDFile)
	switch c.HostKeys.Policy {
	case PolicyAcceptNew, PolicyStrict, PolicyOff:
	default:
		wrong(true, "host key policy %q is none of %s, %s, %s", c.HostKeys.Policy, PolicyAcceptNew, PolicyStrict, PolicyOff)
	}
	if c.HostKeys.KnownHostsFile == "" && c.HostKeys.Policy != PolicyOff && len(c.HostKeys.Pinned) == 0 {
		cache, err := os.UserCacheDir()
		wrong(err != nil, "no known hosts file given, and no place for one: %w", err)
		c.HostKeys.KnownHostsFile = filepath.Join(cache, "kubeopera", "known_hosts")
	}
	if problems != nil {
		return Config{}, fmt.Errorf("connection to %q: %w", c.Target, errors.Join(problems...))
	}
	return c, nil
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// cleanPath says whether p can be the path of a file on the host.
func cleanPath(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && p != "/" && !strings.ContainsAny(p, "\x00\n")
}

// address is the target with a port, as package knownhosts wants it.
func (c Config) address() string {
	if _, _, err := net.SplitHostPort(c.Target); err == nil {
		return c.Target
	}
	return net.JoinHostPort(strings.Trim(c.Target, "[]"), "22")
}
