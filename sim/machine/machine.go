package machine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/kubeopera/platform/sim/aws/account"
	"github.com/kubeopera/platform/sim/aws/keyring"
	"github.com/kubeopera/platform/sim/machine/guest"
	"github.com/kubeopera/platform/sim/machine/systemd"
	"github.com/kubeopera/platform/sim/network"
	"github.com/kubeopera/platform/sim/sandbox"
)

// Machine is the machine of an instance.
type Machine struct {
	machines *Machines
	dir      string
	network  *network.Network
	userData []byte
	hostname string
	started  time.Time
	ctx      context.Context //nolint:containedctx // the machine's life, for what it listens to
	cancel   context.CancelFunc

	existing  *Existing                       // nil: not launched as one
	listeners map[netip.AddrPort]net.Listener // for other machines' ports; Machines.refresh has them

	mu       sync.Mutex
	instance account.Instance
	role     string
	session  keyring.Key
	process  *sandbox.Process // nil: off
	ended    chan struct{}    // closed when process has ended
	off      bool             // stays off until it is started
	stopped  bool             // as its instance is
	mac      string
	gone     bool           // for good
	kubelet  *guest.Kubelet // nil: none runs
	calls    int            // of kubelets, to tell them apart
	data     *guest.Data    // of etcd on its disk, as last heard
	carried  map[net.Conn]bool
}

// adapt makes a machine be what its instance is.
func (ms *Machines) adapt(ctx context.Context, instance account.Instance) error {
	m, known := ms.Machine(instance.ID)
	switch instance.State {
	case "running":
		if !known {
			return ms.start(ctx, instance)
		}
		m.update(instance)
		return m.powerOn(ctx)
	case "stopping", "stopped":
		if known {
			m.update(instance)
			m.powerOff()
		}
	case "shutting-down", "terminated":
		if known {
			m.update(instance)
			m.terminate(ctx)
		}
	}
	return nil
}

// start makes a machine and boots it.
func (ms *Machines) start(ctx context.Context, instance account.Instance) error {
	userData, err := ms.config.Account.UserData(ctx, instance.Region, instance.ID)
	if err != nil {
		return err
	}
	living, cancel := context.WithCancel(context.WithoutCancel(ctx))
	m := &Machine{
		machines: ms, dir: filepath.Join(ms.config.Dir, instance.ID), userData: userData, started: time.Now(),
		ctx: living, cancel: cancel, instance: instance, mac: macOf(), hostname: firstLabel(instance.PrivateDNS), carried: map[net.Conn]bool{}, listeners: map[netip.AddrPort]net.Listener{},
	}
	ms.mu.Lock()
	existing := ms.awaited[instance.Tags[existingTag]]
	ms.mu.Unlock()
	if existing != nil {
		existing.Machine, m.existing, m.hostname = m, existing, existing.spec.Name
	}
	if err := m.prepare(); err != nil {
		cancel()
		return err
	}
	ms.mu.Lock()
	if ms.stopping {
		ms.mu.Unlock()
		m.close()
		return nil
	}
	ms.machines[instance.ID] = m
	ms.mu.Unlock()
	ms.config.Log.InfoContext(ctx, "machine starts", "instance", instance.ID, "name", m.name(), "address", instance.PrivateIP, "dir", m.dir)
	if err := m.boot(ctx); err != nil {
		return err
	}
	if existing != nil {
		close(existing.prepared)
	}
	return nil
}

// prepare makes the disk and the network.
func (m *Machine) prepare() (err error) {
	if err := m.machines.host.makeDisk(m); err != nil {
		return fmt.Errorf("make disk: %w", err)
	}
	if m.network, err = network.New(); err != nil {
		return err
	}
	if ip := net.ParseIP(m.instance.PrivateIP); ip != nil {
		if err := m.network.AddAddress(ip, 24); err != nil {
			return err
		}
	}
	return m.serve()
}

// boot starts the machine's first process and waits for its end in the background.
func (m *Machine) boot(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process != nil || m.gone {
		return nil
	}
	if err := m.machines.host.freshBoot(m.dir, uuid.NewString()); err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	console, err := os.OpenFile(m.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = console.Close() }()
	container := sandbox.Container{
		Root: filepath.Join(m.dir, "root"), Hostname: m.hostname, Mounts: m.machines.host.mounts(m),
		Args: []string{guest.Init}, Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
	}
	var process *sandbox.Process
	if err := m.network.Do(func() (err error) {
		process, err = container.Start(console, console)
		return err
	}); err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	m.process, m.ended, m.off = process, make(chan struct{}), false
	ended := m.ended
	m.machines.wait.Go(func() { m.watch(context.WithoutCancel(ctx), process, ended) })
	if m.existing != nil {
		m.machines.wait.Go(func() { m.existing.booted(context.WithoutCancel(ctx), ended) })
	}
	return nil
}

// watch waits for the end of a boot, and boots again if the machine asks for it.
func (m *Machine) watch(ctx context.Context, process *sandbox.Process, ended chan struct{}) {
	exit, err := process.Wait()
	m.mu.Lock()
	m.process = nil
	again := err == nil && exit.Code == guest.ExitReboot && !m.off && !m.gone
	if !again {
		m.off = true
	}
	m.mu.Unlock()
	if m.existing != nil {
		m.existing.wentDown()
	}
	close(ended)
	m.kubeletEnded(0)
	if again {
		if err := m.boot(ctx); err != nil {
			m.machines.config.Log.WarnContext(ctx, "machine not booted", "instance", m.ID(), "error", err)
		}
	}
}

// kill ends the machine's processes at once, as a power failure does.
func (m *Machine) kill() {
	m.mu.Lock()
	process, ended := m.process, m.ended
	m.off = true
	m.mu.Unlock()
	if process != nil {
		_ = process.Signal(syscall.SIGKILL)
		<-ended
	}
}

// powerOn boots a machine whose instance was stopped and runs again.
func (m *Machine) powerOn(ctx context.Context) error {
	m.mu.Lock()
	stopped := m.stopped
	m.stopped = false
	m.mu.Unlock()
	if !stopped {
		return nil
	}
	return m.boot(ctx)
}

// powerOff follows an instance that was stopped.
func (m *Machine) powerOff() {
	m.mu.Lock()
	already := m.stopped
	m.stopped = true
	m.mu.Unlock()
	if !already {
		m.kill()
	}
}

// terminate ends the machine for good. Its disk goes, its logs stay.
func (m *Machine) terminate(ctx context.Context) {
	m.mu.Lock()
	already := m.gone
	m.gone, m.data = true, nil
	m.mu.Unlock()
	if already {
		return
	}
	m.machines.config.Log.InfoContext(ctx, "machine ends", "instance", m.ID(), "name", m.name())
	m.close()
	if err := m.machines.host.removeDisk(m.dir); err != nil {
		m.machines.config.Log.WarnContext(ctx, "disk not removed", "instance", m.ID(), "error", err)
	}
	if m.existing != nil {
		if err := m.machines.owner.release(ctx, m.existing.address); err != nil {
			m.machines.config.Log.WarnContext(ctx, "elastic IP not released", "instance", m.ID(), "error", err)
		}
	}
}

func (m *Machine) close() {
	m.kill()
	m.cancel()
	if m.network != nil {
		_ = m.network.Close()
	}
}

func (m *Machine) update(instance account.Instance) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.instance = instance
}

// Instance is the machine's instance as it was last seen.
func (m *Machine) Instance() account.Instance {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.instance
}

// ID is the instance's.
func (m *Machine) ID() string { return m.Instance().ID }

// name is what people call the machine.
func (m *Machine) name() string {
	tags := m.Instance().Tags
	for _, key := range []string{"Name", "kubeopera.io/node"} {
		if tags[key] != "" {
			return tags[key]
		}
	}
	return m.hostname
}

func firstLabel(name string) string {
	label, _, _ := strings.Cut(name, ".")
	return label
}

// LogFile is what the machine's console prints: the journal, and what user_data
// prints.
func (m *Machine) LogFile() string { return filepath.Join(m.dir, "console.log") }

// Log is what LogFile holds.
func (m *Machine) Log() (string, error) {
	content, err := os.ReadFile(m.LogFile())
	return string(content), err
}

// Running tells whether the machine is on.
func (m *Machine) Running() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process != nil
}

// Kill cuts the power; the machine stays off until Boot.
func (m *Machine) Kill() { m.kill() }

// Boot switches a machine on that is off. user_data does not run again.
func (m *Machine) Boot(ctx context.Context) error { return m.boot(ctx) }

// Reboot cuts the power and switches the machine on again.
func (m *Machine) Reboot(ctx context.Context) error {
	m.kill()
	return m.boot(ctx)
}

// Terminate terminates the instance, and with it the machine.
func (m *Machine) Terminate(ctx context.Context) error {
	i := m.Instance()
	if err := m.machines.config.Account.Terminate(ctx, i.Region, i.ID); err != nil {
		return err
	}
	m.terminate(ctx)
	return nil
}

// Systemctl calls systemctl on the machine.
func (m *Machine) Systemctl(ctx context.Context, args ...string) (code int, output string, err error) {
	// A socket's path has at most 107 bytes: it is reached by its directory.
	dir, err := os.Open(filepath.Join(m.dir, "run", "systemd"))
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = dir.Close() }()
	var out strings.Builder
	code, err = systemd.Call(ctx, fmt.Sprintf("/proc/self/fd/%d/private", dir.Fd()), args, &out, &out)
	return code, out.String(), err
}

// Path is where a file of the machine's is on this machine, for a look at it.
func (m *Machine) Path(path string) (string, error) {
	return m.machines.host.onDisk(m.dir, path)
}

// holds tells whether the machine has a cluster's data on its disk.
func (m *Machine) holds(clusterID string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.data != nil && m.data.ClusterID == clusterID
}

// kubeletBegan notes what a kubelet says. It returns a number for kubeletEnded.
func (m *Machine) kubeletBegan(k guest.Kubelet) int {
	m.mu.Lock()
	m.calls++
	call := m.calls
	m.kubelet = &k
	if k.Data != nil {
		m.data = k.Data
	}
	id := m.instance.ID
	m.mu.Unlock()
	m.etcdRuns(id, k, slices.Contains(k.StaticPods, "etcd"))
	m.machines.refresh()
	return call
}

// kubeletEnded notes that a kubelet, or with 0 any, no longer runs.
func (m *Machine) kubeletEnded(call int) {
	m.mu.Lock()
	k, id := m.kubelet, m.instance.ID
	if k == nil || call != 0 && call != m.calls {
		m.mu.Unlock()
		return
	}
	m.kubelet = nil
	carried := m.carried
	m.carried = map[net.Conn]bool{}
	m.mu.Unlock()
	m.etcdRuns(id, *k, false)
	m.machines.refresh()
	for connection := range carried {
		_ = connection.Close()
	}
}

func (m *Machine) etcdRuns(id string, k guest.Kubelet, running bool) {
	if k.Data == nil {
		return
	}
	if c, ok := m.machines.clusterOf(k.Data.ClusterID); ok {
		c.Running(id, k.Node, k.Data.MemberID, running)
	}
}

// credentials are those of the machine's role, good for a while.
func (m *Machine) credentials() (keyring.Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.session.ID != "" && time.Until(m.session.ExpiresAt) > 15*time.Minute {
		return m.session, nil
	}
	if m.role == "" {
		return keyring.Key{}, errors.New("the machine has no role")
	}
	session, err := m.machines.config.Account.RegisterSession(m.role, m.instance.ID)
	if err != nil {
		return keyring.Key{}, err
	}
	m.session = session
	return session, nil
}

// roleARN finds out the role of the machine's profile, once.
func (m *Machine) roleARN(ctx context.Context) (string, error) {
	m.mu.Lock()
	role, profile := m.role, m.instance.ProfileARN
	m.mu.Unlock()
	if role != "" || profile == "" {
		return role, nil
	}
	role, err := m.machines.config.Account.ProfileRole(ctx, profile)
	if err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.role = role
	return role, nil
}

// macOf makes a MAC address of an instance's own.
func macOf() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // it never fails
	return fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4])
}
