//go:build unix

// Package sshtest is an SSH server in the process of a test. It executes
// commands by the local shell, with state and boot id in a directory of the test,
// and fails in all the ways that networks and hosts do. It stands in for OpenSSH's
// sshd in what package remote uses of it: sessions with exec, exit statuses, forwarded
// connections, the refusal of unknown global requests. What it does not do: ptys,
// signals, subsystems, other users than the test's own.
package sshtest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// Privilege is how a session becomes root.
type Privilege string

// The privileges.
const (
	Root     Privilege = ""         // it is, or so id says
	Sudo     Privilege = "sudo"     // by sudo without a password
	Password Privilege = "password" // sudo asks for one
)

// Options are how a server differs from the usual.
type Options struct {
	Shell     string // login shell; /bin/sh
	Noise     string // what login scripts print
	Privilege Privilege
	// HostKeys replace the one of kind ed25519.
	HostKeys []ssh.Signer
	// Authorized replaces the check for the server's own client key.
	Authorized func(user string, key ssh.PublicKey) bool
	// NoForwarding prohibits connections through the server.
	NoForwarding bool
}

// Server is a running server. It ends, with all processes that it started, when
// the test does.
type Server struct {
	Addr    string // host:port
	Dir     string // everything of it is in here
	KeyFile string // private key to log in with
	KeyPEM  string // the same
	HostKey ssh.PublicKey

	tb       testing.TB
	options  Options
	listener net.Listener
	client   ssh.PublicKey
	tasks    sync.WaitGroup

	mu       sync.Mutex
	faults   Faults
	conns    map[*faultyConn]bool
	accepted int
	sessions int
}

// Faults are what goes wrong. The zero value is nothing.
type Faults struct {
	// CutAfter closes each connection after so many bytes in both directions together; 0 for never.
	CutAfter int64
	// HangHandshake accepts connections and says nothing.
	HangHandshake bool
	// RefuseConnections closes connections at once.
	RefuseConnections bool
	// RefuseLogin accepts nobody.
	RefuseLogin bool
	// RefuseSessions opens none.
	RefuseSessions bool
	// MuteSessions accepts commands and does nothing.
	MuteSessions bool
	// RefuseExec accepts sessions, and no commands.
	RefuseExec bool
}

// Start starts a server.
func Start(tb testing.TB, o Options) *Server {
	tb.Helper()
	s := &Server{tb: tb, options: o, Dir: tb.TempDir(), conns: make(map[*faultyConn]bool)}
	if s.options.Shell == "" {
		s.options.Shell = "/bin/sh"
	}
	if len(s.options.HostKeys) == 0 {
		s.options.HostKeys = []ssh.Signer{NewSigner(tb)}
	}
	s.HostKey = s.options.HostKeys[0].PublicKey()
	s.newClientKey()
	s.installCommands()
	s.setBootID()
	var err error
	if s.listener, err = new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0"); err != nil {
		tb.Fatal(err)
	}
	s.Addr = s.listener.Addr().String()
	s.tasks.Go(s.serve)
	tb.Cleanup(s.stop)
	return s
}

// NewSigner is a new key of kind ed25519.
func NewSigner(tb testing.TB) ssh.Signer {
	tb.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return signer
}

func (s *Server) newClientKey() {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		s.tb.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		s.tb.Fatal(err)
	}
	s.KeyPEM = string(pem.EncodeToMemory(block))
	s.KeyFile = filepath.Join(s.Dir, "client-key")
	s.write(s.KeyFile, s.KeyPEM, 0o600)
	signer, err := ssh.ParsePrivateKey([]byte(s.KeyPEM))
	if err != nil {
		s.tb.Fatal(err)
	}
	s.client = signer.PublicKey()
}

// installCommands puts id and sudo in front of the real ones.
func (s *Server) installCommands() {
	id, sudo := "echo 0", "exit 1"
	if s.options.Privilege != Root {
		id = `[ "$SSHTEST_ROOT" ] && echo 0 || echo 1000`
		sudo = `[ "$1 $2" = "-n -H" ] || exit 1; shift 2; SSHTEST_ROOT=1 exec "$@"`
	}
	if s.options.Privilege == Password {
		sudo = "echo 'sudo: a password is required' >&2; exit 1"
	}
	s.write(filepath.Join(s.Dir, "bin", "id"), "#!/bin/sh\n"+id+"\n", 0o755)
	s.write(filepath.Join(s.Dir, "bin", "sudo"), "#!/bin/sh\n"+sudo+"\n", 0o755)
}

func (s *Server) write(path, content string, mode os.FileMode) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		s.tb.Fatal(err)
	}
}

// StateDir is for remote.Config.
func (s *Server) StateDir() string { return filepath.Join(s.Dir, "steps") }

// BootIDFile is for remote.Config.
func (s *Server) BootIDFile() string { return filepath.Join(s.Dir, "boot_id") }

func (s *Server) setBootID() { s.write(s.BootIDFile(), rand.Text()+"\n", 0o644) }

// Dial connects to the server.
func (s *Server) Dial(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", s.Addr)
}

// Fail sets what goes wrong with connections and sessions from now on.
func (s *Server) Fail(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

func (s *Server) now() Faults {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults
}

// Freeze makes the path of all present connections a dead one: nothing arrives,
// and nobody is told.
func (s *Server) Freeze() { s.each((*faultyConn).freeze) }

// Drop closes all present connections.
func (s *Server) Drop() { s.each(func(c *faultyConn) { _ = c.Close() }) }

func (s *Server) each(do func(*faultyConn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		do(c)
	}
}

// Connections is how many connections were accepted so far, and Open how many of
// them are open.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// Open is how many connections are open.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Sessions is how many commands were executed so far.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions
}

// Reboot kills all processes, closes all connections and changes the boot id.
func (s *Server) Reboot() {
	s.KillAll(s.Processes())
	s.setBootID()
	s.Drop()
}

// Processes are those that the server's sessions started, directly or not, and
// that have not ended.
func (s *Server) Processes() []int {
	mark := []byte("SSHTEST_DIR=" + s.Dir + "\x00")
	var out []int
	entries, err := os.ReadDir("/proc")
	if err != nil {
		s.tb.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		environ, err := os.ReadFile("/proc/" + e.Name() + "/environ") // empty for a zombie
		if err == nil && bytes.Contains(environ, mark) {
			out = append(out, pid)
		}
	}
	return out
}

// KillAll kills processes.
func (s *Server) KillAll(pids []int) {
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			s.tb.Error(err)
		}
	}
}

// stop ends everything; processes may be starting others meanwhile.
func (s *Server) stop() {
	_ = s.listener.Close()
	s.Drop()
	deadline := time.Now().Add(10 * time.Second)
	for pids := s.Processes(); len(pids) > 0; pids = s.Processes() {
		if time.Now().After(deadline) {
			s.tb.Errorf("processes cannot be killed: %v", pids)
			break
		}
		s.KillAll(pids)
		<-time.After(5 * time.Millisecond)
	}
	s.tasks.Wait()
}

func (s *Server) serve() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		s.mu.Lock()
		c := newFaultyConn(conn, s.faults.CutAfter)
		s.conns[c] = true
		s.accepted++
		s.mu.Unlock()
		s.tasks.Go(func() {
			defer func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.conns, c)
			}()
			s.handle(c)
		})
	}
}

func (s *Server) handle(c *faultyConn) {
	defer c.Close()
	f := s.now()
	if f.RefuseConnections {
		return
	}
	if f.HangHandshake {
		<-c.closed
		return
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		ok := bytes.Equal(key.Marshal(), s.client.Marshal())
		if s.options.Authorized != nil {
			ok = s.options.Authorized(meta.User(), key)
		}
		if !ok || s.now().RefuseLogin {
			return nil, fmt.Errorf("key of %s is not authorized", meta.User())
		}
		return nil, nil
	}}
	for _, k := range s.options.HostKeys {
		config.AddHostKey(k)
	}
	conn, channels, requests, err := ssh.NewServerConn(c, config)
	if err != nil {
		return
	}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer conn.Close()
	tasks.Go(func() { ssh.DiscardRequests(requests) })
	for ch := range channels {
		switch kind := ch.ChannelType(); {
		case kind == "session" && !s.now().RefuseSessions:
			tasks.Go(func() { s.session(ch, c) })
		case kind == "session":
			_ = ch.Reject(ssh.ResourceShortage, "no more sessions")
		case kind == "direct-tcpip" && !s.options.NoForwarding:
			tasks.Go(func() { forward(ch) })
		default:
			_ = ch.Reject(ssh.Prohibited, "administratively prohibited")
		}
	}
}

// Commands are what the present processes have as command line and environment,
// for a search for what should not be there.
func (s *Server) Commands() string {
	var b strings.Builder
	for _, pid := range s.Processes() {
		for _, file := range []string{"cmdline", "environ"} {
			data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			if err == nil {
				b.Write(bytes.ReplaceAll(data, []byte{0}, []byte{' '}))
				b.WriteByte('\n')
			}
		}
	}
	return b.String()
}
