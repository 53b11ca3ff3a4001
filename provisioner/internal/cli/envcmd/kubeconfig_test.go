package envcmd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfig is an administrator's.
func kubeconfig(tb testing.TB) []byte {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	c := api.NewConfig()
	c.CurrentContext = "kubernetes-admin@kubernetes"
	c.Contexts[c.CurrentContext] = &api.Context{Cluster: "kubernetes", AuthInfo: "kubernetes-admin"}
	c.Clusters["kubernetes"] = &api.Cluster{Server: "https://192.0.2.1:6443", CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	c.AuthInfos["kubernetes-admin"] = &api.AuthInfo{Token: "canary-token"}
	data, err := clientcmd.Write(*c)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}
