package kubeconfig

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/client-go/tools/clientcmd/api"
)

// Info is what Check found at the current context.
type Info struct {
	Server string // https URL
	CA     []byte // PEM
	// Exec is set if the user is an exec plugin; else it has a token or a client
	// certificate inside.
	Exec *Exec
}

// ErrRefused is wrapped by Check's error for a kubeconfig that can be read and
// is not fit to be published or used.
var ErrRefused = errors.New("kubeconfig refused")

// Check accepts a kubeconfig whose current context is complete, whose servers
// are https with a CA inside, and whose users are a token, a client certificate
// or an exec plugin in exactly the form that we publish. The error names every
// problem and no secret. Use Parse's value afterwards, not other readers'.
func Check(data []byte) (Info, error) {
	config, err := Parse(data)
	if err != nil {
		return Info{}, err
	}
	c := checker{}
	for _, name := range sortedNames(config.Clusters) {
		c.at = "cluster " + short(name)
		c.cluster(config.Clusters[name])
	}
	execs := make(map[string]*Exec)
	for _, name := range sortedNames(config.AuthInfos) {
		c.at = "user " + short(name)
		execs[name] = c.user(config.AuthInfos[name])
	}
	c.at = "current-context"
	context := config.Contexts[config.CurrentContext]
	if config.CurrentContext == "" || context == nil {
		c.add("names no context")
		return Info{}, c.err()
	}
	cluster := config.Clusters[context.Cluster]
	if cluster == nil {
		c.add("its cluster is missing")
	}
	if config.AuthInfos[context.AuthInfo] == nil {
		c.add("its user is missing")
	}
	if err := c.err(); err != nil {
		return Info{}, err
	}
	return Info{Server: cluster.Server, CA: cluster.CertificateAuthorityData, Exec: execs[context.AuthInfo]}, nil
}

type checker struct {
	at       string
	problems []string
}

func (c *checker) add(problem string) { c.problems = append(c.problems, c.at+": "+problem) }

func (c *checker) err() error {
	if len(c.problems) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrRefused, strings.Join(c.problems, "; "))
}

func (c *checker) cluster(cluster *api.Cluster) {
	server, err := url.Parse(cluster.Server)
	if err != nil || server.Scheme != "https" || server.Host == "" || server.User != nil {
		c.add("server must be an https URL")
	}
	if cluster.InsecureSkipTLSVerify {
		c.add("insecure-skip-tls-verify is refused")
	}
	if cluster.CertificateAuthority != "" {
		c.add("certificate-authority is a file; use certificate-authority-data")
	}
	if cluster.ProxyURL != "" {
		c.add("proxy-url is refused")
	}
	if !certificates(cluster.CertificateAuthorityData) {
		c.add("certificate-authority-data must be PEM certificates")
	}
}

// certificates is true for PEM that consists of at least one certificate.
func certificates(data []byte) bool {
	n := 0
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			return n > 0 && strings.TrimSpace(string(data)) == ""
		}
		if block.Type != "CERTIFICATE" {
			return false
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return false
		}
		n, data = n+1, rest
	}
}

func (c *checker) user(user *api.AuthInfo) (exec *Exec) {
	if user.ClientCertificate != "" || user.ClientKey != "" || user.TokenFile != "" {
		c.add("files are refused: client-certificate, client-key, tokenFile")
	}
	if user.AuthProvider != nil {
		c.add("auth-provider is refused")
	}
	if user.Username != "" || user.Password != "" {
		c.add("username and password are refused: no API server takes them")
	}
	if user.Impersonate != "" || user.ImpersonateUID != "" || len(user.ImpersonateGroups) > 0 || len(user.ImpersonateUserExtra) > 0 {
		c.add("impersonation is refused")
	}
	forms := 0
	if user.Token != "" {
		forms++
		if strings.ContainsFunc(user.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			c.add("the token holds bytes that no token has")
		}
	}
	if len(user.ClientCertificateData) > 0 || len(user.ClientKeyData) > 0 {
		forms++
		if _, err := tls.X509KeyPair(user.ClientCertificateData, user.ClientKeyData); err != nil {
			c.add("client-certificate-data and client-key-data are no pair")
		}
	}
	if user.Exec != nil {
		forms++
		var problem string
		if exec, problem = publishedExec(user.Exec); problem != "" {
			c.add(problem)
		}
	}
	if forms != 1 {
		c.add("needs one of: token, client certificate with key, exec")
	}
	return exec
}

// short bounds a name of the client's choice.
func short(name string) string {
	if len(name) > 100 {
		name = strings.ToValidUTF8(name[:100], "") + "…"
	}
	return fmt.Sprintf("%q", name)
}
