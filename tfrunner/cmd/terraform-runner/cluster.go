package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/tfrunner/internal/publish"
)

// namespaceFile names the pod's namespace, beside its service-account token.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// secretsClient is the API server as the pod's service account sees it.
func secretsClient(getenv func(string) string) (client publish.Secrets, namespace string, err error) {
	var cfg *rest.Config
	if path := getenv("KUBECONFIG"); path != "" {
		cfg, err = clientcmd.BuildConfigFromFlags("", path)
	} else {
		cfg, err = rest.InClusterConfig()
	}
	if err != nil {
		return nil, "", fmt.Errorf("find the API server: %w", err)
	}
	// A proxy is for AWS, not for the cluster that we are in.
	cfg.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	cfg.UserAgent = "terraform-runner/" + version()
	clientset, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, "", fmt.Errorf("connect to the API server: %w", err)
	}
	namespace = getenv(runcontract.EnvPodNamespace)
	if namespace == "" {
		data, err := os.ReadFile(namespaceFile)
		if err != nil {
			return nil, "", fmt.Errorf("find the pod's namespace: %s is not set: %w", runcontract.EnvPodNamespace, err)
		}
		namespace = strings.TrimSpace(string(data))
	}
	return clientset.CoreV1().Secrets(namespace), namespace, nil
}

// terraformBinary finds Terraform.
func terraformBinary(getenv func(string) string) (string, error) {
	name := getenv("TERRAFORM_BINARY")
	if name == "" {
		name = "terraform"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("find the terraform binary: %w", err)
	}
	return path, nil
}
