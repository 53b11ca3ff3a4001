package machine

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubeopera/platform/sim/machine/cluster"
	"github.com/kubeopera/platform/sim/machine/guest"
)

// newCluster is what kubeadm init asks for.
func (m *Machine) newCluster(ctx context.Context, ask guest.NewCluster) (guest.Cluster, error) {
	ms := m.machines
	id, dir := ms.newClusterID()
	// Half a control plane helps nobody: it is made whole even if the machine dies meanwhile.
	made, err := cluster.Start(context.WithoutCancel(ctx), cluster.Config{
		ID: id, Assets: ms.config.Assets, Dir: dir, Names: ask.Names, ServiceCIDR: ask.ServiceCIDR,
		First: ask.Member, Machine: m.ID(), Log: ms.config.Log,
	})
	if err != nil {
		return guest.Cluster{}, err
	}
	keys, err := made.Keys()
	if err != nil {
		return guest.Cluster{}, errors.Join(err, made.Stop(ctx))
	}
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	running := &runningCluster{Cluster: made, stop: stop, done: make(chan struct{})}
	vpc := m.Instance().VPCID
	ms.mu.Lock()
	if ms.stopping {
		ms.mu.Unlock()
		stop()
		return guest.Cluster{}, errors.Join(errors.New("the simulator stops"), made.Stop(ctx))
	}
	ms.clusters[id] = running
	ms.mu.Unlock()
	m.mu.Lock()
	m.data = &keys.Data // it is on the disk as soon as kubeadm has written it
	m.mu.Unlock()
	ms.config.Log.InfoContext(ctx, "cluster made", "cluster", id, "by", m.name())
	go func() {
		defer close(running.done)
		made.Keep(keeping, func() map[string]cluster.Node { return ms.nodes(vpc) })
	}()
	return keys, nil
}

// nodes is what is known of a network's machines, by their names.
func (ms *Machines) nodes(vpc string) map[string]cluster.Node {
	nodes := map[string]cluster.Node{}
	for _, m := range ms.Machines() {
		i := m.Instance()
		if i.VPCID != vpc {
			continue
		}
		m.mu.Lock()
		node := cluster.Node{Gone: m.gone, Zone: i.Zone, Region: i.Region, Type: i.Type}
		name := m.hostname
		if m.kubelet != nil {
			name, node.Alive, node.StaticPods = m.kubelet.Node, true, m.kubelet.StaticPods
		}
		m.mu.Unlock()
		// An address, and with it a name, may be used again: who lives has it.
		if other, ok := nodes[name]; !ok || !other.Alive {
			nodes[name] = node
		}
	}
	return nodes
}

// etcd is a call to the etcd of a node, or of the machine's own cluster.
func (m *Machine) etcd(_ context.Context, call guest.Etcd) (guest.EtcdAnswer, error) {
	c, err := m.etcdCluster(call.Node)
	if err != nil {
		return guest.EtcdAnswer{}, err
	}
	defer m.machines.refresh() // who may serve has perhaps changed
	answer := guest.EtcdAnswer{ClusterID: c.ID()}
	switch call.Do {
	case guest.EtcdList:
		answer.Members, err = c.Members()
	case guest.EtcdAdd:
		answer.Member, err = c.Add(call.Member.PeerURL)
	case guest.EtcdPromote:
		err = c.Promote(call.Member.ID)
	case guest.EtcdRemove:
		err = c.Remove(call.Member.ID)
		if call.Node == "" { // kubeadm reset: the data goes with it
			m.mu.Lock()
			m.data = nil
			m.mu.Unlock()
			if errors.Is(err, cluster.ErrUnhealthy) || len(c.AllMembers()) == 1 {
				err = nil // the last member takes the cluster with it
			}
		}
	default:
		err = fmt.Errorf("etcd does not know %q", call.Do)
	}
	return answer, err
}

// etcdCluster finds the cluster that a node of the machine's network is in. The
// node's etcd must answer.
func (m *Machine) etcdCluster(node string) (*runningCluster, error) {
	if node == "" {
		m.mu.Lock()
		data := m.data
		m.mu.Unlock()
		if data == nil {
			return nil, cluster.ErrNotFound
		}
		c, ok := m.machines.clusterOf(data.ClusterID)
		if !ok {
			return nil, cluster.ErrNotFound
		}
		return c, nil
	}
	own := m.Instance()
	for _, other := range m.machines.Machines() {
		i := other.Instance()
		other.mu.Lock()
		k := other.kubelet
		other.mu.Unlock()
		if i.VPCID != own.VPCID || k == nil || k.Node != node {
			continue
		}
		if k.Data == nil {
			return nil, fmt.Errorf("error dialing backend: etcd-%s does not run", node)
		}
		if c, ok := m.machines.clusterOf(k.Data.ClusterID); ok {
			return c, nil
		}
	}
	return nil, fmt.Errorf("error from server: error dialing backend: dial tcp: lookup %s: i/o timeout", node)
}
