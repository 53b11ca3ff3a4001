package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kubeopera/platform/sim/aws"
)

var (
	errNobody      = errors.New("nobody has the address")
	errNotServing  = errors.New("no API server runs there")
	errNoTargetsUp = errors.New("the load balancer has no target that answers")
)

// target finds the machine whose API server an address leads to. from is nil
// for a connection of this machine's own, which sees no private addresses.
func (ms *Machines) target(from *Machine, to netip.Addr, port int) (*Machine, error) {
	if from != nil {
		own := from.Instance()
		if (to == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || to.String() == own.PrivateIP) && port == apiPort {
			return from, nil
		}
		for _, m := range ms.Machines() {
			if i := m.Instance(); i.VPCID == own.VPCID && i.PrivateIP == to.String() && port == apiPort && i.State == "running" {
				return m, nil
			}
		}
	}
	ms.mu.Lock()
	routes := ms.routes
	ms.mu.Unlock()
	for _, route := range routes {
		switch {
		case route.IP != to:
		case route.ElasticIP != nil:
			if m, ok := ms.Machine(route.ElasticIP.InstanceID); ok && port == apiPort {
				return m, nil
			}
			return nil, errNotServing
		case route.LoadBalancer != nil:
			return ms.balance(route, port)
		}
	}
	return nil, fmt.Errorf("%w: %s", errNobody, to)
}

// balance picks a target of a load balancer that answers.
func (ms *Machines) balance(route aws.Address, port int) (*Machine, error) {
	for _, listener := range route.LoadBalancer.Listeners {
		if listener.Port != port {
			continue
		}
		for _, t := range listener.Targets {
			if m, ok := ms.Machine(t.InstanceID); ok && t.Port == apiPort {
				if _, err := m.apiServer(); err == nil {
					return m, nil
				}
			}
		}
	}
	return nil, errNoTargetsUp
}

// apiServer is where the machine's API server listens on this machine, if it runs.
func (m *Machine) apiServer() (string, error) {
	m.mu.Lock()
	k := m.kubelet
	m.mu.Unlock()
	if k == nil || k.Data == nil || !slices.Contains(k.StaticPods, "kube-apiserver") || !slices.Contains(k.StaticPods, "etcd") {
		return "", errNotServing
	}
	c, ok := m.machines.clusterOf(k.Data.ClusterID)
	if !ok || !c.Up(k.Data.MemberID) {
		return "", errNotServing
	}
	return c.Address()
}

// refresh opens and closes the addresses of API servers on every machine's
// network, so that one that does not run refuses connections. It is called
// whenever one may have started or ended.
func (ms *Machines) refresh() {
	ms.refreshing.Lock()
	defer ms.refreshing.Unlock()
	machines := ms.Machines()
	serving := map[*Machine]bool{}
	for _, m := range machines {
		_, err := m.apiServer()
		serving[m] = err == nil
	}
	ms.mu.Lock()
	routes := ms.routes
	ms.mu.Unlock()
	for _, m := range machines {
		own := m.Instance()
		wanted := map[netip.AddrPort]func(net.Conn){}
		api := func(ip netip.Addr) { wanted[netip.AddrPortFrom(ip, apiPort)] = m.carryAPI }
		for _, other := range machines {
			i := other.Instance()
			ip, err := netip.ParseAddr(i.PrivateIP)
			if err == nil && serving[other] && i.VPCID == own.VPCID {
				api(ip)
			}
			if other.existing != nil {
				other.existing.showTo(m, ip, wanted)
			}
		}
		if serving[m] {
			api(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
		}
		for _, route := range routes {
			switch {
			case route.LoadBalancer != nil: // it accepts whatever its targets do
				api(route.IP)
			case route.ElasticIP != nil:
				if other, ok := ms.Machine(route.ElasticIP.InstanceID); ok && serving[other] {
					api(route.IP)
				}
			}
		}
		if err := m.listenAt(wanted); err != nil && m.ctx.Err() == nil {
			ms.config.Log.WarnContext(m.ctx, "machine does not listen", "instance", own.ID, "error", err)
		}
	}
}

// listenAt listens for others at these addresses of the machine's network, and no
// longer elsewhere. Only refresh calls it.
func (m *Machine) listenAt(wanted map[netip.AddrPort]func(net.Conn)) error {
	for at, listener := range m.listeners {
		if wanted[at] == nil {
			_ = listener.Close()
			delete(m.listeners, at)
		}
	}
	if m.ctx.Err() != nil {
		return nil //nolint:nilerr // the machine is gone, and so are its listeners
	}
	var problems []error
	for at, handle := range wanted {
		if m.listeners[at] != nil {
			continue
		}
		listener, err := m.network.Listen(m.ctx, "tcp4", at.String())
		if err != nil {
			problems = append(problems, err)
			continue
		}
		m.listeners[at] = listener
		context.AfterFunc(m.ctx, func() { _ = listener.Close() })
		m.machines.wait.Go(func() { m.accept(listener, handle) })
	}
	return errors.Join(problems...)
}

// carryAPI carries a connection of the machine's to an API server.
func (m *Machine) carryAPI(connection net.Conn) {
	local, err := netip.ParseAddrPort(connection.LocalAddr().String())
	if err != nil {
		refuse(connection)
		return
	}
	to, err := m.machines.target(m, local.Addr(), int(local.Port()))
	if err != nil {
		refuse(connection)
		return
	}
	m.machines.carryTo(m.ctx, connection, to)
}

// carryTo carries a connection to a machine's API server; it breaks when that
// one's kubelet ends.
func (ms *Machines) carryTo(ctx context.Context, connection net.Conn, to *Machine) {
	address, err := to.apiServer()
	if err != nil {
		refuse(connection)
		return
	}
	carry(ctx, connection, func(ctx context.Context) (net.Conn, error) { return dial(ctx, address) }, to)
}

// refuse ends a connection with a reset.
func refuse(connection net.Conn) {
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = connection.Close()
}

func (m *Machine) carry(connection net.Conn, open func(context.Context) (net.Conn, error), through *Machine) {
	carry(m.ctx, connection, open, through)
}

// carry copies both ways until one side is through, ctx ends, or the machine
// through which it goes no longer serves.
func carry(ctx context.Context, connection net.Conn, open func(context.Context) (net.Conn, error), through *Machine) {
	other, err := open(ctx)
	if err != nil {
		refuse(connection)
		return
	}
	if through != nil && !through.carrying(connection, true) {
		_ = other.Close()
		refuse(connection)
		return
	}
	stop := context.AfterFunc(ctx, func() { _ = errors.Join(connection.Close(), other.Close()) })
	defer stop()
	var both sync.WaitGroup
	both.Go(func() { copyHalf(other, connection) })
	both.Go(func() { copyHalf(connection, other) })
	both.Wait()
	if through != nil {
		through.carrying(connection, false)
	}
	_ = errors.Join(connection.Close(), other.Close())
}

// copyHalf copies one way and passes the end on. A broken side breaks the other.
func copyHalf(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		_ = errors.Join(to.Close(), from.Close())
		return
	}
	if tcp, ok := to.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
}

// carrying notes a connection that ends with the machine's kubelet. It is false if
// none runs.
func (m *Machine) carrying(connection net.Conn, begins bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !begins {
		delete(m.carried, connection)
		return true
	}
	if m.kubelet == nil {
		return false
	}
	m.carried[connection] = true
	return true
}

// front is a listener on this machine's own network for an address of the
// account, so that kubeconfigs work from a shell here.
type front struct {
	listener net.Listener
	cancel   context.CancelFunc
}

func (f *front) close() {
	f.cancel()
	_ = f.listener.Close()
}

// openFronts listens at the addresses that are in use, and no longer at others.
func (ms *Machines) openFronts(ctx context.Context, routes []aws.Address) error {
	var problems []error
	wanted := map[netip.Addr]bool{}
	for _, route := range routes {
		wanted[route.IP] = true
		ms.mu.Lock()
		_, open := ms.fronts[route.IP]
		ms.mu.Unlock()
		if open {
			continue
		}
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", net.JoinHostPort(route.IP.String(), strconv.Itoa(apiPort)))
		if err != nil {
			problems = append(problems, fmt.Errorf("listen for %s: %w", route.IP, err))
			continue
		}
		serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
		ms.mu.Lock()
		ms.fronts[route.IP] = &front{listener: listener, cancel: cancel}
		ms.mu.Unlock()
		ms.wait.Go(func() { ms.serveFront(serving, listener, route.IP) })
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for ip, f := range ms.fronts {
		if !wanted[ip] {
			f.close()
			delete(ms.fronts, ip)
		}
	}
	return errors.Join(problems...)
}

func (ms *Machines) serveFront(ctx context.Context, listener net.Listener, ip netip.Addr) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		ms.wait.Go(func() {
			to, err := ms.target(nil, ip, apiPort)
			if err != nil {
				refuse(connection)
				return
			}
			ms.carryTo(ctx, connection, to)
		})
	}
}

// after is what follows the last separator.
func after(text, separator string) string {
	return text[strings.LastIndex(text, separator)+len(separator):]
}
