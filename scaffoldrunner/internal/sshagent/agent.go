// Package sshagent holds one private key for programs that sign with it: ssh, and
// ssh-keygen, which signs commits. They ask by the protocol of ssh-agent, so that
// the key is in no file of ours, and whose the mounted file is and who may read it
// is of no concern to them.
package sshagent

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/kubeopera/platform/shared/redact"
)

// Agent is a running agent with one key.
type Agent struct {
	// Socket is where it answers: what SSH_AUTH_SOCK or IdentityAgent wants.
	Socket string
	// PublicKey is the key's public half, as in authorized_keys.
	PublicKey string

	dir      string
	listener net.Listener
	serving  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // nil: closed
}

// ErrPassphrase is for a key that cannot be used without one.
var ErrPassphrase = errors.New("the SSH key has a passphrase, which nobody can type here: use a key without one")

// Start starts an agent for a private key in any of OpenSSH's formats. The error
// repeats nothing of it.
func Start(key redact.Secret) (*Agent, error) {
	raw, err := ssh.ParseRawPrivateKey([]byte(key.Reveal()))
	if _, ok := errors.AsType[*ssh.PassphraseMissingError](err); ok {
		return nil, ErrPassphrase
	}
	if err != nil {
		return nil, errors.New("the SSH key is no private key in PEM or in OpenSSH's format")
	}
	signer, err := ssh.NewSignerFromKey(raw)
	if err != nil {
		return nil, errors.New("the SSH key is of a kind that cannot sign")
	}
	keyring := agent.NewKeyring()
	if err := keyring.Add(agent.AddedKey{PrivateKey: raw}); err != nil {
		return nil, errors.New("the SSH key is of a kind that cannot sign")
	}
	dir, err := folder()
	if err != nil {
		return nil, fmt.Errorf("start the SSH agent: %w", err)
	}
	a := &Agent{
		Socket:    filepath.Join(dir, socketName),
		PublicKey: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))),
		dir:       dir,
		conns:     map[net.Conn]bool{},
	}
	if a.listener, err = net.Listen("unix", a.Socket); err != nil { //nolint:noctx // it does not wait for anything
		return nil, errors.Join(fmt.Errorf("start the SSH agent: %w", err), os.RemoveAll(dir))
	}
	a.serving.Go(func() { a.serve(keyring) })
	return a, nil
}

const (
	socketName = "socket"
	// maxSocket is how long a socket's path may be, in bytes; the kernel has no longer ones.
	maxSocket = 107
)

// folder makes a folder that its owner alone gets into.
func folder() (string, error) {
	dir, err := os.MkdirTemp("", "agent-")
	if err != nil || len(filepath.Join(dir, socketName)) <= maxSocket {
		return dir, err
	}
	if err := os.Remove(dir); err != nil {
		return "", err
	}
	return os.MkdirTemp("/tmp", "agent-")
}

func (a *Agent) serve(keyring agent.Agent) {
	for {
		conn, err := a.listener.Accept()
		if err != nil {
			return // closed
		}
		if !a.admit(conn) {
			return
		}
		a.serving.Go(func() {
			// It ends with the client's connection, which is all that it can end with.
			_ = agent.ServeAgent(keyring, conn)
			a.mu.Lock()
			delete(a.conns, conn)
			a.mu.Unlock()
			_ = conn.Close()
		})
	}
}

func (a *Agent) admit(conn net.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conns == nil {
		_ = conn.Close()
		return false
	}
	a.conns[conn] = true
	return true
}

// Close ends the agent and its clients' connections.
func (a *Agent) Close() error {
	err := a.listener.Close()
	a.mu.Lock()
	for conn := range a.conns {
		_ = conn.Close()
	}
	a.conns = nil
	a.mu.Unlock()
	a.serving.Wait()
	return errors.Join(err, os.RemoveAll(a.dir))
}
