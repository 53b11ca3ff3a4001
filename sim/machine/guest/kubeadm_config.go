package guest

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// kubeadmConfig is what flags and the configuration file say: as much of API
// v1beta4 as the stand-in looks at.
type kubeadmConfig struct {
	init    initConfiguration
	cluster clusterConfiguration
	join    joinConfiguration
	kubelet string // the document, as it is
}

type typeMeta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

type argument struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type nodeRegistration struct {
	Name             string         `json:"name"`
	CRISocket        string         `json:"criSocket"`
	Taints           []corev1.Taint `json:"taints"`
	KubeletExtraArgs []argument     `json:"kubeletExtraArgs"`
	IgnoreErrors     []string       `json:"ignorePreflightErrors"`
}

type localAPIEndpoint struct {
	AdvertiseAddress string `json:"advertiseAddress"`
	BindPort         int    `json:"bindPort"`
}

type bootstrapToken struct {
	Token string `json:"token"`
	TTL   string `json:"ttl"`
}

type timeouts struct {
	EtcdAPICall  string `json:"etcdAPICall"`
	Discovery    string `json:"discovery"`
	TLSBootstrap string `json:"tlsBootstrap"`
	Component    string `json:"controlPlaneComponentHealthCheck"`
	API          string `json:"kubernetesAPICall"`
}

type initConfiguration struct {
	typeMeta         `json:",inline"`
	BootstrapTokens  []bootstrapToken `json:"bootstrapTokens"`
	NodeRegistration nodeRegistration `json:"nodeRegistration"`
	LocalAPIEndpoint localAPIEndpoint `json:"localAPIEndpoint"`
	CertificateKey   string           `json:"certificateKey"`
	Timeouts         timeouts         `json:"timeouts"`
}

type clusterConfiguration struct {
	typeMeta             `json:",inline"`
	ClusterName          string `json:"clusterName,omitempty"`
	KubernetesVersion    string `json:"kubernetesVersion,omitempty"`
	ControlPlaneEndpoint string `json:"controlPlaneEndpoint,omitempty"`
	Networking           struct {
		PodSubnet     string `json:"podSubnet,omitempty"`
		ServiceSubnet string `json:"serviceSubnet,omitempty"`
		DNSDomain     string `json:"dnsDomain,omitempty"`
	} `json:"networking"`
	APIServer struct {
		CertSANs []string `json:"certSANs,omitempty"`
	} `json:"apiServer"`
	EncryptionAlgorithm string `json:"encryptionAlgorithm,omitempty"`
}

type joinConfiguration struct {
	typeMeta         `json:",inline"`
	NodeRegistration nodeRegistration `json:"nodeRegistration"`
	Discovery        struct {
		BootstrapToken struct {
			APIServerEndpoint string   `json:"apiServerEndpoint"`
			Token             string   `json:"token"`
			CACertHashes      []string `json:"caCertHashes"`
			Unsafe            bool     `json:"unsafeSkipCAVerification"`
		} `json:"bootstrapToken"`
		TLSBootstrapToken string `json:"tlsBootstrapToken"`
	} `json:"discovery"`
	ControlPlane *struct {
		LocalAPIEndpoint localAPIEndpoint `json:"localAPIEndpoint"`
		CertificateKey   string           `json:"certificateKey"`
	} `json:"controlPlane"`
	Timeouts timeouts `json:"timeouts"`
}

// loadConfig reads the file that --config names and puts flags and defaults where
// it says nothing.
func (k *kubeadmCall) loadConfig() (*kubeadmConfig, error) {
	c := &kubeadmConfig{}
	if path := k.flag("config", ""); path != "" {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("unable to read config from %q: %w", path, err)
		}
		if err := c.read(string(content)); err != nil {
			return nil, err
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	setDefault(&c.init.NodeRegistration.Name, k.flag("node-name", host))
	setDefault(&c.join.NodeRegistration.Name, k.flag("node-name", host))
	setDefault(&c.init.LocalAPIEndpoint.AdvertiseAddress, k.flag("apiserver-advertise-address", ""))
	setDefault(&c.init.CertificateKey, k.flag("certificate-key", ""))
	setDefault(&c.cluster.ClusterName, "kubernetes")
	setDefault(&c.cluster.KubernetesVersion, k.flag("kubernetes-version", "v"+packageVersion("kubeadm")))
	setDefault(&c.cluster.ControlPlaneEndpoint, k.flag("control-plane-endpoint", ""))
	setDefault(&c.cluster.Networking.PodSubnet, k.flag("pod-network-cidr", ""))
	setDefault(&c.cluster.Networking.ServiceSubnet, k.flag("service-cidr", "10.96.0.0/12"))
	if names := k.flag("apiserver-cert-extra-sans", ""); names != "" {
		c.cluster.APIServer.CertSANs = append(c.cluster.APIServer.CertSANs, strings.Split(names, ",")...)
	}
	if token := k.flag("token", ""); token != "" {
		c.init.BootstrapTokens = []bootstrapToken{{Token: token}}
		setDefault(&c.join.Discovery.BootstrapToken.Token, token)
	}
	if hashes := k.flag("discovery-token-ca-cert-hash", ""); hashes != "" {
		c.join.Discovery.BootstrapToken.CACertHashes = strings.Split(hashes, ",")
	}
	if k.flag("discovery-token-unsafe-skip-ca-verification", "") != "" {
		c.join.Discovery.BootstrapToken.Unsafe = true
	}
	return c, nil
}

func setDefault(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

var documentSeparator = regexp.MustCompile(`(?m)^---\s*$`)

func (c *kubeadmConfig) read(content string) error {
	for _, document := range documentSeparator.Split(content, -1) {
		if strings.TrimSpace(document) == "" {
			continue
		}
		var meta typeMeta
		if err := yaml.Unmarshal([]byte(document), &meta); err != nil {
			return fmt.Errorf("error unmarshaling configuration: %w", err)
		}
		targets := map[string]any{"InitConfiguration": &c.init, "ClusterConfiguration": &c.cluster, "JoinConfiguration": &c.join}
		target, ok := targets[meta.Kind]
		switch {
		case meta.Kind == "KubeletConfiguration":
			c.kubelet = document
			continue
		case meta.Kind == "KubeProxyConfiguration":
			continue
		case !ok || meta.APIVersion != "kubeadm.k8s.io/v1beta4":
			return fmt.Errorf("no kind %q is registered for version %q in scheme", meta.Kind, meta.APIVersion)
		}
		if err := yaml.Unmarshal([]byte(document), target); err != nil {
			return fmt.Errorf("error unmarshaling configuration schema.GroupVersionKind{Kind:%q}: %w", meta.Kind, err)
		}
	}
	return nil
}

// endpoint is host:port of the whole control plane.
func (c *kubeadmConfig) endpoint() string {
	endpoint := c.cluster.ControlPlaneEndpoint
	if endpoint == "" {
		endpoint = c.init.LocalAPIEndpoint.AdvertiseAddress
	}
	if !strings.Contains(endpoint, ":") {
		endpoint += ":6443"
	}
	return endpoint
}

var (
	tokenPattern   = regexp.MustCompile(`^([a-z0-9]{6})\.([a-z0-9]{16})$`)
	endpointHost   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	certificateKey = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// checkInit makes the checks of a configuration that need no machine.
func (c *kubeadmConfig) checkInit(installed string) error {
	host, _, _ := strings.Cut(c.endpoint(), ":")
	if !endpointHost.MatchString(host) {
		return fmt.Errorf("controlPlaneEndpoint: Invalid value: %q: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters", host)
	}
	if c.init.CertificateKey != "" && !certificateKey.MatchString(c.init.CertificateKey) {
		return fmt.Errorf("certificateKey: Invalid value: the certificate key is not a hex-encoded AES key of 32 bytes")
	}
	for _, token := range c.init.BootstrapTokens {
		if !tokenPattern.MatchString(token.Token) {
			return fmt.Errorf("the bootstrap token %q was not of the form %q", token.Token, tokenPattern)
		}
	}
	wanted := strings.TrimPrefix(c.cluster.KubernetesVersion, "v")
	if minorOf(wanted) > minorOf(installed) {
		return fmt.Errorf("this version of kubeadm only supports deploying clusters with the control plane version <= %s. Current version: v%s", installed, wanted)
	}
	if minorOf(wanted) < minorOf(installed)-1 {
		return fmt.Errorf("this version of kubeadm only supports deploying clusters with the control plane version >= 1.%d.0. Current version: v%s", minorOf(installed)-1, wanted)
	}
	return nil
}

// minorOf is Y of X.Y.Z.
func minorOf(version string) int {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return 0
	}
	return minor
}

// span is one of the configured timeouts.
func span(text string, fallback time.Duration) time.Duration {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d
	}
	return fallback
}
