package script

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
)

// What stands in a configuration until the machine knows it. No checked value can
// look like one.
const (
	addressPlace        = "@ADDRESS@"
	tokenPlace          = "@TOKEN@"
	certificateKeyPlace = "@CERTIFICATE_KEY@"
)

const (
	kubeadmAPI    = "kubeadm.k8s.io/v1beta4"
	apiPort       = "6443"
	serviceSubnet = "10.96.0.0/12"
)

// document is one of the objects that kubeadm is configured with: its extra
// arguments are lists.
type document = map[string]any

// criSocket is where the kubelet finds the runtime.
func criSocket(env v1alpha1.Environment) (string, error) {
	switch name := runtimeName(env); name {
	case v1alpha1.ContainerRuntimeContainerd:
		return "unix:///run/containerd/containerd.sock", nil
	case v1alpha1.ContainerRuntimeCrio:
		return "unix:///run/crio/crio.sock", nil
	case v1alpha1.ContainerRuntimeDocker:
		return "unix:///run/cri-dockerd.sock", nil
	default:
		return "", fmt.Errorf("spec.containerRuntime.name: %w: %q", ErrUnsupported, name)
	}
}

// registration is how a node registers. Without tainted a control plane takes
// workloads from the start.
func registration(node Node, socket string, tainted bool) document {
	out := document{
		"criSocket":        socket,
		"kubeletExtraArgs": []any{document{"name": "node-ip", "value": addressPlace}},
	}
	if node.Name != "" {
		out["name"] = node.Name
	}
	if !tainted {
		out["taints"] = []any{}
	}
	return out
}

// timeouts give a load balancer, and slow machines, the time that they need.
func timeouts() document {
	return document{
		"controlPlaneComponentHealthCheck": "6m0s", "etcdAPICall": "4m0s", "discovery": "5m0s", "tlsBootstrap": "5m0s",
	}
}

func localEndpoint() document { return document{"advertiseAddress": addressPlace, "bindPort": 6443} }

// initDocuments configure kubeadm init. endpoint is host:port; names are further
// ones of the API server's certificate.
func initDocuments(env v1alpha1.Environment, node Node, endpoint, version, podSubnet string, tainted bool, names []string) ([]document, error) {
	socket, err := criSocket(env)
	if err != nil {
		return nil, err
	}
	// kubeadm adds neither of the first two by itself.
	sans := []any{"127.0.0.1", "localhost"}
	for _, name := range names {
		if name != "" && !slices.Contains(sans, any(name)) {
			sans = append(sans, name)
		}
	}
	cluster := document{
		"apiVersion": kubeadmAPI, "kind": "ClusterConfiguration",
		"clusterName": clusterName(env), "kubernetesVersion": "v" + version,
		"encryptionAlgorithm": "ECDSA-P256",
		"networking":          document{"podSubnet": podSubnet, "serviceSubnet": serviceSubnet},
		"apiServer":           document{"certSANs": sans},
	}
	if endpoint != "" {
		cluster["controlPlaneEndpoint"] = endpoint
	}
	kubelet := document{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "cgroupDriver": "systemd"}
	if gates := env.Spec.Kubernetes.K8sFeatureGates; len(gates) > 0 {
		features := document{}
		for _, gate := range gates {
			if !gatePattern.MatchString(gate) {
				return nil, fmt.Errorf("spec.kubernetes.k8sFeatureGates: %q is not Name=true or Name=false", gate)
			}
			name, on, _ := strings.Cut(gate, "=")
			features[name] = on == "true"
		}
		kubelet["featureGates"] = features
		argument := []any{document{"name": "feature-gates", "value": strings.Join(gates, ",")}}
		cluster["apiServer"].(document)["extraArgs"] = argument
		cluster["controllerManager"] = document{"extraArgs": argument}
		cluster["scheduler"] = document{"extraArgs": argument}
	}
	return []document{{
		"apiVersion": kubeadmAPI, "kind": "InitConfiguration",
		"localAPIEndpoint": localEndpoint(), "nodeRegistration": registration(node, socket, tainted), "timeouts": timeouts(),
	}, cluster, kubelet}, nil
}

// uploadDocuments configure the upload of the shared certificates.
func uploadDocuments(socket, version string) []document {
	return []document{{
		"apiVersion": kubeadmAPI, "kind": "InitConfiguration", "certificateKey": certificateKeyPlace,
		"localAPIEndpoint": localEndpoint(), "nodeRegistration": document{"criSocket": socket},
	}, {
		// Without a version kubeadm would ask the internet for the newest.
		"apiVersion": kubeadmAPI, "kind": "ClusterConfiguration", "kubernetesVersion": "v" + version,
	}}
}

func joinDocument(node Node, socket, endpoint, caHash string, tainted bool) document {
	out := document{
		"apiVersion": kubeadmAPI, "kind": "JoinConfiguration",
		"discovery": document{"bootstrapToken": document{
			"apiServerEndpoint": endpoint, "token": tokenPlace, "caCertHashes": []any{caHash},
		}},
		// A worker's taints are nobody's business here.
		"nodeRegistration": registration(node, socket, tainted || !node.ControlPlane), "timeouts": timeouts(),
	}
	if node.ControlPlane {
		out["controlPlane"] = document{"certificateKey": certificateKeyPlace, "localAPIEndpoint": localEndpoint()}
	}
	return out
}

func marshal(documents []document) (string, error) {
	var out strings.Builder
	for i, d := range documents {
		text, err := yaml.Marshal(d)
		if err != nil {
			return "", fmt.Errorf("kubeadm configuration: %w", err)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(text)
	}
	return out.String(), nil
}

// mergeConfiguration puts the user's own configuration over ours. What the rest here
// relies on it may leave out, but not say otherwise; names of the certificate are
// joined; all else is as it says.
func mergeConfiguration(ours []document, theirs []byte) ([]document, error) {
	out := slices.Clone(ours)
	for i, text := range strings.Split("\n"+string(theirs), "\n---") {
		var d document
		if err := yaml.UnmarshalStrict([]byte(text), &d); err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		if len(d) == 0 {
			continue
		}
		at := slices.IndexFunc(out, func(o document) bool { return o["kind"] == d["kind"] })
		if at < 0 {
			if d["kind"] != "KubeProxyConfiguration" {
				return nil, fmt.Errorf("document %d: kind %v is not one of a first control plane", i+1, d["kind"])
			}
			out = append(out, d)
			continue
		}
		if d["certificateKey"] != nil || d["bootstrapTokens"] != nil {
			return nil, fmt.Errorf("document %d: keys and tokens are made by the provisioner", i+1)
		}
		merged, err := merge("", out[at], d)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		out[at] = merged
	}
	return out, nil
}

// fixed are the fields that must be as we say.
func fixed() []string {
	return []string{".apiVersion", ".kubernetesVersion", ".controlPlaneEndpoint", ".nodeRegistration.criSocket", ".nodeRegistration.name"}
}

func merge(path string, ours, theirs document) (document, error) {
	out := maps.Clone(ours)
	for _, key := range slices.Sorted(maps.Keys(theirs)) {
		field := path + "." + key
		mine, hasMine := ours[key]
		mineMap, isMap := mine.(document)
		theirMap, isTheirMap := theirs[key].(document)
		switch {
		case hasMine && slices.Contains(fixed(), field) && !reflect.DeepEqual(mine, theirs[key]):
			return nil, fmt.Errorf("%s: must be %v or left out", field[1:], mine)
		case isMap && isTheirMap:
			merged, err := merge(field, mineMap, theirMap)
			if err != nil {
				return nil, err
			}
			out[key] = merged
		case field == ".apiServer.certSANs":
			list, _ := theirs[key].([]any)
			out[key] = append(slices.Clone(mine.([]any)), list...)
		default:
			out[key] = theirs[key]
		}
	}
	return out, nil
}

// podSubnetOf reads the pods' network out of a configuration.
func podSubnetOf(documents []document) (string, error) {
	for _, d := range documents {
		if network, ok := d["networking"].(document); ok && d["kind"] == "ClusterConfiguration" {
			subnet, _ := network["podSubnet"].(string)
			if _, err := netip.ParsePrefix(subnet); err != nil {
				return "", fmt.Errorf("networking.podSubnet: %q is no network", subnet)
			}
			return subnet, nil
		}
	}
	return "", errors.New("has no ClusterConfiguration")
}

// withPort is host:port of an endpoint, in lower case as kubeadm wants it.
func withPort(endpoint string) (string, error) {
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		host, port = strings.Trim(endpoint, "[]"), apiPort
	}
	host = strings.ToLower(host)
	if err := checkHost("endpoint", host); err != nil {
		return "", err
	}
	if _, err := netip.ParseAddrPort("127.0.0.1:" + port); err != nil {
		return "", fmt.Errorf("endpoint: %q is no port", port)
	}
	return net.JoinHostPort(host, port), nil
}
