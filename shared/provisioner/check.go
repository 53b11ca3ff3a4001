package provisioner

import "context"

// CheckConnections logs in to all nodes, several at a time, and changes nothing on
// them. A node that does not let it in, or that belongs to another environment or
// cluster, is an error and stops no other. The result is nil only if the input is
// refused.
func (cp *ClusterProvisioner) CheckConnections(ctx context.Context, nodes []NodeInfo) (*ClusterResult, error) {
	return cp.call(nodes, func(r *clusterRun) error {
		if err := r.connectAll(ctx); err != nil {
			return err
		}
		r.checkOwners(ctx, false)
		return nil
	})
}
