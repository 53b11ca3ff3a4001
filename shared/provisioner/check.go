package provisioner

import "context"

// CheckConnections logs in to all nodes, several at a time, and changes nothing on
// them. A node that does not let it in stops no other. The result is nil only if
// the input is refused.
func (cp *ClusterProvisioner) CheckConnections(ctx context.Context, nodes []NodeInfo) (*ClusterResult, error) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	r, err := cp.newRun(nodes)
	if err != nil {
		return nil, err
	}
	defer r.close()
	err = r.connectAll(ctx)
	if err != nil {
		r.skip(r.members, PhaseConnecting, err)
	}
	return r.result(err)
}
