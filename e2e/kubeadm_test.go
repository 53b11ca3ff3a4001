package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubeopera/platform/e2e/harness"
	"github.com/kubeopera/platform/e2e/leak"
	"github.com/kubeopera/platform/shared/api"
)

// kubeadmRequest asks for a cluster of our own nodes.
func kubeadmRequest(name string, controlPlanes int) api.ProvisionRequest {
	r := platform.Request(name)
	r.Topology = api.TopologyVanillaKubeadm
	r.KubernetesVersion = "1.36.3"
	r.ControlPlaneCount = new(controlPlanes)
	r.WorkerCount = new(1)
	return r
}

func TestProvisionKubeadmWithOneControlPlane(t *testing.T) {
	t.Parallel() // mostly it waits for load balancers and nodes
	provisionKubeadm(t, "kubeadm-one", 1)
}

func TestProvisionKubeadmHighlyAvailable(t *testing.T) {
	t.Parallel()
	provisionKubeadm(t, "kubeadm-three", 3)
}

func provisionKubeadm(t *testing.T, name string, controlPlanes int) {
	t.Helper()
	run, err := platform.Provisioner(t).StartProvision(t.Context(), kubeadmRequest(name, controlPlanes))
	if err != nil {
		t.Fatal(err)
	}
	var seen []api.Phase
	var said []string
	run = platform.Wait(t, run.ID, func(run api.Provision) {
		seen = append(seen, run.Phase)
		said = append(said, run.Message)
	})
	if run.Status != api.StatusSucceeded {
		t.Fatalf("the run ended %s (%s): %s\n%s", run.Status, run.ErrorCode, run.Message, platform.Logs(t, run.ID))
	}
	if !slices.Contains(seen, api.PhaseWaitingForControlPlane) || !strings.Contains(strings.Join(said, "\n"), "control-plane-0") {
		t.Errorf("phases %v and messages %q do not show the nodes' bootstrap", seen, said)
	}

	t.Run("the kubeconfig lists the nodes", func(t *testing.T) {
		wantNodes(t, run.ID, controlPlanes+1)
	})

	t.Run("no secret of the cluster is in the state, the log or the service", func(t *testing.T) {
		secrets := clusterSecrets(t, name, controlPlanes)
		kubeconfig, err := platform.Provisioner(t).Kubeconfig(t.Context(), run.ID)
		if err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		// What is published is not what the nodes wrote: of both, this is the secret.
		secrets["the key of the kubeconfig"] = string(config.KeyData)
		scanner, err := leak.New(secrets)
		if err != nil {
			t.Fatal(err)
		}
		for where, data := range evidence(t, run) {
			if err := scanner.Scan(where, data); err != nil {
				t.Error(err)
			}
		}
		scaffoldDry(t, name, api.ScaffoldTarget{ProvisionID: run.ID}, secrets)
	})

	t.Run("what the cluster stands on cannot be changed", func(t *testing.T) {
		other := kubeadmRequest(name, controlPlanes)
		other.PodCIDR = "172.16.0.0/16"
		_, err := platform.Provisioner(t).StartProvision(t.Context(), other)
		harness.WantProblem(t, err, http.StatusConflict, "environment_immutable")
	})

	t.Run("destroy leaves nothing, not even what the nodes wrote", func(t *testing.T) {
		destroy(t, run)
		parameters := platform.AWS.SSM().Names("eu-west-1", "/kubeopera/"+name+"/")
		if len(parameters) != 0 {
			t.Errorf("parameters are left: %v", parameters)
		}
	})
}

func nodeReady(n corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// clusterSecrets are what the nodes published of a cluster, by parameter.
func clusterSecrets(t *testing.T, environment string, controlPlanes int) map[string]string {
	t.Helper()
	names := []string{"join_token", "admin_kubeconfig"}
	if controlPlanes > 1 {
		names = append(names, "k8s_certificate_key")
	}
	secrets := map[string]string{}
	for _, name := range names {
		parameter, ok := platform.AWS.SSM().Get("eu-west-1", "/kubeopera/"+environment+"/"+name)
		if !ok || parameter.Value == "PENDING" {
			t.Fatalf("the nodes have not published %s", name)
		}
		secrets[name] = parameter.Value
	}
	return secrets
}

// wantNodes waits until the cluster that a run has built has so many nodes, and all
// are ready; it looks with the kubeconfig that the run has published.
func wantNodes(t *testing.T, run string, want int) {
	t.Helper()
	kubeconfig, err := platform.Provisioner(t).Kubeconfig(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	harness.Until(t, "every node is there", func() (bool, error) {
		nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		return len(nodes.Items) == want && !slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return !nodeReady(n) }), nil
	})
}
