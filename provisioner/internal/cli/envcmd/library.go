package envcmd

import (
	"context"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/logger"
	"github.com/kubeopera/platform/shared/provisioner"
	"github.com/kubeopera/platform/shared/redact"
)

// library is the node provisioner library; tests have their own.
type library interface {
	// Cluster prepares work on a cluster's machines; progress may be nil.
	Cluster(t *target, log *logger.FunLogger, progress func(provisioner.NodeProgress)) cluster
	// Machine connects to a single machine.
	Machine(ctx context.Context, t *target, log *logger.FunLogger) (machine, error)
}

// cluster is provisioner.ClusterProvisioner.
type cluster interface {
	ProvisionClusterContext(ctx context.Context, nodes []provisioner.NodeInfo) (*provisioner.ClusterResult, error)
	ResetCluster(ctx context.Context, nodes []provisioner.NodeInfo) (*provisioner.ClusterResult, error)
	GetClusterHealthContext(ctx context.Context, node provisioner.NodeInfo) (*provisioner.ClusterHealth, error)
	Kubeconfig() redact.Secret
}

// machine is provisioner.Provisioner.
type machine interface {
	RunContext(ctx context.Context, env v1alpha1.Environment) (*v1alpha1.ComponentsStatus, error)
	Kubeconfig(ctx context.Context, env v1alpha1.Environment) (redact.Secret, error)
	Close() error
}

type realLibrary struct{}

func (realLibrary) Cluster(t *target, log *logger.FunLogger, progress func(provisioner.NodeProgress)) cluster {
	cp := provisioner.NewClusterProvisioner(log, t.keyPath, t.user, t.env)
	cp.Connection, cp.BaseDir, cp.OnProgress = t.connection, t.baseDir, progress
	return cp
}

func (realLibrary) Machine(ctx context.Context, t *target, log *logger.FunLogger) (machine, error) {
	n := t.nodes[0]
	user := t.user
	if n.SSHUsername != "" {
		user = n.SSHUsername
	}
	options := []provisioner.Option{
		provisioner.WithConnection(t.connection), provisioner.WithBaseDir(t.baseDir), provisioner.WithHostKeys(n.HostKeys...),
	}
	if n.Transport != nil {
		options = append(options, provisioner.WithTransport(n.Transport))
	}
	p, err := provisioner.NewContext(ctx, log, t.keyPath, user, t.env.Spec.HostUrl, options...)
	if err != nil {
		return nil, err
	}
	return p, nil
}
