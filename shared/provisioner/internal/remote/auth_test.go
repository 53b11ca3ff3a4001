package remote_test

import (
	"crypto/rand"
	"encoding/pem"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/kubeopera/platform/shared/provisioner/internal/remote"
	"github.com/kubeopera/platform/shared/provisioner/internal/remote/sshtest"
	"github.com/kubeopera/platform/shared/redact"
)

// rawKey is the private key of s.
func rawKey(tb testing.TB, s *sshtest.Server) any {
	tb.Helper()
	key, err := ssh.ParseRawPrivateKey([]byte(s.KeyPEM))
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func TestLogins(t *testing.T) {
	t.Parallel()
	authority := sshtest.NewSigner(t)
	checker := ssh.CertChecker{IsUserAuthority: func(k ssh.PublicKey) bool { return string(k.Marshal()) == string(authority.PublicKey().Marshal()) }}
	certified := sshtest.Options{Authorized: func(_ string, key ssh.PublicKey) bool {
		cert, ok := key.(*ssh.Certificate)
		return ok && checker.CheckCert("ubuntu", cert) == nil
	}}
	certificate := func(tb testing.TB, s *sshtest.Server, change func(*ssh.Certificate)) []byte {
		tb.Helper()
		signer, err := ssh.ParsePrivateKey([]byte(s.KeyPEM))
		if err != nil {
			tb.Fatal(err)
		}
		cert := &ssh.Certificate{
			Key: signer.PublicKey(), CertType: ssh.UserCert, ValidPrincipals: []string{"ubuntu"},
			ValidBefore: uint64(time.Now().Add(time.Hour).Unix()),
		}
		change(cert)
		if err := cert.SignCert(rand.Reader, authority); err != nil {
			tb.Fatal(err)
		}
		return ssh.MarshalAuthorizedKey(cert)
	}
	encrypted := func(tb testing.TB, s *sshtest.Server) redact.Secret {
		tb.Helper()
		block, err := ssh.MarshalPrivateKeyWithPassphrase(rawKey(tb, s), "", []byte("correct horse"))
		if err != nil {
			tb.Fatal(err)
		}
		return redact.Secret(pem.EncodeToMemory(block))
	}
	same := func(*ssh.Certificate) {}
	for name, c := range map[string]struct {
		options sshtest.Options
		auth    func(testing.TB, *sshtest.Server) remote.Auth
		want    string // part of the error; empty for a login
	}{
		"by a key in memory": {auth: func(_ testing.TB, s *sshtest.Server) remote.Auth {
			return remote.Auth{Key: redact.Secret(s.KeyPEM)}
		}},
		"by an encrypted key": {auth: func(tb testing.TB, s *sshtest.Server) remote.Auth {
			tb.Helper()
			return remote.Auth{Key: encrypted(tb, s), Passphrase: "correct horse"}
		}},
		"without the passphrase": {auth: func(tb testing.TB, s *sshtest.Server) remote.Auth {
			tb.Helper()
			return remote.Auth{Key: encrypted(tb, s)}
		}, want: "the private key is encrypted; give its passphrase"},
		"with a wrong passphrase": {auth: func(tb testing.TB, s *sshtest.Server) remote.Auth {
			tb.Helper()
			return remote.Auth{Key: encrypted(tb, s), Passphrase: "battery staple"}
		}, want: "the right passphrase"},
		"with a passphrase that is not needed": {auth: func(_ testing.TB, s *sshtest.Server) remote.Auth {
			return remote.Auth{KeyFile: s.KeyFile, Passphrase: "correct horse"}
		}},
		"by a public key": {auth: func(_ testing.TB, s *sshtest.Server) remote.Auth {
			return remote.Auth{Key: redact.Secret(ssh.MarshalAuthorizedKey(s.HostKey))}
		}, want: "give a private key"},
		"by a file that is not there": {auth: func(_ testing.TB, s *sshtest.Server) remote.Auth {
			return remote.Auth{KeyFile: s.KeyFile + ".gone"}
		}, want: "no such file"},
		"by nothing": {auth: func(testing.TB, *sshtest.Server) remote.Auth { return remote.Auth{} }, want: "give a private key or use an agent"},
		"by a certificate": {options: certified, auth: func(tb testing.TB, s *sshtest.Server) remote.Auth {
			tb.Helper()
			return remote.Auth{KeyFile: s.KeyFile, Certificate: certificate(tb, s, same)}
		}},
		"by an expired certificate": {options: certified, auth: func(tb testing.TB, s *sshtest.Server) remote.Auth {
			tb.Helper()
			return remote.Auth{KeyFile: s.KeyFile, Certificate: certificate(tb, s, func(c *ssh.Certificate) { c.ValidBefore = 1 })}
		}, want: "it has expired"},
		"by another user's certificate": {options: certified, auth: func(tb testing.TB, s *sshtest.Server) remote.Auth {
			tb.Helper()
			return remote.Auth{KeyFile: s.KeyFile, Certificate: certificate(tb, s, func(c *ssh.Certificate) { c.ValidPrincipals = []string{"root", "rocky"} })}
		}, want: "it is for root, rocky"},
		"by a host's certificate": {options: certified, auth: func(tb testing.TB, s *sshtest.Server) remote.Auth {
			tb.Helper()
			return remote.Auth{KeyFile: s.KeyFile, Certificate: certificate(tb, s, func(c *ssh.Certificate) { c.CertType = ssh.HostCert })}
		}, want: "for hosts"},
		"by another key's certificate": {options: certified, auth: func(tb testing.TB, s *sshtest.Server) remote.Auth {
			tb.Helper()
			return remote.Auth{KeyFile: s.KeyFile, Certificate: certificate(tb, s, func(c *ssh.Certificate) { c.Key = authority.PublicKey() })}
		}, want: "certificate: "},
		"by a key as certificate": {auth: func(_ testing.TB, s *sshtest.Server) remote.Auth {
			return remote.Auth{KeyFile: s.KeyFile, Certificate: ssh.MarshalAuthorizedKey(s.HostKey)}
		}, want: "it is a plain ssh-ed25519 key"},
		"by an agent that is not there": {auth: func(_ testing.TB, s *sshtest.Server) remote.Auth {
			return remote.Auth{UseAgent: true, AgentSocket: filepath.Join(s.Dir, "none")}
		}, want: "SSH agent: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sshtest.Start(t, c.options)
			config := configFor(s)
			config.Auth = c.auth(t, s)
			if c.want == "" {
				connect(t, config)
				return
			}
			_, err := remote.Connect(t.Context(), config)
			if expect[*remote.AuthError](t, err); !strings.Contains(err.Error(), c.want) {
				t.Error(err)
			}
			if s.Connections() > 1 {
				t.Errorf("%d connections", s.Connections())
			}
		})
	}
}

func TestAgent(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t, sshtest.Options{})
	keyring := agent.NewKeyring()
	socket := filepath.Join(s.Dir, "agent")
	connections := serveAgent(t, socket, keyring)
	config := configFor(s)
	config.Auth = remote.Auth{UseAgent: true, AgentSocket: socket}
	_, err := remote.Connect(t.Context(), config)
	if expect[*remote.AuthError](t, err); !strings.Contains(err.Error(), "it has no keys") {
		t.Error(err)
	}
	if err := keyring.Add(agent.AddedKey{PrivateKey: rawKey(t, s)}); err != nil {
		t.Fatal(err)
	}
	h := connect(t, config)
	// A key that the host does not know, and the agent's besides.
	other := sshtest.Start(t, sshtest.Options{})
	config.Auth.KeyFile = other.KeyFile
	connect(t, config)
	if err := h.Reconnect(t.Context()); err != nil {
		t.Error(err)
	}
	eventually(t, "the agent's connections are closed", func() bool { return connections() == 0 })
}

// serveAgent is an agent; the function says how many connections it has.
func serveAgent(tb testing.TB, socket string, keys agent.Agent) (connections func() int) {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "unix", socket)
	if err != nil {
		tb.Fatal(err)
	}
	var tasks sync.WaitGroup
	var mu sync.Mutex
	open := 0
	count := func(d int) int {
		mu.Lock()
		defer mu.Unlock()
		open += d
		return open
	}
	tasks.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			count(1)
			tasks.Go(func() {
				defer count(-1)
				defer conn.Close()
				_ = agent.ServeAgent(keys, conn)
			})
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close()
		tasks.Wait()
	})
	return func() int { return count(0) }
}
