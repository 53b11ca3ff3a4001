// Package adminconf makes the kubeconfigs of a kubeadm cluster out of the one
// that its first control-plane node publishes: the same CA and the same user, at
// an address that the platform knows of the cluster.
//
// What a node publishes is data from outside. Of it only the CA and a client
// certificate or token are kept, and no error repeats any of it.
package adminconf

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubeopera/platform/shared/kubeconfig"
)

// Admin is a published kubeconfig.
type Admin struct {
	ca   []byte // PEM
	user *api.AuthInfo
}

// Parse reads what was published: a kubeconfig in base64.
func Parse(published string) (*Admin, error) {
	data, err := base64.StdEncoding.DecodeString(strings.TrimSpace(published))
	if err != nil {
		return nil, errors.New("the published kubeconfig is not base64")
	}
	return Read(data)
}

// Read reads a kubeconfig as kubeadm writes it.
func Read(data []byte) (*Admin, error) {
	info, err := kubeconfig.Check(data)
	if err != nil {
		return nil, fmt.Errorf("the published kubeconfig: %w", err)
	}
	if info.Exec != nil {
		return nil, errors.New("the published kubeconfig has an exec plugin for a user; a kubeadm cluster has none")
	}
	config, err := kubeconfig.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("the published kubeconfig: %w", err)
	}
	from := config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo]
	return &Admin{ca: info.CA, user: &api.AuthInfo{
		ClientCertificateData: from.ClientCertificateData,
		ClientKeyData:         from.ClientKeyData,
		Token:                 from.Token,
	}}, nil
}

// Secrets are the values that must not be shown anywhere, in the forms in which
// a kubeconfig holds them.
func (a *Admin) Secrets() []string {
	var found []string
	if key := a.user.ClientKeyData; len(key) > 0 {
		found = append(found, string(key), base64.StdEncoding.EncodeToString(key))
	}
	if a.user.Token != "" {
		found = append(found, a.user.Token)
	}
	return found
}

// Kubeconfig is the kubeconfig for the API server at an address, such as
// https://203.0.113.7:6443. Cluster, user and context have the cluster's name, so
// that the kubeconfigs of several clusters can be merged.
func (a *Admin) Kubeconfig(name, server string) ([]byte, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("the API server's address %q is no https URL of a host", server)
	}
	if name == "" {
		return nil, errors.New("the cluster has no name")
	}
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: "https://" + u.Host, CertificateAuthorityData: a.ca}
	config.AuthInfos[name] = a.user
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	out, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig: %w", err)
	}
	if _, err := kubeconfig.Check(out); err != nil {
		return nil, fmt.Errorf("the kubeconfig that was made: %w", err)
	}
	return out, nil
}
