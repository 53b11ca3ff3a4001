package machines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/logger"
	"github.com/kubeopera/platform/shared/provisioner"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runcontract"
)

// Files are what a credential Secret holds for machines.
type Files struct {
	Key         string // path of the private key
	Passphrase  string // path; there may be none
	Certificate string // path; there may be none
}

// FilesIn are the files in a credential Secret's folder.
func FilesIn(dir string) Files {
	return Files{
		Key:         filepath.Join(dir, runcontract.CredentialMachineKeyFile),
		Passphrase:  filepath.Join(dir, runcontract.CredentialMachinePassphraseFile),
		Certificate: filepath.Join(dir, runcontract.CredentialMachineCertificateFile),
	}
}

// Secrets lists the values that must not be shown anywhere: the passphrase, and of
// the key its lines, since nothing prints a key in one piece.
func (f Files) Secrets() ([]string, error) {
	var secrets []string
	key, err := read(f.Key)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(key) {
		if line = strings.TrimSpace(line); len(line) >= 16 && !strings.HasPrefix(line, "-----") {
			secrets = append(secrets, line)
		}
	}
	passphrase, err := read(f.Passphrase)
	if err != nil {
		return nil, err
	}
	if passphrase != "" {
		secrets = append(secrets, passphrase)
	}
	return secrets, nil
}

// read is a file's text; empty if there is none.
func read(path string) (string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the SSH credential: %w", err)
	}
	return string(data), nil
}

// FleetConfig is what NewFleet needs.
type FleetConfig struct {
	Spec  runcontract.Spec
	Files Files
	// AWS is the SDK's configuration for machines that are reached through Systems
	// Manager; called if there is one.
	AWS func(ctx context.Context) (aws.Config, error)
	// Log gets what the machines' scripts print.
	Log *logger.FunLogger
}

// fleet is package provisioner's.
type fleet struct {
	config     FleetConfig
	cluster    *provisioner.ClusterProvisioner
	nodes      []provisioner.NodeInfo
	transports []*provisioner.SSMTransport
}

// NewFleet makes a fleet of a spec's machines. Nothing is connected to yet.
func NewFleet(config FleetConfig) (Fleet, error) {
	passphrase, err := read(config.Files.Passphrase)
	if err != nil {
		return nil, err
	}
	f := &fleet{config: config}
	f.cluster = provisioner.NewClusterProvisioner(config.Log, config.Files.Key, "", Environment(config.Spec))
	f.cluster.ControlPlaneEndpoint = config.Spec.ControlPlaneEndpoint
	f.cluster.Connection = provisioner.Connection{
		Passphrase:    redact.Secret(passphrase),
		HostKeyPolicy: v1alpha1.KnownHostsStrict, // the request brings every key
		MaxRetries:    connectAttempts,
	}
	if _, err := os.Stat(config.Files.Certificate); err == nil {
		f.cluster.Connection.CertificateFile = config.Files.Certificate
	}
	for _, m := range config.Spec.Machines {
		f.nodes = append(f.nodes, provisioner.NodeInfo{
			Name: m.Name, Role: string(m.Role), PublicIP: m.Address, SSHUsername: m.User, Port: m.Port,
			HostKeys: []string{m.HostKey}, InstanceID: m.InstanceID,
		})
	}
	return f, nil
}

// connectAttempts is how often a machine is tried: some minutes of a network that
// is away.
const connectAttempts = 8

// Environment is what a spec asks the library for.
func Environment(s runcontract.Spec) *v1alpha1.Environment {
	count := map[api.Role]int32{}
	for _, m := range s.Machines {
		count[m.Role]++
	}
	cluster := &v1alpha1.ClusterSpec{
		ControlPlane:         v1alpha1.ControlPlaneSpec{Count: count[api.RoleControlPlane], Dedicated: count[api.RoleWorker] > 0},
		Workers:              &v1alpha1.WorkerPoolSpec{Count: count[api.RoleWorker]},
		ControlPlaneEndpoint: s.ControlPlaneEndpoint,
		PodCIDR:              s.PodCIDR,
	}
	if count[api.RoleControlPlane] > 1 {
		cluster.HighAvailability = &v1alpha1.HAConfig{Enabled: true}
	}
	return &v1alpha1.Environment{
		ObjectMeta: metav1.ObjectMeta{Name: s.Environment},
		Spec: v1alpha1.EnvironmentSpec{
			Cluster:          cluster,
			ContainerRuntime: v1alpha1.ContainerRuntime{Install: true, Name: v1alpha1.ContainerRuntimeContainerd},
			Kubernetes: v1alpha1.Kubernetes{
				Install: true, KubernetesInstaller: v1alpha1.InstallerKubeadm,
				Release: &v1alpha1.K8sReleaseSpec{Version: "v" + s.KubernetesVersion},
			},
		},
	}
}

// reach gives the machines behind Systems Manager their transports.
func (f *fleet) reach(ctx context.Context) error {
	behind := func(m runcontract.Machine) bool { return m.Transport == api.TransportSSM }
	if f.transports != nil || !slices.ContainsFunc(f.config.Spec.Machines, behind) {
		return nil
	}
	cfg, err := f.config.AWS(ctx)
	if err != nil {
		return err
	}
	for i, m := range f.config.Spec.Machines {
		if !behind(m) {
			continue
		}
		n := &f.nodes[i]
		t := &provisioner.SSMTransport{
			InstanceID: n.InstanceID, Region: f.config.Spec.Region, Config: &cfg, Port: n.Port, Log: f.config.Log.Slog().With("node", n.Name),
		}
		f.transports = append(f.transports, t)
		n.Transport = t
	}
	return nil
}

// Plan implements Fleet.
func (f *fleet) Plan(ctx context.Context) (string, error) {
	if err := f.reach(ctx); err != nil {
		return "", err
	}
	plan, err := provisioner.NewPlan(ctx, f.cluster.Environment, f.nodes, "")
	if err != nil {
		return "", err
	}
	var text strings.Builder
	provisioner.PrintPlan(&text, plan)
	return text.String(), nil
}

// Connect implements Fleet.
func (f *fleet) Connect(ctx context.Context, seen func(provisioner.NodeProgress)) (*provisioner.ClusterResult, error) {
	return f.do(ctx, seen, f.cluster.CheckConnections)
}

// Provision implements Fleet.
func (f *fleet) Provision(ctx context.Context, seen func(provisioner.NodeProgress)) (*provisioner.ClusterResult, error) {
	return f.do(ctx, seen, f.cluster.ProvisionClusterContext)
}

// Reset implements Fleet.
func (f *fleet) Reset(ctx context.Context, seen func(provisioner.NodeProgress)) (*provisioner.ClusterResult, error) {
	return f.do(ctx, seen, f.cluster.ResetCluster)
}

func (f *fleet) do(ctx context.Context, seen func(provisioner.NodeProgress), what func(context.Context, []provisioner.NodeInfo) (*provisioner.ClusterResult, error)) (*provisioner.ClusterResult, error) {
	if err := f.reach(ctx); err != nil {
		return nil, err
	}
	f.cluster.OnProgress = seen
	return what(ctx, f.nodes)
}

// Kubeconfig implements Fleet.
func (f *fleet) Kubeconfig() redact.Secret { return f.cluster.Kubeconfig() }

// Close implements Fleet.
func (f *fleet) Close() error {
	var errs []error
	for _, t := range f.transports {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}
