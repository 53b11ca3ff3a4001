package provisioner

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/kubeconfig"
	"github.com/kubeopera/platform/shared/provisioner/internal/script"
	"github.com/kubeopera/platform/shared/redact"
)

// Kubeconfig is an administrator's kubeconfig whose server is the control plane
// endpoint, or spec.kubernetes.k8sEndpointHost if that is set. It is empty before
// ProvisionCluster has come to a cluster that answers.
func (cp *ClusterProvisioner) Kubeconfig() redact.Secret {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	return cp.kubeconfig
}

// Kubeconfig is the administrator's kubeconfig of the machine's cluster. With
// spec.kubernetes.remoteAccess, and kubeadm, its server is the machine as seen from
// here, or spec.kubernetes.k8sEndpointHost.
func (p *Provisioner) Kubeconfig(ctx context.Context, env v1alpha1.Environment) (redact.Secret, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.machine == nil {
		return "", errClosed
	}
	r, err := resolve(&env)
	if err != nil {
		return "", err
	}
	return p.readKubeconfig(ctx, r.env)
}

func (p *Provisioner) readKubeconfig(ctx context.Context, env v1alpha1.Environment) (redact.Secret, error) {
	k := env.Spec.Kubernetes
	server := ""
	if k.RemoteAccess && k.KubernetesInstaller == v1alpha1.InstallerKubeadm {
		host, _ := splitHostPort(p.HostUrl, "")
		server = cmp.Or(k.K8sEndpointHost, host)
	}
	return p.machine.kubeconfig(ctx, env, server)
}

// readKubeconfig keeps the administrator's kubeconfig.
func (r *clusterRun) readKubeconfig(ctx context.Context) error {
	server := cmp.Or(r.env.Spec.Kubernetes.K8sEndpointHost, r.cp.ControlPlaneEndpoint)
	err := r.viaControlPlane(ctx, func(c *machine) (err error) {
		r.cp.kubeconfig, err = c.kubeconfig(ctx, r.env, server)
		return err
	})
	if err != nil {
		return err
	}
	return writeKubeconfig(r.env.Spec.Kubernetes.KubeConfig, r.cp.kubeconfig)
}

func (m *machine) kubeconfig(ctx context.Context, env v1alpha1.Environment, server string) (redact.Secret, error) {
	step, err := script.Kubeconfig(env)
	if err != nil {
		return "", err
	}
	data, err := m.query(ctx, step)
	if err != nil {
		return "", err
	}
	return withServer(data, server)
}

const apiPort = "6443"

// withServer is a kubeconfig whose clusters are reached at server, host or
// host:port; at what it says itself if server is empty.
func withServer(data []byte, server string) (redact.Secret, error) {
	config, err := kubeconfig.Parse(data)
	if err != nil {
		return "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	if server != "" {
		host, port := splitHostPort(server, apiPort)
		for _, c := range config.Clusters {
			c.Server = "https://" + net.JoinHostPort(host, port)
		}
	}
	out, err := clientcmd.Write(*config)
	if err != nil {
		return "", fmt.Errorf("write the kubeconfig: %w", err)
	}
	return redact.Secret(out), nil
}

// writeKubeconfig puts a kubeconfig where the environment wants it, for its owner
// only; nowhere if path is empty.
func writeKubeconfig(path string, config redact.Secret) error {
	if path == "" {
		return nil
	}
	path = expandHome(path)
	f, err := os.CreateTemp(filepath.Dir(path), ".kubeconfig-*") // for its owner only
	if err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	defer os.Remove(f.Name()) // of no effect once it has its name
	_, err = f.WriteString(config.Reveal())
	if err = cmp.Or(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	return nil
}
