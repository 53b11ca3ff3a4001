package remote_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/kubeopera/platform/shared/provisioner/internal/remote"
	"github.com/kubeopera/platform/shared/provisioner/internal/remote/sshtest"
)

func signer(tb testing.TB, key any, err error) ssh.Signer {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestHostKeyPolicies(t *testing.T) {
	t.Parallel()
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ec := signer(t, ecKey, err)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	rs := signer(t, rsaKey, err)
	ed, other := sshtest.NewSigner(t), sshtest.NewSigner(t)
	authority := sshtest.NewSigner(t)
	cert := &ssh.Certificate{
		Key: ed.PublicKey(), CertType: ssh.HostCert, ValidPrincipals: []string{"node.example"},
		ValidBefore: uint64(time.Now().Add(time.Hour).Unix()),
	}
	if err := cert.SignCert(rand.Reader, authority); err != nil {
		t.Fatal(err)
	}
	certified, err := ssh.NewCertSigner(cert, ed)
	if err != nil {
		t.Fatal(err)
	}
	line := func(key ssh.Signer) string { return knownhosts.Line([]string{"node.example"}, key.PublicKey()) + "\n" }
	hashed := func(key ssh.Signer) string {
		return knownhosts.Line([]string{knownhosts.HashHostname("node.example")}, key.PublicKey()) + "\n"
	}
	all := []ssh.Signer{ed, ec, rs}
	for name, c := range map[string]struct {
		keys   []ssh.Signer // of the server
		hosts  string       // known before; "-" for no file
		policy string
		pinned []ssh.Signer
		want   string // part of the error; empty for a connection
		after  string // known after; the same as before if empty
	}{
		"strict: known":                             {keys: all, hosts: line(ed), policy: remote.PolicyStrict},
		"strict: known by its third key":            {keys: all, hosts: line(rs), policy: remote.PolicyStrict},
		"strict: known by a hashed second key":      {keys: all, hosts: "other.example" + strings.TrimPrefix(line(other), "node.example") + hashed(ec), policy: remote.PolicyStrict},
		"strict: unknown":                           {keys: all, hosts: "", policy: remote.PolicyStrict, want: "compare with the host's console"},
		"strict: without a file":                    {keys: all, hosts: "-", policy: remote.PolicyStrict, want: "compare with the host's console"},
		"strict: another key":                       {keys: all, hosts: line(other), policy: remote.PolicyStrict, want: "ssh-keygen -R 'node.example'"},
		"strict: another kind of key":               {keys: []ssh.Signer{ec}, hosts: line(ed), policy: remote.PolicyStrict, want: "none of the known kinds"},
		"strict: revoked":                           {keys: all, hosts: "@revoked " + line(ed) + line(ed), policy: remote.PolicyStrict, want: "revoked by"},
		"strict: two keys, of which one is another": {keys: all, hosts: hashed(other) + hashed(ec), policy: remote.PolicyStrict, want: "somebody may be in between"},
		"strict: certified":                         {keys: []ssh.Signer{ec, certified}, hosts: "@cert-authority *.example " + strings.TrimPrefix(line(authority), "node.example "), policy: remote.PolicyStrict},
		"strict: a file that is none":               {keys: all, hosts: "node.example nonsense\n", policy: remote.PolicyStrict, want: "known hosts"},
		"accept-new: known":                         {keys: all, hosts: line(ed)},
		"accept-new: new":                           {keys: all, hosts: "-", after: line(ed)},
		"accept-new: new, in a file of others":      {keys: all, hosts: "# mine", after: "# mine\n" + line(ed)},
		"accept-new: new, with a certificate":       {keys: []ssh.Signer{certified, ec}, hosts: "", after: line(ec)},
		"accept-new: another key":                   {keys: all, hosts: hashed(other), want: "somebody may be in between"},
		"off: another key":                          {keys: all, hosts: line(other), policy: remote.PolicyOff},
		"pinned: the second key":                    {keys: all, hosts: line(other), policy: remote.PolicyStrict, pinned: []ssh.Signer{ec}},
		"pinned: one of two":                        {keys: []ssh.Signer{rs}, hosts: "-", pinned: []ssh.Signer{ec, rs}},
		"pinned: another key, though off":           {keys: all, hosts: "-", policy: remote.PolicyOff, pinned: []ssh.Signer{other}, want: "not one of the keys that were given"},
		"pinned: another kind of key":               {keys: []ssh.Signer{ed}, hosts: "-", pinned: []ssh.Signer{ec}, want: "none of the known kinds"},
		"pinned: another kind of key, off":          {keys: []ssh.Signer{ed}, hosts: "-", policy: remote.PolicyOff, pinned: []ssh.Signer{ec}, want: "none of the known kinds"},
		"accept-new: where no file can be made":     {keys: all, hosts: "/", want: "writable, or pin the key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sshtest.Start(t, sshtest.Options{HostKeys: c.keys})
			file := filepath.Join(t.TempDir(), "directory", "known_hosts")
			switch c.hosts {
			case "-":
			case "/":
				file = "/dev/null/known_hosts"
			default:
				if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(c.hosts), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			config := configFor(s)
			config.Target = "node.example"
			config.HostKeys = remote.HostKeys{Policy: c.policy, KnownHostsFile: file}
			for _, p := range c.pinned {
				config.HostKeys.Pinned = append(config.HostKeys.Pinned, p.PublicKey())
			}
			if c.want == "" {
				connect(t, config)
				connect(t, config) // and again, by what was remembered
			} else {
				_, err := remote.Connect(t.Context(), config)
				if e := as[*remote.HostKeyError](t, err); e.Target != "node.example" || !strings.Contains(err.Error(), c.want) {
					t.Error(err)
				}
				if s.Connections() > 1 {
					t.Errorf("%d connections", s.Connections())
				}
			}
			want := c.hosts
			if c.after != "" {
				want = c.after
			}
			if got := readFile(file); got != want && strings.Trim(want, "-/") != "" {
				t.Errorf("known hosts are %q, not %q", got, want)
			}
			if c.after != "" {
				if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
					t.Error(info.Mode(), err)
				}
			}
		})
	}
}

func TestClientsRememberAtTheSameTime(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t, sshtest.Options{})
	file := filepath.Join(s.Dir, "known_hosts")
	var all sync.WaitGroup
	targets := []string{"a:22", "b", "c:2222", "i-0123456789abcdef0", "::1", "a:22", "b", "c:2222"}
	for _, target := range targets {
		config := configFor(s)
		config.Target, config.HostKeys = target, remote.HostKeys{KnownHostsFile: file}
		all.Go(func() {
			h, err := remote.Connect(t.Context(), config)
			if err != nil {
				t.Error(err)
				return
			}
			_ = h.Close()
		})
	}
	all.Wait()
	lines := strings.Split(strings.TrimSpace(readFile(file)), "\n")
	seen := make(map[string]bool)
	for _, l := range lines {
		host, _, _ := strings.Cut(l, " ")
		if seen[host] {
			t.Errorf("%s is there twice", host)
		}
		seen[host] = true
	}
	for _, want := range []string{"a", "b", "[c]:2222", "i-0123456789abcdef0", "::1"} {
		if !seen[want] {
			t.Errorf("%s is missing: %v", want, lines)
		}
	}
}
