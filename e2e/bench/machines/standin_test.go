package machines

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/kubeopera/platform/shared/provisioner"
	"github.com/kubeopera/platform/shared/redact"
)

// standIns are machines with an SSH server each, in this process. What the library
// sends is received whole; a script takes its time and has succeeded, and questions
// are answered as a cluster would. Nothing is executed: 64 machines that did would
// measure this machine's processors.
type standIns struct {
	key  redact.Secret // to log in with
	took time.Duration
	host ssh.Signer
	ca   string

	mu    sync.Mutex
	nodes []string // JSON of what has joined
}

func newStandIns(b *testing.B, took time.Duration) *standIns {
	b.Helper()
	f := &standIns{took: took, ca: newCA(b)}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		b.Fatal(err)
	}
	f.key = redact.Secret(pem.EncodeToMemory(block))
	if f.host, err = ssh.NewSignerFromKey(private); err != nil { // the servers', too
		b.Fatal(err)
	}
	return f
}

func newCA(b *testing.B) string {
	b.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		b.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// standIn is one of the machines.
type standIn struct {
	fleet    *standIns
	name, ip string
	joined   bool // guarded by the fleet's lock
}

// node starts a machine that ends with the benchmark.
func (f *standIns) node(b *testing.B, name, ip, role string) provisioner.NodeInfo {
	b.Helper()
	listener, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(key.Marshal(), f.host.PublicKey().Marshal()) {
			return nil, errors.New("another key")
		}
		return nil, nil
	}}
	config.AddHostKey(f.host)
	m := &standIn{fleet: f, name: name, ip: ip}
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
				if err := m.serve(conn, config); err != nil && ctx.Err() == nil {
					b.Errorf("machine %s: %v", name, err)
				}
			})
		}
	})
	b.Cleanup(func() {
		cancel()
		_ = listener.Close()
		serving.Wait()
	})
	return provisioner.NodeInfo{
		Name: name, PublicIP: "127.0.0.1", PrivateIP: ip, Role: role, Port: listener.Addr().(*net.TCPAddr).Port,
		HostKeys: []string{string(ssh.MarshalAuthorizedKey(f.host.PublicKey()))},
	}
}

// serve answers the sessions of a connection until it ends.
func (m *standIn) serve(conn net.Conn, config *ssh.ServerConfig) error {
	defer func() { _ = conn.Close() }()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return err
	}
	go ssh.DiscardRequests(requests)
	var sessions sync.WaitGroup
	defer sessions.Wait()
	failed := make(chan error, 1)
	for c := range channels {
		channel, requests, err := c.Accept()
		if err != nil {
			return err
		}
		sessions.Go(func() {
			defer func() { _ = channel.Close() }()
			for r := range requests {
				if r.Type != "exec" {
					_ = r.Reply(false, nil)
					continue
				}
				_ = r.Reply(true, nil)
				go ssh.DiscardRequests(requests)
				status := struct{ Status uint32 }{}
				if err := m.execute(r.Payload, channel); err != nil {
					status.Status = 1
					select {
					case failed <- err:
					default:
					}
				}
				_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(status))
				return
			}
		})
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

var (
	programSize = regexp.MustCompile(`count=([0-9]+)`)
	setting     = regexp.MustCompile(`(?m)^([a-z_]+)='?([^'\n]*)'?$`)
)

// execute answers a session of package remote: a program of so many bytes, and its
// input. There are two: one that begins a script, and one for a short command.
func (m *standIn) execute(payload []byte, channel io.ReadWriter) error {
	size := programSize.FindSubmatch(payload)
	if size == nil {
		return fmt.Errorf("no program in %q", payload)
	}
	n, err := strconv.Atoi(string(size[1]))
	if err != nil {
		return err
	}
	in := bufio.NewReader(channel)
	program := make([]byte, n)
	if _, err := io.ReadFull(in, program); err != nil {
		return err
	}
	text := strings.TrimSuffix(strings.TrimPrefix(string(program), "{\n"), "\n}")
	if rest, ok := strings.CutPrefix(text, "echo "); ok {
		mark, command, _ := strings.Cut(rest, " ready\n")
		stdin, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		answer, err := m.answer(command, string(stdin))
		if err == nil {
			_, err = io.WriteString(channel, mark+" ready\n"+answer)
		}
		return err
	}
	settings := map[string]string{}
	for _, s := range setting.FindAllStringSubmatch(text, -1) {
		if _, seen := settings[s[1]]; !seen { // those that come first are the client's
			settings[s[1]] = s[2]
		}
	}
	if !strings.HasSuffix(text, "\nstart") {
		return fmt.Errorf("machines here have one session for each script, and are asked to %q", text[strings.LastIndexByte(text, '\n')+1:])
	}
	total := 0
	for _, part := range []string{"supervise_size", "script_size", "stdin_size"} {
		n, err := strconv.Atoi(settings[part])
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
		total += n
	}
	if _, err := io.CopyN(io.Discard, in, int64(total)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(channel, "%s run %s boot boot\n", settings["mark"], settings["attempt"]); err != nil {
		return err
	}
	<-time.After(m.fleet.took)
	m.ran(settings["id"])
	if _, err := fmt.Fprintf(channel, "%s end 0 exited 0\n", settings["mark"]); err != nil {
		return err
	}
	_, err = in.ReadString('\n') // that it is known
	return err
}

// ran does what a script is for; id begins with its name.
func (m *standIn) ran(id string) {
	if !strings.HasPrefix(id, "kubernetes-init-") && !strings.HasPrefix(id, "kubernetes-join-") {
		return
	}
	m.fleet.mu.Lock()
	defer m.fleet.mu.Unlock()
	m.joined = true
	m.fleet.nodes = append(m.fleet.nodes, fmt.Sprintf(
		`{"metadata":{"name":%q,"resourceVersion":"1"},"status":{"conditions":[{"type":"Ready","status":"True"}],"addresses":[{"type":"InternalIP","address":%q}]}}`, m.name, m.ip))
}

const adminKubeconfig = `apiVersion: v1
kind: Config
clusters:
- name: kubernetes
  cluster: {server: "https://10.0.0.1:6443", certificate-authority-data: Y2E=}
contexts:
- name: admin
  context: {cluster: kubernetes, user: admin}
current-context: admin
users:
- name: admin
  user: {client-certificate-data: Y2VydA==, client-key-data: a2V5}
`

// answer is what a short command prints.
func (m *standIn) answer(command, stdin string) (string, error) {
	if command == "exec bash -s" {
		_, command, _ = strings.Cut(stdin, "\nmain() {\n")
	}
	m.fleet.mu.Lock()
	defer m.fleet.mu.Unlock()
	switch {
	case strings.Contains(command, "print_admin_conf"):
		return adminKubeconfig, nil
	case strings.Contains(command, "print_join_data"):
		data, err := json.Marshal(map[string]string{"token": "abcdef.0123456789abcdef", "caCertificate": m.fleet.ca, "endpoint": "10.0.0.1:6443"})
		return string(data), err
	case strings.Contains(command, "[ -e /etc/kubernetes/"):
		if m.joined {
			return "yes\n", nil
		}
		return "", nil
	case strings.Contains(command, "--raw=/readyz"):
		return "ok", nil
	case strings.Contains(command, "get nodes -o json"):
		return `{"kind":"List","items":[` + strings.Join(m.fleet.nodes, ",") + `]}`, nil
	case strings.Contains(command, "patch node"):
		return "patched\n", nil
	}
	return "", fmt.Errorf("nothing is known of the command %q", command)
}
