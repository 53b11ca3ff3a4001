package podnetwork

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/sim/pki"
)

// address is where the network listens for kube-apiserver.
const address = "127.0.0.1"

// Names of files in the network's directory.
const (
	egressFile    = "egress.yaml"
	authorityFile = "ca.crt"
	clientFile    = "client.crt"
	clientKeyFile = "client.key"
)

// Egress is the file for kube-apiserver's --egress-selector-config-file, by which
// it reaches this network.
func (n *Network) Egress() string { return filepath.Join(n.dir, egressFile) }

// writeEgress writes that file and the certificates that it names.
func (n *Network) writeEgress(authority *pki.Authority, listener string) error {
	client, err := authority.Issue("kube-apiserver", nil)
	if err != nil {
		return err
	}
	key, ok := client.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return fmt.Errorf("unexpected kind of key %T", client.PrivateKey)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	config, err := yaml.Marshal(map[string]any{
		"apiVersion": "apiserver.k8s.io/v1beta1",
		"kind":       "EgressSelectorConfiguration",
		"egressSelections": []any{map[string]any{
			"name": "cluster", // nodes, pods and Services; etcd and webhooks by URL stay direct
			"connection": map[string]any{
				"proxyProtocol": "HTTPConnect",
				"transport": map[string]any{"tcp": map[string]any{
					"url": "https://" + listener,
					"tlsConfig": map[string]any{
						"caBundle":   filepath.Join(n.dir, authorityFile),
						"clientCert": filepath.Join(n.dir, clientFile),
						"clientKey":  filepath.Join(n.dir, clientKeyFile),
					},
				}},
			},
		}},
	})
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		authorityFile: authority.PEM(),
		clientFile:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: client.Certificate[0]}),
		clientKeyFile: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}),
		egressFile:    config,
	} {
		if err := os.WriteFile(filepath.Join(n.dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
