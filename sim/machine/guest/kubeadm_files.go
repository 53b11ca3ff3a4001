package guest

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubeopera/platform/sim/pki"
)

// leafLife is kubeadm's for all but authorities.
const leafLife = 365 * 24 * time.Hour

func loadAuthority() (*pki.Authority, error) {
	certificate, err := os.ReadFile(pkiDir + "/ca.crt")
	if err != nil {
		return nil, fmt.Errorf("failure loading ca certificate: %w", err)
	}
	key, err := os.ReadFile(pkiDir + "/ca.key")
	if err != nil {
		return nil, fmt.Errorf("failure loading ca key: %w", err)
	}
	return pki.Load(certificate, key)
}

// kubeconfigOf is a kubeconfig with a client certificate that the CA signs.
func kubeconfigOf(authority *pki.Authority, server, cluster, user string, life time.Duration, groups ...string) ([]byte, error) {
	certificate, err := authority.IssueFor(life, user, nil, groups...)
	if err != nil {
		return nil, err
	}
	certPEM, keyPEM, err := encode(certificate)
	if err != nil {
		return nil, err
	}
	return kubeconfig(server, cluster, user, authority.PEM(), &clientcmdapi.AuthInfo{ClientCertificateData: certPEM, ClientKeyData: keyPEM})
}

func kubeconfig(server, cluster, user string, ca []byte, auth *clientcmdapi.AuthInfo) ([]byte, error) {
	name := user + "@" + cluster
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{cluster: {Server: server, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: auth},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: cluster, AuthInfo: user}},
		CurrentContext: name,
	})
}

func encode(certificate tls.Certificate) (certPEM, keyPEM []byte, err error) {
	key, ok := certificate.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, fmt.Errorf("unexpected kind of key %T", certificate.PrivateKey)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	certPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	return certPEM, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// caHash is the form in which joiners pin a CA.
func caHash(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func parseCertificate(content []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, errors.New("no certificate in PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

// writeLeaves writes the certificates that a control plane has of its own.
func writeLeaves(authority *pki.Authority, names []string) error {
	for name, leaf := range map[string]struct {
		user   string
		hosts  []string
		groups []string
	}{
		"apiserver":                {"kube-apiserver", names, nil},
		"apiserver-kubelet-client": {"kube-apiserver-kubelet-client", nil, []string{"kubeadm:cluster-admins"}},
		"front-proxy-client":       {"front-proxy-client", nil, nil},
		"apiserver-etcd-client":    {"kube-apiserver-etcd-client", nil, nil},
		"etcd/server":              {"etcd", names, nil},
		"etcd/peer":                {"etcd", names, nil},
		"etcd/healthcheck-client":  {"kube-etcd-healthcheck-client", nil, nil},
	} {
		certificate, err := authority.IssueFor(leafLife, leaf.user, leaf.hosts, leaf.groups...)
		if err != nil {
			return err
		}
		certPEM, keyPEM, err := encode(certificate)
		if err != nil {
			return err
		}
		path := filepath.Join(pkiDir, name)
		if err := errors.Join(writeFile(path+".crt", string(certPEM), 0o644), writeFile(path+".key", string(keyPEM), 0o600)); err != nil {
			return err
		}
	}
	return nil
}

// sharedFiles are what control planes have in common. etcd and the front proxy
// have the cluster's one authority here.
func sharedFiles() []string {
	return []string{
		"ca.crt", "ca.key", "sa.pub", "sa.key", "front-proxy-ca.crt", "front-proxy-ca.key", "etcd/ca.crt", "etcd/ca.key",
	}
}

// writeKubeconfigs writes those of a control plane.
func (k *kubeadmCall) writeKubeconfigs(authority *pki.Authority, node, local string, first bool) error {
	endpoint, cluster := "https://"+k.config.endpoint(), k.config.cluster.ClusterName
	files := map[string]struct {
		server, user string
		groups       []string
	}{
		"admin.conf":              {endpoint, "kubernetes-admin", []string{"kubeadm:cluster-admins"}},
		"controller-manager.conf": {local, "system:kube-controller-manager", nil},
		"scheduler.conf":          {local, "system:kube-scheduler", nil},
	}
	if first {
		files["super-admin.conf"] = struct {
			server, user string
			groups       []string
		}{endpoint, "kubernetes-super-admin", []string{"system:masters"}}
		files["kubelet.conf"] = struct {
			server, user string
			groups       []string
		}{local, "system:node:" + node, []string{"system:nodes"}}
	}
	for name, file := range files {
		content, err := kubeconfigOf(authority, file.server, cluster, file.user, leafLife, file.groups...)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(kubernetesDir, name), string(content), 0o600); err != nil {
			return err
		}
		k.io.printf("[kubeconfig] Writing %q kubeconfig file\n", name)
	}
	return nil
}

func writeManifest(names ...string) error {
	for _, name := range names {
		manifest := "apiVersion: v1\nkind: Pod\nmetadata:\n  name: " + name + "\n  namespace: kube-system\n  labels:\n    component: " + name +
			"\n    tier: control-plane\n# The light machine runs no containers: the API server is the simulator's.\n"
		if err := writeFile(filepath.Join(kubernetesDir, "manifests", name+".yaml"), manifest, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func writeData(data Data) error {
	content, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return writeFile(etcdData, string(content), 0o600)
}

func ownData() (Data, bool) {
	var data Data
	content, err := os.ReadFile(etcdData)
	return data, err == nil && json.Unmarshal(content, &data) == nil
}

// writeKubelet writes the kubelet's configuration and flags.
func (k *kubeadmCall) writeKubelet(node nodeRegistration, controlPlane bool) error {
	taints := node.Taints
	if taints == nil && controlPlane {
		taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
	}
	args := []string{"--hostname-override=" + node.Name}
	for _, a := range node.KubeletExtraArgs {
		args = append(args, "--"+a.Name+"="+a.Value)
	}
	var texts []string
	for _, t := range taints {
		texts = append(texts, t.Key+"="+t.Value+":"+string(t.Effect))
	}
	if len(texts) > 0 {
		args = append(args, "--register-with-taints="+strings.Join(texts, ","))
	}
	config := k.config.kubelet
	if config == "" {
		config = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	}
	k.io.printf("[kubelet-start] Writing kubelet configuration to file \"/var/lib/kubelet/config.yaml\"\n")
	return errors.Join(
		writeFile("/var/lib/kubelet/config.yaml", config, 0o644),
		writeFile("/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\""+strings.Join(args, " ")+"\"\n", 0o644),
	)
}

// renewCertificates writes the leaves and kubeconfigs anew.
func (k *kubeadmCall) renewCertificates(renew bool) error {
	content, err := os.ReadFile(pkiDir + "/apiserver.crt")
	if err != nil {
		return err
	}
	certificate, err := parseCertificate(content)
	if err != nil {
		return err
	}
	if !renew {
		k.io.printf("apiserver %s\n", certificate.NotAfter.UTC().Format(time.RFC3339))
		return nil
	}
	names := certificate.DNSNames
	for _, ip := range certificate.IPAddresses {
		names = append(names, ip.String())
	}
	authority, err := loadAuthority()
	if err != nil {
		return err
	}
	if err := writeLeaves(authority, names); err != nil {
		return err
	}
	for _, name := range []string{"admin.conf", "super-admin.conf", "controller-manager.conf", "scheduler.conf"} {
		path := filepath.Join(kubernetesDir, name)
		old, err := clientcmd.LoadFromFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := renewKubeconfig(authority, old, path); err != nil {
			return err
		}
	}
	k.io.printf("Done renewing certificates. You must restart the kube-apiserver, kube-controller-manager, kube-scheduler and etcd, so that they can use the new certificates.\n")
	return nil
}

func renewKubeconfig(authority *pki.Authority, config *clientcmdapi.Config, path string) error {
	for user, auth := range config.AuthInfos {
		old, err := parseCertificate(auth.ClientCertificateData)
		if err != nil {
			return err
		}
		certificate, err := authority.IssueFor(leafLife, user, nil, old.Subject.Organization...)
		if err != nil {
			return err
		}
		if auth.ClientCertificateData, auth.ClientKeyData, err = encode(certificate); err != nil {
			return err
		}
	}
	return clientcmd.WriteToFile(*config, path)
}
