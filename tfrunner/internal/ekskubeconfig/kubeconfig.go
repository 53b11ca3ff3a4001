// Package ekskubeconfig writes the kubeconfig of an EKS cluster: a typed value,
// marshalled as YAML. Its user is an exec plugin that makes a token from AWS
// credentials, either those that the reader has or one that is put in here, or it
// is the token of a ServiceAccount that EnsureToken makes in the cluster.
package ekskubeconfig

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	platform "github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/kubeconfig"
)

// The commands of exec plugins.
const (
	ExecAWS    = "aws"
	ExecHelper = "eks-token-helper"
)

// execVersion is the exec plugin API that both commands speak: the AWS CLI from 1.23.9 and 2.6.3 on.
const execVersion = "client.authentication.k8s.io/v1beta1"

// Cluster is what Terraform's outputs say of the cluster.
type Cluster struct {
	Name          string
	Endpoint      string
	CACertificate string // PEM in base64, as AWS gives it
	Region        string
}

// Keys are an AWS credential.
type Keys struct {
	AccessKeyID     string
	SecretAccessKey string
	SessionToken    string // empty for long-lived keys
}

// Options choose the form.
type Options struct {
	Auth platform.KubeconfigAuth // empty: embedded_credential
	Exec string                  // ExecAWS or ExecHelper; empty: ExecAWS
	// Keys are put into the kubeconfig by embedded_credential only.
	Keys Keys
	// Token is the user of service_account_token.
	Token string
}

// Build makes the kubeconfig's YAML. It is one that shared/kubeconfig accepts.
func Build(c Cluster, o Options) ([]byte, error) {
	ca, err := c.check()
	if err != nil {
		return nil, err
	}
	user, err := user(c, o)
	if err != nil {
		return nil, err
	}
	cfg := api.NewConfig()
	cfg.Clusters[c.Name] = &api.Cluster{Server: c.Endpoint, CertificateAuthorityData: ca}
	cfg.AuthInfos[c.Name] = user
	cfg.Contexts[c.Name] = &api.Context{Cluster: c.Name, AuthInfo: c.Name}
	cfg.CurrentContext = c.Name
	out, err := clientcmd.Write(*cfg)
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig: %w", err)
	}
	if _, err := kubeconfig.Check(out); err != nil {
		return nil, err
	}
	return out, nil
}

func user(c Cluster, o Options) (*api.AuthInfo, error) {
	if o.Auth == platform.KubeconfigAuthServiceAccount {
		if o.Token == "" {
			return nil, errors.New("there is no token to put into the kubeconfig")
		}
		return &api.AuthInfo{Token: o.Token}, nil
	}
	plugin, err := execPlugin(c, o)
	return &api.AuthInfo{Exec: plugin}, err
}

// check refuses outputs that would make a kubeconfig nobody can use.
func (c Cluster) check() (ca []byte, err error) {
	if c.Name == "" || c.Region == "" {
		return nil, errors.New("the cluster's name or region is empty")
	}
	endpoint, err := url.Parse(c.Endpoint)
	if err != nil || endpoint.Scheme != "https" || endpoint.Host == "" {
		return nil, fmt.Errorf("the cluster's endpoint %q is no https URL", c.Endpoint)
	}
	ca, err = base64.StdEncoding.DecodeString(c.CACertificate)
	if err != nil {
		return nil, fmt.Errorf("the cluster's CA certificate is not base64: %w", err)
	}
	if block, _ := pem.Decode(ca); block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("the cluster's CA certificate holds no PEM certificate")
	}
	return ca, nil
}

func execPlugin(c Cluster, o Options) (*api.ExecConfig, error) {
	plugin := &api.ExecConfig{
		APIVersion:      execVersion,
		InteractiveMode: api.NeverExecInteractiveMode,
	}
	switch o.Exec {
	case "", ExecAWS:
		plugin.Command = ExecAWS
		// The region and the output format are said here since the reader's own AWS
		// configuration may say something else.
		plugin.Args = []string{"--region", c.Region, "eks", "get-token", "--cluster-name", c.Name, "--output", "json"}
		plugin.InstallHint = "Install the AWS CLI (2.6.3 or newer)."
	case ExecHelper:
		plugin.Command = ExecHelper
		plugin.Args = []string{"--region", c.Region, "--cluster-name", c.Name}
		plugin.InstallHint = "Install eks-token-helper from the platform's releases."
	default:
		return nil, fmt.Errorf("unknown exec plugin %q", o.Exec)
	}
	// A token is a signed request to STS; a global endpoint's may be refused.
	plugin.Env = []api.ExecEnvVar{{Name: "AWS_STS_REGIONAL_ENDPOINTS", Value: "regional"}}

	switch o.Auth {
	case "", platform.KubeconfigAuthEmbedded:
		if o.Keys.AccessKeyID == "" || o.Keys.SecretAccessKey == "" {
			return nil, errors.New("there is no access key to put into the kubeconfig")
		}
		plugin.Env = append(plugin.Env,
			api.ExecEnvVar{Name: "AWS_ACCESS_KEY_ID", Value: o.Keys.AccessKeyID},
			api.ExecEnvVar{Name: "AWS_SECRET_ACCESS_KEY", Value: o.Keys.SecretAccessKey},
		)
		if o.Keys.SessionToken != "" {
			plugin.Env = append(plugin.Env, api.ExecEnvVar{Name: "AWS_SESSION_TOKEN", Value: o.Keys.SessionToken})
		}
	case platform.KubeconfigAuthExecOnly:
	default:
		return nil, fmt.Errorf("unknown kubeconfig_auth %q", o.Auth)
	}
	return plugin, nil
}
