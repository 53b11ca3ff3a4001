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
	"os"
	"os/exec"
	"path/filepath"
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
// sends is received whole; a script is not executed, but takes its time and has
// succeeded: 64 machines that did more would measure this machine's processors.
// Questions to the cluster are answered; what looks at files is executed, and sees
// those of a folder.
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
	root     string // the folder that stands for /
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
	m := &standIn{fleet: f, name: name, ip: ip, root: b.TempDir()}
	for _, folder := range []string{"etc/kubernetes", "var/lib/kubeopera", "run/kubeopera"} {
		if err := os.MkdirAll(filepath.Join(m.root, folder), 0o700); err != nil {
			b.Fatal(err)
		}
	}
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
				if err := m.serve(ctx, conn, config); err != nil && ctx.Err() == nil {
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
func (m *standIn) serve(ctx context.Context, conn net.Conn, config *ssh.ServerConfig) error {
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
				if err := m.execute(ctx, r.Payload, channel); err != nil {
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
func (m *standIn) execute(ctx context.Context, payload []byte, channel io.ReadWriter) error {
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
		answer, err := m.answer(ctx, command, string(stdin))
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
	if err := m.ran(settings["id"]); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(channel, "%s end 0 exited 0\n", settings["mark"]); err != nil {
		return err
	}
	_, err = in.ReadString('\n') // that it is known
	return err
}

// ran does what a script is for; id begins with its name.
func (m *standIn) ran(id string) error {
	files := []string{"kubelet.conf"}
	switch {
	case strings.HasPrefix(id, "kubernetes-init-"):
		files = append(files, "admin.conf")
	case !strings.HasPrefix(id, "kubernetes-join-worker-"):
		return nil
	}
	for _, file := range files {
		if err := os.WriteFile(filepath.Join(m.root, "etc/kubernetes", file), nil, 0o600); err != nil {
			return err
		}
	}
	m.fleet.mu.Lock()
	defer m.fleet.mu.Unlock()
	m.fleet.nodes = append(m.fleet.nodes, fmt.Sprintf(
		`{"metadata":{"name":%q,"resourceVersion":"1"},"status":{"conditions":[{"type":"Ready","status":"True"}],"addresses":[{"type":"InternalIP","address":%q}]}}`, m.name, m.ip))
	return nil
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
func (m *standIn) answer(ctx context.Context, command, stdin string) (string, error) {
	if command == "exec bash -s" {
		_, command, _ = strings.Cut(stdin, "\nmain() {\n")
	}
	switch {
	case strings.Contains(command, "print_admin_conf"):
		return adminKubeconfig, nil
	case strings.Contains(command, "print_join_data"):
		data, err := json.Marshal(map[string]string{"token": "abcdef.0123456789abcdef", "caCertificate": m.fleet.ca, "endpoint": "10.0.0.1:6443"})
		return string(data), err
	case strings.Contains(command, "--raw=/readyz"):
		return "ok", nil
	case strings.Contains(command, "get nodes -o json"):
		m.fleet.mu.Lock()
		defer m.fleet.mu.Unlock()
		return `{"kind":"List","items":[` + strings.Join(m.fleet.nodes, ",") + `]}`, nil
	case strings.Contains(command, "patch node"):
		return "patched\n", nil
	}
	return m.shell(ctx, command, stdin)
}

// Paths in a command, and those that a machine has of its own.
var (
	anyPath = regexp.MustCompile(`(?m)(^|[\s="'>])(/[a-z][^\s"';]*)`)
	ownPath = regexp.MustCompile(`^/(etc/kubernetes|var/lib/kubeopera|run/kubeopera)(/|$)`)
)

// shell executes a command that has only the machine's own files.
func (m *standIn) shell(ctx context.Context, command, stdin string) (string, error) {
	for _, found := range anyPath.FindAllStringSubmatch(command, -1) {
		if !ownPath.MatchString(found[2]) && found[2] != "/dev/null" {
			return "", fmt.Errorf("the command %q is not for a machine that has no %s", command, found[2])
		}
	}
	moved := anyPath.ReplaceAllStringFunc(command, func(found string) string {
		before, path, _ := strings.Cut(found, "/")
		if path == "dev/null" {
			return found
		}
		return before + m.root + "/" + path
	})
	cmd := exec.CommandContext(ctx, "sh", "-c", moved)
	cmd.Dir, cmd.Stdin = m.root, strings.NewReader(stdin)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("execute %q: %w", moved, err)
	}
	return string(out), nil
}
