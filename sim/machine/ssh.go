package machine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/kubeopera/platform/sim/machine/sshd"
)

// DialPort connects to a port of an instance's machine as its Session Manager
// agent does: from the machine itself, at its loopback address.
func (ms *Machines) DialPort(ctx context.Context, instanceID string, port int) (net.Conn, error) {
	m, ok := ms.Machine(instanceID)
	if !ok || !m.Running() {
		return nil, fmt.Errorf("dial port %d of %s: the machine does not run", port, instanceID)
	}
	connection, err := m.dial(ctx, port)
	if err != nil {
		return nil, fmt.Errorf("dial port %d of %s: %w", port, instanceID, err)
	}
	return connection, nil
}

func (m *Machine) dial(ctx context.Context, port int) (net.Conn, error) {
	return m.network.Dial(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// sshPoll is how often a machine that boots is looked at.
const sshPoll = 50 * time.Millisecond

// awaitSSHD waits until sshd listens and lets the world in then. It gives up when
// ctx or the boot ends.
func (e *Existing) awaitSSHD(ctx context.Context, ended <-chan struct{}) error {
	for {
		up, err := e.listens(sshd.Port)
		if err != nil {
			return err
		}
		if up {
			err := e.link.set(func() { e.link.sshd = true })
			e.machines.refresh()
			return err
		}
		select {
		case <-time.After(sshPoll):
		case <-ended:
			return errors.New("the machine went down before its sshd listened")
		case <-ctx.Done():
			return fmt.Errorf("sshd does not listen: %w", ctx.Err())
		case <-e.ctx.Done():
			return errors.New("the machine ended before its sshd listened")
		}
	}
}

// listens tells whether something listens at a port of the machine's loopback
// address. It does not connect, which sshd would log.
func (m *Machine) listens(port int) (bool, error) {
	var table []byte
	if err := m.network.Do(func() (err error) {
		table, err = os.ReadFile("/proc/thread-self/net/tcp")
		return err
	}); err != nil {
		return false, fmt.Errorf("look for listeners: %w", err)
	}
	local := fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32([]byte{127, 0, 0, 1}), port)
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line) // number, local, remote, state: 0A is LISTEN
		if len(fields) > 3 && fields[1] == local && fields[3] == "0A" {
			return true, nil
		}
	}
	return false, nil
}

// showTo lets another machine reach this one's sshd: at its public address, and
// at the private one if that machine is in the same network.
func (e *Existing) showTo(m *Machine, private netip.Addr, wanted map[netip.AddrPort]func(net.Conn)) {
	e.mu.Lock()
	l := e.link
	e.mu.Unlock()
	if l == nil || !l.open() {
		return
	}
	wanted[l.address] = l.carry
	if m != e.Machine && private.IsValid() && m.Instance().VPCID == e.Instance().VPCID {
		wanted[netip.AddrPortFrom(private, sshd.Port)] = func(c net.Conn) {
			m.carry(c, func(ctx context.Context) (net.Conn, error) { return e.dial(ctx, sshd.Port) }, nil)
		}
	}
}

// booted follows a boot: the world is let in as soon as sshd listens, and out when
// the machine goes down.
func (e *Existing) booted(ctx context.Context, ended <-chan struct{}) {
	e.mu.Lock()
	l := e.link
	e.mu.Unlock()
	if l == nil {
		return // LaunchExisting waits itself
	}
	if err := e.awaitSSHD(ctx, ended); err != nil && e.ctx.Err() == nil {
		e.machines.config.Log.WarnContext(ctx, "machine without SSH", "instance", e.ID(), "error", err)
	}
}

func (e *Existing) wentDown() {
	e.mu.Lock()
	l := e.link
	e.mu.Unlock()
	if l != nil {
		_ = l.set(func() { l.sshd = false }) // closing does not fail
	}
}
