// Package adminconftest makes kubeconfigs as kubeadm writes them, for tests.
package adminconftest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Conf is an admin.conf.
type Conf struct {
	Config *api.Config
	Key    string // the client's private key, PEM
}

// New makes an admin.conf for an API server at an address with a CA (PEM); nil:
// some CA. Its keys are ECDSA, as those of our clusters.
func New(tb testing.TB, server string, ca []byte) *Conf {
	tb.Helper()
	certificate, key := pair(tb)
	if ca == nil {
		ca, _ = pair(tb)
	}
	const cluster, user, context = "kubernetes", "kubernetes-admin", "kubernetes-admin@kubernetes"
	config := api.NewConfig()
	config.Clusters[cluster] = &api.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[user] = &api.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}
	config.Contexts[context] = &api.Context{Cluster: cluster, AuthInfo: user}
	config.CurrentContext = context
	return &Conf{Config: config, Key: string(key)}
}

// Published is the value of the parameter: base64.
func (c *Conf) Published(tb testing.TB) string {
	tb.Helper()
	data, err := clientcmd.Write(*c.Config)
	if err != nil {
		tb.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(data)
}

func pair(tb testing.TB) (certificate, key []byte) {
	tb.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{Organization: []string{"kubeadm:cluster-admins"}, CommonName: "kubernetes-admin"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		tb.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		tb.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}
