package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/kubeopera/platform/shared/runcontract"
)

type sshKey struct {
	private, public string
	signer          ssh.Signer
}

func newSSHKey(t *testing.T) sshKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return sshKey{string(pem.EncodeToMemory(block)), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))), signer}
}

// sshServer serves the folder of a bare repository to one key, and returns its
// address and its host key.
func sshServer(t *testing.T, dir string, user sshKey) (address string, host sshKey) {
	t.Helper()
	host = newSSHKey(t)
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(user.signer.PublicKey().Marshal()) {
			return nil, io.EOF
		}
		return nil, nil
	}}
	config.AddHostKey(host.signer)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serveSSH(t.Context(), conn, config, dir)
		}
	}()
	return listener.Addr().String(), host
}

func serveSSH(ctx context.Context, conn net.Conn, config *ssh.ServerConfig, dir string) {
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = channel.Close() }()
			for r := range requests {
				if r.Type != "exec" {
					_ = r.Reply(r.Type == "env", nil)
					continue
				}
				_ = r.Reply(true, nil)
				var payload struct{ Command string }
				_ = ssh.Unmarshal(r.Payload, &payload)
				verb, _, _ := strings.Cut(payload.Command, " ")
				cmd := exec.CommandContext(ctx, "git", strings.TrimPrefix(verb, "git-"), dir)
				cmd.Stdin, cmd.Stdout, cmd.Stderr = channel, channel, channel.Stderr()
				status := struct{ Status uint32 }{}
				if err := cmd.Run(); err != nil {
					status.Status = 1
				}
				_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(status))
				return
			}
		}()
	}
}

func TestRun_over_ssh_knows_the_host_and_shows_its_key_to_nobody_else(t *testing.T) {
	t.Parallel()
	f := setup(t)
	key, stranger := newSSHKey(t), newSSHKey(t)
	address, host := sshServer(t, f.git.dir, key)
	f.spec.Repository.Auth, f.spec.Repository.CA, f.spec.Repository.Username = runcontract.RepositoryAuthSSH, false, ""
	f.spec.Repository.URL = "ssh://git@" + address + "/" + filepath.Base(f.git.dir)
	ip, port, _ := net.SplitHostPort(address)
	known := func(k sshKey) {
		f.write("credential/"+runcontract.CredentialKnownHostsFile, "["+ip+"]:"+port+" "+k.public+"\n")
	}
	f.write("credential/"+runcontract.CredentialSSHKeyFile, key.private)

	known(stranger)
	f.fail(runcontract.CodeRepositoryHostKey, "known_hosts")

	known(host)
	f.next()
	f.write("credential/"+runcontract.CredentialSSHKeyFile, stranger.private)
	f.fail(runcontract.CodeRepositoryAuth, "refuses the credential")

	f.next()
	f.write("credential/"+runcontract.CredentialSSHKeyFile, "no key")
	f.fail(runcontract.CodeRepositoryAuth, "no private key")

	f.next()
	f.write("credential/"+runcontract.CredentialSSHKeyFile, key.private)
	f.succeed()
}
