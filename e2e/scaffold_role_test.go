package e2e

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubeopera/platform/e2e/leak"
	"github.com/kubeopera/platform/shared/api"
)

// scaffoldWithARole makes dry runs for a cluster that a role has built: with the
// token in its kubeconfig, and with a kubeconfig that holds no credential, for
// which the run signs tokens with the role.
func scaffoldWithARole(t *testing.T, cluster api.Provision, config *rest.Config, credential string) {
	t.Helper()
	exec, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"eks": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"eks": {Exec: &clientcmdapi.ExecConfig{
			APIVersion: "client.authentication.k8s.io/v1beta1", Command: "aws", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
			Args: []string{"--region", cluster.Region, "eks", "get-token", "--cluster-name", cluster.TerraformEnvironment, "--output", "json"},
		}}},
		Contexts:       map[string]*clientcmdapi.Context{"eks": {Cluster: "eks", AuthInfo: "eks"}},
		CurrentContext: "eks",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []api.ScaffoldTarget{
		{ProvisionID: cluster.ID}, {Kubeconfig: string(exec), CredentialID: strings.ToUpper(credential)},
	} {
		run := scaffoldDry(t, "by-role", target, map[string]string{"the token": config.BearerToken})
		if target.CredentialID != "" && run.CredentialID != credential {
			t.Errorf("the run says credential %q", run.CredentialID)
		}
	}
}

// scaffoldDry makes a dry run for a cluster without Flux, and looks for the
// cluster's secrets in what it left behind.
func scaffoldDry(t *testing.T, environment string, target api.ScaffoldTarget, secrets map[string]string) api.Scaffold {
	t.Helper()
	s := &scaffolding{environment: environment, domain: environment + ".example.com", repository: platform.Trees, password: canary("registry of " + environment)}
	request := s.request()
	request.Target, request.DryRun = target, true
	run := s.succeed(t, s.start(t, request))
	secrets["the registry password"] = s.password
	scanner, err := leak.New(secrets)
	if err != nil {
		t.Fatal(err)
	}
	scanScaffold(t, scanner, run.ID, s.password)
	return run
}
