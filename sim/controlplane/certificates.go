package controlplane

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/kubeopera/platform/sim/pki"
)

// Names of files in the directory of certificates. envtest expects those of
// kube-apiserver and of the ServiceAccount signer under these names, and then
// makes none of its own.
const (
	serverName           = "apiserver"
	signerName           = "sa-signer"
	kubeletAuthorityFile = "kubelet-ca.crt"
	kubeletClientName    = "kubelet-client"
)

// makeCertificates writes all keys that the control plane needs. The kubelet's
// authority is a second one, as kube-apiserver's own must not let anybody in as
// a kubelet.
func (c *ControlPlane) makeCertificates(dir string) error {
	authority, err := pki.New("kubernetes-ca")
	if err != nil {
		return err
	}
	c.authority = authority
	c.names = append([]string{"localhost", address, "kubernetes", "kubernetes.default", "kubernetes.default.svc"}, c.config.CertificateNames...)
	if err := c.writeServerCertificate(dir); err != nil {
		return err
	}
	if err := writeSigner(dir); err != nil {
		return err
	}

	kubelets, err := pki.New("kubelet-ca")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, kubeletAuthorityFile), kubelets.PEM(), 0o600); err != nil {
		return err
	}
	client, err := kubelets.Issue("kube-apiserver-kubelet-client", nil, "system:masters")
	if err != nil {
		return err
	}
	if err := writeCertificate(dir, kubeletClientName, client); err != nil {
		return err
	}
	kubelet, err := kubelets.Issue("system:node", []string{address, "localhost"}, "system:nodes")
	if err != nil {
		return err
	}
	c.kubeletTLS = &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{kubelet},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    kubelets.Pool(),
	}
	return nil
}

func (c *ControlPlane) writeServerCertificate(dir string) error {
	server, err := c.authority.Issue("kube-apiserver", c.names)
	if err != nil {
		return err
	}
	return writeCertificate(dir, serverName, server)
}

// AddCertificateNames gives kube-apiserver a certificate that holds further names
// and addresses. It takes it up within a moment.
func (c *ControlPlane) AddCertificateNames(names ...string) error {
	c.namesLock.Lock()
	defer c.namesLock.Unlock()
	known := len(c.names)
	for _, name := range names {
		if !slices.Contains(c.names, name) {
			c.names = append(c.names, name)
		}
	}
	if len(c.names) == known {
		return nil
	}
	return c.writeServerCertificate(c.certificateDir())
}

// acceptOwnCertificates adds the authority to those whose client certificates
// kube-apiserver accepts, and waits until it has noticed.
func (c *ControlPlane) acceptOwnCertificates(ctx context.Context, dir string) (err error) {
	// envtest makes the file, with the authority of its own users, at the start.
	file, err := os.OpenFile(filepath.Join(dir, "client-cert-auth-ca.crt"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("accept own certificates: %w", err)
	}
	_, err = file.Write(c.authority.PEM())
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("accept own certificates: %w", err)
	}
	probe, err := c.authority.Issue("probe", nil, "system:masters")
	if err != nil {
		return err
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: c.authority.Pool(), Certificates: []tls.Certificate{probe},
	}, DisableKeepAlives: true}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("kube-apiserver does not accept certificates of its own authority"))
	defer cancel()
	return awaitOK(ctx, transport, c.URL()+"/api")
}

// writeCertificate writes name.crt and name.key.
func writeCertificate(dir, name string, certificate tls.Certificate) error {
	key, ok := certificate.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return fmt.Errorf("write %s: unexpected kind of key %T", name, certificate.PrivateKey)
	}
	if err := writePEM(filepath.Join(dir, name+".crt"), "CERTIFICATE", certificate.Certificate[0]); err != nil {
		return err
	}
	return writeKey(filepath.Join(dir, name+".key"), key)
}

// writeSigner makes the key that signs ServiceAccount tokens.
func writeSigner(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("key of the token signer: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encode key of the token signer: %w", err)
	}
	if err := writePEM(filepath.Join(dir, signerName+".crt"), "PUBLIC KEY", public); err != nil {
		return err
	}
	return writeKey(filepath.Join(dir, signerName+".key"), key)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode key %s: %w", filepath.Base(path), err)
	}
	return writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
