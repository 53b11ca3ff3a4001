package script

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
)

// Node is a machine as the cluster is to know it.
type Node struct {
	// Name is the node's name; the machine's host name if empty.
	Name string
	// Address is its IP address among the nodes; that of the machine's default route
	// if empty.
	Address      string
	ControlPlane bool
	// Config is the content of the file that spec.kubernetes.kubeAdmConfig or
	// kindConfig names. Only Kubernetes uses it.
	Config []byte
}

const (
	// podSubnet is holodeck's; otherPodSubnet is taken where the machines are in it.
	podSubnet      = "192.168.0.0/16"
	otherPodSubnet = "10.244.0.0/16"
	// tokenLife is for one join, with all the attempts that it may need.
	tokenLife = "1h0m0s"
)

var (
	caHashPattern  = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	tokenPattern   = regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)
	certificateKey = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

func installer(env v1alpha1.Environment) string {
	if env.Spec.Kubernetes.KubernetesInstaller == "" {
		return v1alpha1.InstallerKubeadm
	}
	return env.Spec.Kubernetes.KubernetesInstaller
}

// kubernetesVersion is X.Y.Z of the release.
func kubernetesVersion(env v1alpha1.Environment) (string, error) {
	k := env.Spec.Kubernetes
	if k.Source != "" && k.Source != v1alpha1.K8sSourceRelease {
		return "", fmt.Errorf("spec.kubernetes.source: %w: %q; only release is", ErrUnsupported, k.Source)
	}
	if k.Release == nil {
		return "", errors.New("spec.kubernetes.release.version: is missing")
	}
	version := strings.TrimPrefix(k.Release.Version, "v")
	parts := releasePattern.FindStringSubmatch(version)
	if parts == nil {
		return "", fmt.Errorf("spec.kubernetes.release.version: %q is not of the form vX.Y.Z", k.Release.Version)
	}
	// v1beta4 of kubeadm's configuration came with 1.31.
	minor, err := strconv.Atoi(parts[2])
	if installer(env) == v1alpha1.InstallerKubeadm && (err != nil || parts[1] != "1" || minor < 31) {
		return "", fmt.Errorf("spec.kubernetes.release.version: %w: %q; 1.31 is the oldest", ErrUnsupported, k.Release.Version)
	}
	return version, nil
}

// clusterName is the environment's name, which Kubernetes wants as a DNS label.
func clusterName(env v1alpha1.Environment) string {
	if name := env.Name; len(name) <= 63 && hostPattern.MatchString(name) && !strings.Contains(name, ".") {
		return name
	}
	return "holodeck-cluster"
}

// kubeadmBody is what all steps with kubeadm have.
func kubeadmBody(env v1alpha1.Environment, node Node) (body, error) {
	k := env.Spec.Kubernetes
	version, err := kubernetesVersion(env)
	if err != nil {
		return body{}, err
	}
	socket, err := criSocket(env)
	if err != nil {
		return body{}, err
	}
	if k.CalicoVersion != "" && k.CalicoVersion != v1alpha1.DefaultCalicoVersion {
		return body{}, fmt.Errorf("spec.kubernetes.calicoVersion: %w: %q; the sums of %s are known", ErrUnsupported, k.CalicoVersion, v1alpha1.DefaultCalicoVersion)
	}
	crictl, err := packageVersion("spec.kubernetes.crictlVersion", k.CrictlVersion)
	if err != nil {
		return body{}, err
	}
	plugins, err := packageVersion("spec.kubernetes.cniPluginsVersion", k.CniPluginsVersion)
	if err != nil {
		return body{}, err
	}
	if k.Arch != "" && k.Arch != "amd64" && k.Arch != "arm64" {
		return body{}, fmt.Errorf("spec.kubernetes.arch: %w: %q", ErrUnsupported, k.Arch)
	}
	if node.Name != "" {
		if _, err := netip.ParseAddr(node.Name); err == nil || len(node.Name) > 253 || !hostPattern.MatchString(strings.ToLower(node.Name)) {
			return body{}, fmt.Errorf("node name %q: is no DNS name", node.Name)
		}
	}
	if node.Address != "" {
		if _, err := netip.ParseAddr(node.Address); err != nil || strings.Contains(node.Address, "%") {
			return body{}, fmt.Errorf("node %s: %q is no IP address", node.Name, node.Address)
		}
	}
	role := "worker"
	if node.ControlPlane {
		role = "control-plane"
	}
	return body{
		values: []value{
			{name: "KUBERNETES_VERSION", text: version},
			{name: "CRI_SOCKET", text: socket},
			{name: "CRICTL_VERSION", text: crictl},
			{name: "CNI_PLUGINS_VERSION", text: plugins},
			{name: "WANT_ARCH", text: k.Arch},
			{name: "NODE_NAME", text: strings.ToLower(node.Name)},
			{name: "NODE_ADDRESS", text: node.Address},
			{name: "ROLE", text: role},
		},
		files: []string{"node.sh", "cluster.sh"},
	}, nil
}

// choosePodSubnet is the environment's, or avoids the network of the machines.
func choosePodSubnet(env v1alpha1.Environment, node Node) string {
	if c := env.Spec.Cluster; c != nil && c.PodCIDR != "" {
		return c.PodCIDR
	}
	if address, err := netip.ParseAddr(node.Address); err == nil && netip.MustParsePrefix(podSubnet).Contains(address.Unmap()) {
		return otherPodSubnet
	}
	return podSubnet
}

// Kubernetes installs Kubernetes on a single machine, by the installer of
// spec.kubernetes. Of node only Config is needed; Address, if it is a host or
// host:port by which the machine is reached, becomes a name of the API server.
func Kubernetes(env v1alpha1.Environment, node Node) (Step, error) {
	step := Step{Name: "kubernetes", Timeout: 60 * time.Minute, Class: ExitKubernetes}
	switch name := installer(env); name {
	case v1alpha1.InstallerKubeadm:
		var names []string
		if host := hostOf(node.Address); checkHost("", host) == nil {
			names = append(names, host)
		}
		b, err := initBody(env, InitParameters{Node: Node{ControlPlane: true, Config: node.Config}}, false, names)
		if err != nil {
			return Step{}, err
		}
		return step.with(b)
	case v1alpha1.InstallerKind:
		version, err := kubernetesVersion(env)
		if err != nil {
			return Step{}, err
		}
		if env.Spec.Kubernetes.KindConfig != "" && len(node.Config) == 0 {
			return Step{}, errors.New("spec.kubernetes.kindConfig: its content is missing")
		}
		return step.with(body{values: []value{
			{name: "KUBERNETES_VERSION", text: version}, {name: "CLUSTER_NAME", text: clusterName(env)}, {name: "KIND_CONFIG", text: string(node.Config)},
		}, files: []string{"runtime.sh", "node.sh", "kind.sh"}, calls: []string{"wait_for_boot", "ensure_kind"}})
	case v1alpha1.InstallerMicroK8s:
		channel, err := microK8sChannel(env)
		if err != nil {
			return Step{}, err
		}
		return step.with(body{values: []value{{name: "MICROK8S_CHANNEL", text: channel}}, files: []string{"microk8s.sh"}, calls: []string{"wait_for_boot", "ensure_microk8s"}})
	default:
		return Step{}, fmt.Errorf("spec.kubernetes.installer: %w: %q", ErrUnsupported, name)
	}
}

// hostOf is the host of host:port.
func hostOf(text string) string {
	if host, _, err := net.SplitHostPort(text); err == nil {
		return strings.ToLower(host)
	}
	return strings.ToLower(text)
}

// microK8sChannel is X.Y/stable: the snap has no channels of patches.
func microK8sChannel(env v1alpha1.Environment) (string, error) {
	k := env.Spec.Kubernetes
	if k.Source != "" && k.Source != v1alpha1.K8sSourceRelease {
		return "", fmt.Errorf("spec.kubernetes.source: %w: %q; only release is", ErrUnsupported, k.Source)
	}
	if k.Release == nil {
		return "", errors.New("spec.kubernetes.release.version: is missing")
	}
	parts := regexp.MustCompile(`^v?([0-9]+\.[0-9]+)(\.[0-9]+)?$`).FindStringSubmatch(k.Release.Version)
	if parts == nil {
		return "", fmt.Errorf("spec.kubernetes.release.version: %q is not of the form vX.Y.Z", k.Release.Version)
	}
	return parts[1] + "/stable", nil
}

// Kubeconfig is a query for the administrator's kubeconfig, as it is on the machine.
func Kubeconfig(env v1alpha1.Environment) (Step, error) {
	return perInstaller(env, Step{Name: "kubeconfig", Timeout: 5 * time.Minute, Class: ExitKubernetes, Query: true},
		"print_admin_conf", "print_kind_conf", "print_microk8s_conf")
}

// Reset takes the machine out of its cluster, and the cluster's traces off the
// machine. Software stays, but for the snap of microk8s. Control planes leave etcd.
func Reset(env v1alpha1.Environment) (Step, error) {
	return perInstaller(env, Step{Name: "kubernetes reset", Timeout: 20 * time.Minute, Class: ExitKubernetes}, "reset_node", "reset_kind", "reset_microk8s")
}

// perInstaller is a step of one call, which the installer decides.
func perInstaller(env v1alpha1.Environment, step Step, kubeadm, kind, microk8s string) (Step, error) {
	switch name := installer(env); name {
	case v1alpha1.InstallerKubeadm:
		b, err := kubeadmBody(env, Node{})
		if err != nil {
			return Step{}, err
		}
		b.calls = []string{kubeadm}
		return step.with(b)
	case v1alpha1.InstallerKind:
		return step.with(body{values: []value{{name: "CLUSTER_NAME", text: clusterName(env)}}, files: []string{"runtime.sh", "node.sh", "kind.sh"}, calls: []string{kind}})
	case v1alpha1.InstallerMicroK8s:
		channel, err := microK8sChannel(env)
		if err != nil {
			return Step{}, err
		}
		return step.with(body{values: []value{{name: "MICROK8S_CHANNEL", text: channel}}, files: []string{"microk8s.sh"}, calls: []string{microk8s}})
	default:
		return Step{}, fmt.Errorf("spec.kubernetes.installer: %w: %q", ErrUnsupported, name)
	}
}

// Observe is a query for what is on the machine: an object with os, kernel,
// architecture, bootID, gpu (bool), and the versions driver, containerd, docker,
// criDockerd, crio, toolkit, kubelet, kubeadm, kind, microk8s (its channel), which
// are empty for what is not there.
func Observe(v1alpha1.Environment) (Step, error) {
	return Step{Name: "observe", Timeout: 5 * time.Minute, Class: ExitOther, Query: true}.with(body{
		files: []string{"driver.sh", "runtime.sh", "toolkit.sh", "kind.sh", "microk8s.sh", "observe.sh"}, calls: []string{"print_observation"},
	})
}
