package machine

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"

	"github.com/kubeopera/platform/sim/aws/sessionmanager"
	"github.com/kubeopera/platform/sim/machine/sshd"
)

// SSHPort is where the world reaches a machine's sshd, at the machine's own
// address. It is not 22, which only root may listen at.
const SSHPort = 2222

// existingTag marks the instance of a machine that LaunchExisting waits for.
const existingTag = "simulator/existing-machine"

// userID is who logs in has, group included.
const userID = 1000

// ExistingMachine says which machine somebody already has: one that nobody
// provisioned, with nothing on it but an SSH server.
type ExistingMachine struct {
	Name string // host name
	OS   OS     // empty: Ubuntu2404
	// User logs in, and may use sudo without a password; empty: that of the OS.
	User string
	// AuthorizedKeys are lines of the user's authorized_keys, options included:
	// "cert-authority ssh-ed25519 …" lets certificates in.
	AuthorizedKeys string
	// Network names a network of its own: machines of the same see each other by
	// their private addresses, those of others do not. Empty is one of them.
	Network string
	Type    string // of the instance; empty: t3.medium
}

// Existing is such a machine. It ends with its instance, or by Terminate.
type Existing struct {
	*Machine
	spec     ExistingMachine
	address  netip.Addr
	hostKeys []string
	link     *link
	control  ssh.Signer // may log in as root, for Exec
	prepared chan struct{}
}

var hostNamePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// LaunchExisting launches an instance and gives it an SSH server. It returns once
// that answers. It may be called concurrently.
func (ms *Machines) LaunchExisting(ctx context.Context, spec ExistingMachine) (_ *Existing, err error) {
	if spec.OS == "" {
		spec.OS = Ubuntu2404
	}
	system, known := systems()[spec.OS]
	switch {
	case !known:
		return nil, fmt.Errorf("launch existing machine: no operating system %q", spec.OS)
	case !hostNamePattern.MatchString(spec.Name):
		return nil, fmt.Errorf("launch existing machine: %q is no host name", spec.Name)
	}
	if spec.User == "" {
		spec.User = system.user
	}
	if spec.Type == "" {
		spec.Type = "t3.medium"
	}
	e := &Existing{spec: spec, prepared: make(chan struct{})}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	if e.control, err = ssh.NewSignerFromKey(key); err != nil {
		return nil, err
	}
	if err := ms.findSSHD(ctx); err != nil {
		return nil, fmt.Errorf("launch existing machine: %w", err)
	}
	mark := uuid.NewString()
	ms.mu.Lock()
	ms.awaited[mark] = e
	ms.mu.Unlock()
	defer func() {
		ms.mu.Lock()
		delete(ms.awaited, mark)
		ms.mu.Unlock()
	}()
	id, address, err := ms.owner.launch(ctx, spec, mark)
	if err != nil {
		return nil, fmt.Errorf("launch existing machine %s: %w", spec.Name, err)
	}
	e.address = address
	defer func() {
		if err != nil {
			_ = ms.config.Account.Terminate(context.WithoutCancel(ctx), ownerRegion, id)
		}
	}()
	ms.mu.Lock()
	ms.regions[ownerRegion] = true
	ms.mu.Unlock()
	select {
	case ms.look <- struct{}{}:
	default:
	}
	select {
	case <-e.prepared:
	case <-ctx.Done():
		return nil, fmt.Errorf("launch existing machine %s: it does not start (%s): %w", spec.Name, id, ctx.Err())
	}
	l := newLink(e.ctx, netip.AddrPortFrom(address, SSHPort), &ms.wait, func(ctx context.Context) (net.Conn, error) {
		return e.dial(ctx, sshd.Port)
	})
	e.mu.Lock()
	e.link = l
	e.mu.Unlock()
	if err := e.awaitSSHD(ctx, nil); err != nil {
		return nil, fmt.Errorf("launch existing machine %s: %w", spec.Name, err)
	}
	if err := ms.startAgent(e); err != nil {
		return nil, fmt.Errorf("launch existing machine %s: %w", spec.Name, err)
	}
	return e, nil
}

// startAgent makes Session Manager know the machine, for as long as it lives.
func (ms *Machines) startAgent(e *Existing) error {
	private, err := netip.ParseAddr(e.PrivateIP())
	if err != nil {
		return err
	}
	sessions := ms.config.Account.Sessions()
	err = sessions.Register(sessionmanager.Machine{
		InstanceID: e.ID(), Region: ownerRegion, Name: e.Name(), Address: private, Platform: string(e.spec.OS), Dial: ms.DialPort,
	})
	if err != nil {
		return err
	}
	context.AfterFunc(e.ctx, func() { sessions.Deregister(e.ID()) })
	return nil
}

// FindSSHD gives Config.SSHD for a checkout: tools/openssh finds it. Unless
// cached, that may download it.
func FindSSHD(root string, cached bool) func(context.Context) (sshd.Server, error) {
	return func(ctx context.Context) (sshd.Server, error) { return sshd.Find(ctx, root, cached, os.Stderr) }
}

func (ms *Machines) findSSHD(ctx context.Context) error {
	ms.finding.Lock()
	defer ms.finding.Unlock()
	if ms.host.sshd.Folder != "" {
		return nil
	}
	if ms.config.SSHD == nil {
		return errors.New("nothing says where sshd is (Config.SSHD)")
	}
	found, err := ms.config.SSHD(ctx)
	if err != nil {
		return err
	}
	ms.host.sshd = found
	return nil
}

// install puts the SSH server on the machine's disk.
func (e *Existing) install(h host) error {
	private := e.Instance().PrivateIP
	control := string(ssh.MarshalAuthorizedKey(e.control.PublicKey()))
	accounts := []sshd.Account{{Home: "/root", Keys: control}}
	if e.spec.User == "root" {
		accounts[0].Keys += e.spec.AuthorizedKeys
	} else {
		accounts = append(accounts, sshd.Account{Home: "/home/" + e.spec.User, UID: h.uid(), Keys: e.spec.AuthorizedKeys})
	}
	var err error
	e.hostKeys, err = h.sshd.Install(sshd.Host{
		Addresses: []string{private, "127.0.0.1"}, Accounts: accounts, LoneUser: h.loneUser,
		Place: func(path string) (string, error) { return h.onDisk(e.dir, path) },
	})
	return err
}

// Name is the machine's host name.
func (e *Existing) Name() string { return e.spec.Name }

// User is who logs in.
func (e *Existing) User() string { return e.spec.User }

// Address is where the world reaches the machine: this machine's own shells, run
// pods and other machines. It is an elastic IP of the loopback block: port
// SSHPort is sshd, port 6443 the API server if one runs.
func (e *Existing) Address() string { return e.address.String() }

// Port is SSHPort.
func (e *Existing) Port() int { return SSHPort }

// Endpoint is Address and Port as one.
func (e *Existing) Endpoint() string {
	return net.JoinHostPort(e.Address(), strconv.Itoa(SSHPort))
}

// PrivateIP is the machine's own address, by which machines of its network reach
// it, sshd at port 22.
func (e *Existing) PrivateIP() string { return e.Instance().PrivateIP }

// HostKeys are the host keys as lines of authorized_keys.
func (e *Existing) HostKeys() []string { return e.hostKeys }

// Cut breaks all SSH connections to Address. New ones work.
func (e *Existing) Cut() { e.link.cut() }

// CutAfter does what Cut does once n more bytes have passed, both ways and all
// connections counted together.
func (e *Existing) CutAfter(n int64) { e.link.cutAfter(n) }

// Blackhole stops all SSH traffic of Address without a word. What is sent
// meanwhile arrives after Restore, unless its sender gave up.
func (e *Existing) Blackhole() { e.link.blackhole() }

// Refuse breaks all SSH connections to Address and refuses new ones until Restore.
func (e *Existing) Refuse() { e.link.refuse() }

// Restore ends all faults of the SSH connections.
func (e *Existing) Restore() error { return e.link.restore() }

// Exec runs a command line on the machine as root and gives what it prints to
// either stream, and its exit code. No fault of the connections hinders it.
func (e *Existing) Exec(ctx context.Context, command string) (output string, code int, err error) {
	connection, err := e.dial(ctx, sshd.Port)
	if err != nil {
		return "", 0, fmt.Errorf("exec on %s: %w", e.Name(), err)
	}
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer stop()
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(e.hostKeys[0]))
	if err != nil {
		return "", 0, err
	}
	secure, channels, requests, err := ssh.NewClientConn(connection, e.Endpoint(), &ssh.ClientConfig{
		User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(e.control)}, Timeout: time.Minute,
		HostKeyCallback: ssh.FixedHostKey(key), HostKeyAlgorithms: []string{key.Type()},
	})
	if err != nil {
		return "", 0, errors.Join(fmt.Errorf("exec on %s: %w", e.Name(), err), connection.Close())
	}
	client := ssh.NewClient(secure, channels, requests)
	defer func() { _ = client.Close() }()
	session, err := client.NewSession()
	if err != nil {
		return "", 0, fmt.Errorf("exec on %s: %w", e.Name(), err)
	}
	out, err := session.CombinedOutput(command)
	if exit, ok := errors.AsType[*ssh.ExitError](err); ok {
		return string(out), exit.ExitStatus(), nil
	}
	if err != nil {
		return string(out), 0, fmt.Errorf("exec on %s: %w", e.Name(), errors.Join(err, ctx.Err()))
	}
	return string(out), 0, nil
}
