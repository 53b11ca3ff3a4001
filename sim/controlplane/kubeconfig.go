package controlplane

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// AdminKubeconfig is a kubeconfig with all rights, by client certificate.
func (c *ControlPlane) AdminKubeconfig() ([]byte, error) {
	return c.kubeconfig("admin", &clientcmdapi.AuthInfo{
		ClientCertificateData: c.rest.CertData,
		ClientKeyData:         c.rest.KeyData,
	}, "default")
}

// ServiceAccountKubeconfig is a kubeconfig with the rights of a ServiceAccount,
// by a token that lives for the given time (kube-apiserver's minimum is ten
// minutes). Its namespace is the account's.
func (c *ControlPlane) ServiceAccountKubeconfig(ctx context.Context, namespace, name string, lifetime time.Duration) ([]byte, error) {
	client, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		return nil, fmt.Errorf("client of the control plane: %w", err)
	}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(lifetime.Seconds()))},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	return c.kubeconfig(name, &clientcmdapi.AuthInfo{Token: token.Status.Token}, namespace)
}

func (c *ControlPlane) kubeconfig(user string, auth *clientcmdapi.AuthInfo, namespace string) ([]byte, error) {
	const cluster = "simulator"
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{cluster: {Server: c.URL(), CertificateAuthorityData: c.CABundle()}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: auth},
		Contexts:       map[string]*clientcmdapi.Context{cluster: {Cluster: cluster, AuthInfo: user, Namespace: namespace}},
		CurrentContext: cluster,
	})
	if err != nil {
		return nil, fmt.Errorf("encode kubeconfig of %s: %w", user, err)
	}
	return content, nil
}
