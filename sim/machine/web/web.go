// Package web stands in for the part of the web that a node's bootstrap downloads
// from: repository keys and the manifests of add-ons.
//
// The rule: the package manager installs without any download; a repository's key
// is a text that names its fingerprint; a manifest is the least that has the same
// kinds and names as the real one, so that what is applied after it is accepted.
// All else is 404. What the files are pinned by (Settings) goes into the
// machines' override file, for the real ones have other sums.
package web

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"github.com/kubeopera/platform/sim/machine/guest"
	"github.com/kubeopera/platform/sim/pki"
)

// Fingerprints of the stand-in keys.
const (
	kubernetesFingerprint = "5111000000000000000000000000000000000001"
	dockerFingerprint     = "5111000000000000000000000000000000000002"
	dockerRPMFingerprint  = "5111000000000000000000000000000000000003"
	crioFingerprint       = "5111000000000000000000000000000000000004"
	cudaFingerprint       = "5111000000000000000000000000000000000005"
	cudaRPMFingerprint    = "5111000000000000000000000000000000000006"
	toolkitFingerprint    = "5111000000000000000000000000000000000007"
)

// Web answers for every host that it knows.
type Web struct {
	authority *pki.Authority
	files     map[string]func(path string) ([]byte, bool) // by host
	csi       []byte
	dockerd   []byte // cri-dockerd's archive

	mu           sync.Mutex
	certificates map[string]*tls.Certificate
}

// New makes the web with an authority of its own, which machines trust.
func New() (*Web, error) {
	authority, err := pki.New("light machines' web")
	if err != nil {
		return nil, err
	}
	archive, err := csiArchive()
	if err != nil {
		return nil, err
	}
	dockerd, err := pack(file{"cri-dockerd/cri-dockerd", guest.Launcher("cri-dockerd")})
	if err != nil {
		return nil, err
	}
	w := &Web{authority: authority, csi: archive, dockerd: dockerd, certificates: map[string]*tls.Certificate{}}
	w.files = map[string]func(string) ([]byte, bool){
		"pkgs.k8s.io": func(path string) ([]byte, bool) {
			return key(kubernetesFingerprint), isRepositoryKey(path)
		},
		"download.docker.com": func(path string) ([]byte, bool) {
			if strings.HasPrefix(path, "/linux/ubuntu/") {
				return key(dockerFingerprint), strings.HasSuffix(path, "/gpg")
			}
			return key(dockerRPMFingerprint), strings.HasSuffix(path, "/gpg")
		},
		"download.opensuse.org": func(path string) ([]byte, bool) {
			return key(crioFingerprint), strings.Contains(path, "/isv:/cri-o:/") && isRepositoryKey(path)
		},
		"developer.download.nvidia.com": func(path string) ([]byte, bool) {
			if strings.Contains(path, "/ubuntu") {
				return key(cudaFingerprint), strings.HasSuffix(path, ".pub")
			}
			return key(cudaRPMFingerprint), strings.HasSuffix(path, ".pub")
		},
		"nvidia.github.io": func(path string) ([]byte, bool) { return key(toolkitFingerprint), strings.HasSuffix(path, "/gpgkey") },
		"github.com": func(path string) ([]byte, bool) {
			return w.dockerd, strings.HasPrefix(path, "/Mirantis/cri-dockerd/releases/download/") && strings.HasSuffix(path, ".tgz")
		},
		"raw.githubusercontent.com": func(path string) ([]byte, bool) {
			switch {
			case strings.HasSuffix(path, "/operator-crds.yaml"):
				return []byte(calicoCRDs), true
			case strings.HasSuffix(path, "/tigera-operator.yaml"):
				return []byte(calicoOperator), true
			}
			return nil, false
		},
		"codeload.github.com": func(path string) ([]byte, bool) { return w.csi, strings.Contains(path, "/aws-ebs-csi-driver/") },
	}
	return w, nil
}

func isRepositoryKey(path string) bool {
	return strings.HasSuffix(path, "Release.key") || strings.HasSuffix(path, "repomd.xml.key")
}

func key(fingerprint string) []byte {
	return []byte("-----BEGIN PGP PUBLIC KEY BLOCK-----\n" + guest.KeyComment + fingerprint + "\n\n-----END PGP PUBLIC KEY BLOCK-----\n")
}

// Settings are what the files are pinned by, under the names that the bootstrap
// scripts have for it.
func (w *Web) Settings() map[string]string {
	return map[string]string{
		"KUBERNETES_KEY_FINGERPRINT": kubernetesFingerprint, "DOCKER_KEY_FINGERPRINT": dockerFingerprint,
		"DOCKER_RPM_KEY_FINGERPRINT": dockerRPMFingerprint, "CRIO_KEY_FINGERPRINT": crioFingerprint,
		"CUDA_APT_KEY_FINGERPRINT": cudaFingerprint, "CUDA_RPM_KEY_FINGERPRINT": cudaRPMFingerprint,
		"TOOLKIT_KEY_FINGERPRINT": toolkitFingerprint, "CRI_DOCKERD_SHA256_AMD64": sum(w.dockerd), "CRI_DOCKERD_SHA256_ARM64": sum(w.dockerd),
		"CALICO_CRDS_SHA256": sum([]byte(calicoCRDs)), "CALICO_OPERATOR_SHA256": sum([]byte(calicoOperator)), "EBS_CSI_SHA256": csiSum(),
	}
}

func sum(content []byte) string {
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:])
}

// CA is the authority of the web's certificates, as PEM.
func (w *Web) CA() []byte { return w.authority.PEM() }

// Lookup gives the address of a host; all have the same.
func (w *Web) Lookup(name string) (netip.Addr, bool) {
	_, ok := w.files[name]
	return netip.AddrFrom4([4]byte{198, 18, 0, 10}), ok // of the block for benchmarks, which no network has
}

func (w *Web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	host := strings.ToLower(r.Host)
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	find, ok := w.files[host]
	if ok && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		if content, found := find(r.URL.Path); found {
			_, _ = rw.Write(content) // who is gone does not read it
			return
		}
	}
	http.Error(rw, "404: the simulator's web does not have "+host+r.URL.Path, http.StatusNotFound)
}

// TLS wraps a listener; every host has a certificate.
func (w *Web) TLS(listener net.Listener) net.Listener {
	return tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return w.certificate(hello.Context(), hello.ServerName)
	}})
}

func (w *Web) certificate(_ context.Context, host string) (*tls.Certificate, error) {
	if _, ok := w.files[host]; !ok {
		return nil, fmt.Errorf("the simulator's web has no host %q", host)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if certificate, ok := w.certificates[host]; ok {
		return certificate, nil
	}
	certificate, err := w.authority.Issue(host, []string{host})
	if err != nil {
		return nil, err
	}
	w.certificates[host] = &certificate
	return &certificate, nil
}

// csiSum is what `sha256sum *.yaml | sha256sum` prints in the archive's folder.
func csiSum() string {
	var list strings.Builder
	for _, file := range csiFiles() { // in the order of their names
		fmt.Fprintf(&list, "%s  %s\n", sum([]byte(file.content)), file.name)
	}
	return sum([]byte(list.String()))
}

func csiArchive() ([]byte, error) {
	var files []file
	for _, f := range csiFiles() {
		files = append(files, file{"aws-ebs-csi-driver-stand-in/deploy/kubernetes/base/" + f.name, f.content})
	}
	return pack(files...)
}

// pack makes an archive of files that are executable where they are scripts.
func pack(files ...file) ([]byte, error) {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	archive := tar.NewWriter(compressed)
	for _, file := range files {
		header := &tar.Header{Name: file.name, Mode: 0o644, Size: int64(len(file.content))}
		if strings.HasPrefix(file.content, "#!") {
			header.Mode = 0o755
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write([]byte(file.content)); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
