package script

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/redact"
)

// InitParameters say what else the first control plane needs to know.
type InitParameters struct {
	Node Node
	// Endpoint is where all nodes reach the API servers, host or host:port; the node
	// itself if empty.
	Endpoint string
}

// JoinParameters are what a node joins by.
type JoinParameters struct {
	Node           Node
	Endpoint       string        // host or host:port
	Token          redact.Secret // a bootstrap token
	CACertHash     string        // sha256:<64 hexadecimal digits>
	CertificateKey redact.Secret // for control planes: of the uploaded certificates
}

// Prerequisites makes a machine ready for kubeadm: the system's settings, kubelet,
// kubeadm and kubectl in the wanted version. A member of a cluster of another
// version is refused.
func Prerequisites(env v1alpha1.Environment) (Step, error) {
	b, err := kubeadmBody(env, Node{})
	if err != nil {
		return Step{}, err
	}
	b.calls = []string{"wait_for_boot", "prepare_node"}
	return Step{Name: "kubernetes prerequisites", Timeout: 40 * time.Minute, Class: ExitKubernetes}.with(b)
}

// Init makes the first control plane of a cluster, or takes the cluster that the
// machine has.
func Init(env v1alpha1.Environment, p InitParameters) (Step, error) {
	p.Node.ControlPlane = true
	if p.Endpoint == "" {
		p.Endpoint = p.Node.Address
	}
	dedicated := env.Spec.Cluster != nil && env.Spec.Cluster.ControlPlane.Dedicated
	b, err := initBody(env, p, dedicated, nil)
	if err != nil {
		return Step{}, err
	}
	return Step{Name: "kubernetes init", Timeout: 60 * time.Minute, Class: ExitKubernetes}.with(b)
}

func initBody(env v1alpha1.Environment, p InitParameters, tainted bool, names []string) (body, error) {
	b, err := kubeadmBody(env, p.Node)
	if err != nil {
		return body{}, err
	}
	version, err := kubernetesVersion(env)
	if err != nil {
		return body{}, err
	}
	endpoint, host := "", ""
	if p.Endpoint != "" {
		if endpoint, err = withPort(p.Endpoint); err != nil {
			return body{}, err
		}
		if host, _, err = net.SplitHostPort(endpoint); err != nil {
			return body{}, err
		}
	}
	if public := env.Spec.Kubernetes.K8sEndpointHost; public != "" {
		public = hostOf(public)
		if err := checkHost("spec.kubernetes.k8sEndpointHost", public); err != nil {
			return body{}, err
		}
		names = append(names, public)
	}
	documents, err := initDocuments(env, p.Node, endpoint, version, choosePodSubnet(env, p.Node), tainted, names)
	if err != nil {
		return body{}, err
	}
	if path := env.Spec.Kubernetes.KubeAdmConfig; path != "" {
		if len(p.Node.Config) == 0 {
			return body{}, errors.New("spec.kubernetes.kubeAdmConfig: its content is missing")
		}
		if documents, err = mergeConfiguration(documents, p.Node.Config); err != nil {
			return body{}, fmt.Errorf("spec.kubernetes.kubeAdmConfig: %w", err)
		}
	}
	subnet, err := podSubnetOf(documents)
	if err != nil {
		return body{}, fmt.Errorf("spec.kubernetes.kubeAdmConfig: %w", err)
	}
	text, err := marshal(documents)
	if err != nil {
		return body{}, err
	}
	b.values = append(b.values, value{name: "KUBEADM_CONFIG", text: text}, value{name: "ENDPOINT_HOST", text: host}, value{name: "POD_SUBNET", text: subnet})
	b.calls = []string{"wait_for_boot", "prepare_node", "identify_node", "init_cluster", "finish_init"}
	return b, nil
}

// JoinData is a query for what one node needs to join: an object with token,
// caCertificate (PEM) and endpoint (host:port). With a key it also uploads the
// certificates that control planes share, encrypted by it.
func JoinData(env v1alpha1.Environment, key redact.Secret) (Step, error) {
	b, err := kubeadmBody(env, Node{ControlPlane: true})
	if err != nil {
		return Step{}, err
	}
	step := Step{Name: "kubernetes join data", Timeout: 10 * time.Minute, Class: ExitKubernetes, Query: true}
	upload, text := "", ""
	if key != "" {
		if !certificateKey.MatchString(key.Reveal()) {
			return Step{}, errors.New("the certificate key is not 64 hexadecimal digits")
		}
		if step.Stdin, err = stdin(map[string]redact.Secret{certificateKeyName: key}); err != nil {
			return Step{}, err
		}
		version, err := kubernetesVersion(env)
		if err != nil {
			return Step{}, err
		}
		socket, err := criSocket(env)
		if err != nil {
			return Step{}, err
		}
		upload = "1"
		if text, err = marshal(uploadDocuments(socket, version)); err != nil {
			return Step{}, err
		}
	}
	b.values = append(b.values, value{name: "UPLOAD_CERTIFICATES", text: upload}, value{name: "TOKEN_TTL", text: tokenLife}, value{name: "KUBEADM_CONFIG", text: text})
	b.calls = []string{"print_join_data"}
	return step.with(b)
}

// JoinControlPlane makes a machine one more control plane. One at a time may join.
func JoinControlPlane(env v1alpha1.Environment, p JoinParameters) (Step, error) {
	p.Node.ControlPlane = true
	if !certificateKey.MatchString(p.CertificateKey.Reveal()) {
		return Step{}, errors.New("the certificate key is not 64 hexadecimal digits")
	}
	return join(env, p, Step{Name: "kubernetes join control plane", Timeout: 75 * time.Minute, Class: ExitKubernetes},
		map[string]redact.Secret{tokenName: p.Token, certificateKeyName: p.CertificateKey})
}

// JoinWorker makes a machine a worker.
func JoinWorker(env v1alpha1.Environment, p JoinParameters) (Step, error) {
	p.Node.ControlPlane = false
	return join(env, p, Step{Name: "kubernetes join worker", Timeout: 75 * time.Minute, Class: ExitKubernetes},
		map[string]redact.Secret{tokenName: p.Token})
}

func join(env v1alpha1.Environment, p JoinParameters, step Step, secrets map[string]redact.Secret) (Step, error) {
	b, err := kubeadmBody(env, p.Node)
	if err != nil {
		return Step{}, err
	}
	if !tokenPattern.MatchString(p.Token.Reveal()) {
		return Step{}, errors.New("the token is not of the form of a bootstrap token")
	}
	if !caHashPattern.MatchString(p.CACertHash) {
		return Step{}, fmt.Errorf("%q is no hash of a CA", p.CACertHash)
	}
	endpoint, err := withPort(p.Endpoint)
	if err != nil {
		return Step{}, err
	}
	socket, err := criSocket(env)
	if err != nil {
		return Step{}, err
	}
	if step.Stdin, err = stdin(secrets); err != nil {
		return Step{}, err
	}
	names := []string{tokenName}
	if p.Node.ControlPlane {
		names = append(names, certificateKeyName)
	}
	dedicated := env.Spec.Cluster != nil && env.Spec.Cluster.ControlPlane.Dedicated
	text, err := marshal([]document{joinDocument(p.Node, socket, endpoint, p.CACertHash, dedicated)})
	if err != nil {
		return Step{}, err
	}
	b.values = append(b.values, value{name: "KUBEADM_CONFIG", text: text}, value{name: "CA_HASH", text: p.CACertHash}, value{name: "JOIN_SECRETS", list: names})
	b.calls = []string{"wait_for_boot", "prepare_node", "identify_node", "join_cluster"}
	return step.with(b)
}

// Forget takes a node that is no more out of etcd and of the cluster. It runs on a
// control plane that works: a control plane cannot join while a dead member is in
// etcd, and no node while another of its name is Ready.
func Forget(env v1alpha1.Environment, gone Node) (Step, error) {
	if _, err := kubeadmBody(env, gone); err != nil {
		return Step{}, err
	}
	if gone.Name == "" {
		return Step{}, errors.New("the node to forget has no name")
	}
	b, err := kubeadmBody(env, Node{ControlPlane: true})
	if err != nil {
		return Step{}, err
	}
	b.values = append(b.values, value{name: "FORGET_NAME", text: strings.ToLower(gone.Name)}, value{name: "FORGET_ADDRESS", text: gone.Address})
	b.calls = []string{"forget_node"}
	return Step{Name: "kubernetes forget node", Timeout: 10 * time.Minute, Class: ExitKubernetes}.with(b)
}
