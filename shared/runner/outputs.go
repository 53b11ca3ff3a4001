package runner

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner/publish"
)

// namespaceFile names the pod's namespace, beside its service-account token.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// OutputsClient is the API server to publish to, as the pod's service account sees
// it, or the file that KUBECONFIG names.
func (p Process) OutputsClient() (client publish.Secrets, namespace string, err error) {
	var cfg *rest.Config
	if path := p.Getenv("KUBECONFIG"); path != "" {
		cfg, err = clientcmd.BuildConfigFromFlags("", path)
	} else {
		cfg, err = rest.InClusterConfig()
	}
	if err != nil {
		return nil, "", fmt.Errorf("find the API server: %w", err)
	}
	// A proxy is for the world outside, not for the cluster that we are in.
	cfg.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	cfg.UserAgent = p.Name + "/" + Version()
	clientset, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, "", fmt.Errorf("connect to the API server: %w", err)
	}
	namespace = p.Getenv(runcontract.EnvPodNamespace)
	if namespace == "" {
		data, err := os.ReadFile(namespaceFile)
		if err != nil {
			return nil, "", fmt.Errorf("find the pod's namespace: %s is not set: %w", runcontract.EnvPodNamespace, err)
		}
		namespace = strings.TrimSpace(string(data))
	}
	return clientset.CoreV1().Secrets(namespace), namespace, nil
}
