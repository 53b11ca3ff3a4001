package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubeopera/platform/e2e/harness"
	"github.com/kubeopera/platform/e2e/leak"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/sim/aws"
	"github.com/kubeopera/platform/sim/aws/gateway"
	"github.com/kubeopera/platform/sim/aws/keyring"
)

// TestProvisionWithARole: the credential is a role, which is really assumed, and
// whose sessions end sooner than the run; the kubeconfig needs no AWS at all.
func TestProvisionWithARole(t *testing.T) {
	const name, externalID = "acme-role", "an-external-id-of-the-tests"
	role, err := platform.AWS.CreateRole(t.Context(), aws.Role{Name: "platform", Principals: []string{platform.Principal()}, ExternalID: externalID})
	if err != nil {
		t.Fatal(err)
	}
	credential := uuid.NewString()
	platform.AuthService.PutAssumeRole(credential, "a role", cloudcred.AssumeRole{
		RoleARN: role, ExternalID: externalID, Base: cloudcred.Credential{ID: platform.Credential},
	})
	platform.AWS.STS().ShortenSessions(10 * time.Second)
	t.Cleanup(func() { platform.AWS.STS().ShortenSessions(0) })

	r := platform.Request(name)
	r.CredentialID = credential
	r.KubeconfigAuth = api.KubeconfigAuthEmbedded
	_, err = platform.Provisioner(t).StartProvision(t.Context(), r)
	harness.WantProblem(t, err, http.StatusUnprocessableEntity, "invalid_request")

	r.KubeconfigAuth = api.KubeconfigAuthServiceAccount
	run := platform.Wait(t, platform.Start(t, r).ID, nil)
	if run.Status != api.StatusSucceeded {
		t.Fatalf("the run ended %s (%s): %s\n%s", run.Status, run.ErrorCode, run.Message, platform.Logs(t, run.ID))
	}
	keys := sessions(t, name)
	if len(keys) < 2 {
		t.Errorf("AWS saw %d sessions of the role in the run, want it to be assumed again", len(keys))
	}
	kubeconfig, err := platform.Provisioner(t).Kubeconfig(t.Context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if config.ExecProvider != nil || config.BearerToken == "" {
		t.Fatal("the kubeconfig holds no token of a ServiceAccount")
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	namespaces, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(namespaces.Items, func(n corev1.Namespace) bool { return n.Name == "kube-system" }) {
		t.Errorf("no kube-system among %d namespaces", len(namespaces.Items))
	}

	t.Run("it can be scaffolded, with its token and with the role", func(t *testing.T) { scaffoldWithARole(t, run, config, credential) })

	t.Run("neither token, external id nor session is anywhere else", func(t *testing.T) {
		secrets := map[string]string{"the token": config.BearerToken, "the external id": externalID}
		for _, key := range keys {
			secrets["the secret key of session "+key.ID] = key.Secret
			secrets["the token of session "+key.ID] = key.SessionToken
		}
		scanner, err := leak.New(secrets)
		if err != nil {
			t.Fatal(err)
		}
		for where, data := range evidence(t, run) {
			if err := scanner.Scan(where, data); err != nil {
				t.Error(err)
			}
		}
	})
}

// sessions are the keys of the sessions that worked on an environment's state.
func sessions(t *testing.T, environment string) map[string]keyring.Key {
	t.Helper()
	keys := map[string]keyring.Key{}
	for _, call := range platform.AWS.Calls(gateway.CallFilter{Service: "s3"}) {
		if strings.Contains(call.Path, "kubeopera-terraform-state-"+environment) && strings.HasPrefix(call.AccessKeyID, "ASIA") {
			key, err := platform.AWS.Keys().Find(call.AccessKeyID)
			if err != nil {
				t.Fatal(err)
			}
			keys[key.ID] = key
		}
	}
	return keys
}
