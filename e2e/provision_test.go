package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/e2e/harness"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/skip"
	"github.com/kubeopera/platform/sim"
	"github.com/kubeopera/platform/sim/aws/gateway"
)

func TestProvisionEKS(t *testing.T) {
	const name = "acme-prod"
	ctx := t.Context()
	p := platform.Provisioner(t)
	run, err := p.StartProvision(ctx, platform.Request(name))
	if err != nil {
		t.Fatal(err)
	}
	if run.Status != api.StatusQueued || run.TerraformEnvironment != name || run.RequestedBy != "simulator" {
		t.Errorf("202 answers %+v", run)
	}
	_, err = p.Kubeconfig(ctx, run.ID)
	harness.WantProblem(t, err, http.StatusConflict, "kubeconfig_not_ready")
	_, err = p.StartProvision(ctx, platform.Request(name))
	if problem := harness.WantProblem(t, err, http.StatusConflict, "environment_busy"); !strings.Contains(problem.Detail+problem.Instance, run.ID) {
		t.Errorf("the conflict does not name the run that holds the environment: %+v", problem)
	}

	var seen []api.Phase
	done := 0
	run = platform.Wait(t, run.ID, func(run api.Provision) {
		seen = append(seen, run.Phase)
		if p := run.Progress; p != nil {
			if p.Done < done || p.Done > p.Total {
				t.Errorf("progress goes from %d to %d of %d", done, p.Done, p.Total)
			}
			done = p.Done
		}
	})
	if run.Status != api.StatusSucceeded {
		t.Fatalf("the run ended %s (%s): %s\n%s", run.Status, run.ErrorCode, run.Message, platform.Logs(t, run.ID))
	}
	if !slices.Contains(seen, api.PhaseApply) || run.Progress == nil || run.Progress.Total < 20 || run.Progress.Done != run.Progress.Total {
		t.Errorf("phases %v, progress %+v: want an apply of more than 20 resources, all done", seen, run.Progress)
	}
	if run.StartedAt == nil || run.FinishedAt == nil || !run.FinishedAt.After(*run.StartedAt) {
		t.Errorf("started %v, finished %v", run.StartedAt, run.FinishedAt)
	}

	kubeconfig, err := p.Kubeconfig(ctx, run.ID)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("the kubeconfig lists namespaces of the cluster", func(t *testing.T) { useKubeconfig(t, kubeconfig) })
	t.Run("AWS has the cluster in a network of its own", func(t *testing.T) { checkAWS(t, name) })
	t.Run("the state is in its bucket, and was locked and unlocked", func(t *testing.T) { checkState(t, name) })
	t.Run("the outputs Secret outlives the Job", func(t *testing.T) { checkOutputs(t, run.ID, kubeconfig) })
	t.Run("the credential is gone and was nowhere else", func(t *testing.T) { checkCredential(t, run) })
	t.Run("a second run on the same environment changes nothing", func(t *testing.T) { runAgain(t, name) })
	t.Run("destroy removes it, with what Kubernetes made", func(t *testing.T) { destroyEKS(t, run) })
}

func useKubeconfig(t *testing.T, kubeconfig []byte) {
	t.Helper()
	if _, err := exec.LookPath("aws"); err != nil {
		skip.Missing(t, skip.AWSCLI, "the kubeconfig's exec plugin is `aws eks get-token`")
	}
	if !strings.Contains(string(kubeconfig), platform.AccessKey.Secret.Reveal()) {
		t.Error("the kubeconfig does not embed the credential, which is the default for access keys")
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != platform.Target.URL() {
		t.Errorf("the server is %s, want %s", config.Host, platform.Target.URL())
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
}

// awsConfig is a client's configuration for the simulated account.
func awsConfig() aws.Config {
	return aws.Config{
		Region:       "eu-west-1",
		BaseEndpoint: new(platform.AWS.URL()),
		Credentials:  credentials.NewStaticCredentialsProvider(platform.AccessKey.ID, platform.AccessKey.Secret.Reveal(), ""),
		HTTPClient:   &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
}

func checkAWS(t *testing.T, environment string) {
	t.Helper()
	ctx := t.Context()
	eks := awseks.NewFromConfig(awsConfig())
	cluster, err := eks.DescribeCluster(ctx, &awseks.DescribeClusterInput{Name: new(environment)})
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.Cluster
	if aws.ToString(c.Version) != "1.35" || c.AccessConfig == nil || string(c.AccessConfig.AuthenticationMode) != "API" {
		t.Errorf("the cluster has version %s and access %+v", aws.ToString(c.Version), c.AccessConfig)
	}
	if access := c.ResourcesVpcConfig.PublicAccessCidrs; !slices.Equal(access, []string{"198.51.100.0/24"}) {
		t.Errorf("the API server is open to %v, want what the service's configuration allows", access)
	}
	if got := c.Tags["team"]; got != "e2e" {
		t.Errorf("the request's tag has value %q", got)
	}
	groups, err := eks.ListNodegroups(ctx, &awseks.ListNodegroupsInput{ClusterName: new(environment)})
	if err != nil {
		t.Fatal(err)
	}
	if len(groups.Nodegroups) != 1 {
		t.Errorf("node groups: %v", groups.Nodegroups)
	}
	entries, err := eks.ListAccessEntries(ctx, &awseks.ListAccessEntriesInput{ClusterName: new(environment)})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(entries.AccessEntries, platform.Principal()) {
		t.Errorf("access entries %v lack the credential's principal", entries.AccessEntries)
	}

	cloud := ec2.NewFromConfig(awsConfig())
	vpc, err := cloud.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{VpcIds: []string{aws.ToString(c.ResourcesVpcConfig.VpcId)}})
	if err != nil {
		t.Fatal(err)
	}
	if len(vpc.Vpcs) != 1 || aws.ToString(vpc.Vpcs[0].CidrBlock) != "10.0.0.0/16" {
		t.Errorf("the cluster's VPC: %+v", vpc.Vpcs)
	}
	subnets, err := cloud.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{
		Filters: []ec2types.Filter{{Name: new("vpc-id"), Values: []string{aws.ToString(c.ResourcesVpcConfig.VpcId)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	zones := map[string]int{}
	for _, subnet := range subnets.Subnets {
		zones[aws.ToString(subnet.AvailabilityZone)]++
	}
	if len(zones) != 3 {
		t.Errorf("subnets per zone: %v, want a public and a private one in three", zones)
	}
	for zone, n := range zones {
		if n != 2 {
			t.Errorf("%d subnets in %s, want a public and a private one", n, zone)
		}
	}
}

func checkState(t *testing.T, environment string) {
	t.Helper()
	bucketName := "kubeopera-terraform-state-" + environment
	bucket, ok := platform.AWS.S3().Bucket(bucketName)
	if !ok || bucket.Region != "eu-west-1" || bucket.Versioning != "Enabled" || bucket.Settings["publicAccessBlock"] == "" || bucket.Settings["policy"] == "" {
		t.Errorf("the state bucket is not what it should be: %+v", bucket)
	}
	keys, err := platform.AWS.S3().Keys(bucketName, "")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(keys, []string{"terraform.tfstate"}) {
		t.Errorf("the bucket holds %v, want the state and no lock", keys)
	}
	var state struct {
		Serial    int
		Resources []struct{ Type string }
	}
	data, err := platform.AWS.S3().Object(bucketName, "terraform.tfstate")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &state); err != nil {
		t.Fatal(err)
	}
	if len(state.Resources) < 20 {
		t.Errorf("the state has %d resources", len(state.Resources))
	}
	locked, unlocked := 0, 0
	for _, call := range platform.AWS.Calls(gateway.CallFilter{Service: "s3"}) {
		if strings.HasSuffix(call.Path, bucketName+"/terraform.tfstate.tflock") && call.Status < 300 {
			switch call.Method {
			case http.MethodPut:
				locked++
			case http.MethodDelete:
				unlocked++
			}
		}
	}
	if locked == 0 || locked != unlocked {
		t.Errorf("the lock was taken %d times and released %d times", locked, unlocked)
	}
}

func checkOutputs(t *testing.T, id string, kubeconfig []byte) {
	t.Helper()
	secret, err := platform.Kubernetes.CoreV1().Secrets(sim.RunNamespace).Get(t.Context(), "provision-"+id+"-outputs", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(secret.OwnerReferences) != 0 || secret.Type != corev1.SecretTypeOpaque || secret.Labels[runcontract.LabelRunID] != id {
		t.Errorf("type %s, owners %v, labels %v", secret.Type, secret.OwnerReferences, secret.Labels)
	}
	var result runcontract.Result
	if err := json.Unmarshal(secret.Data[runcontract.KeyResult], &result); err != nil {
		t.Fatal(err)
	}
	if result.Outcome != runcontract.OutcomeSucceeded || result.Changes == nil || result.Changes.Add < 20 {
		t.Errorf("the result is %+v", result)
	}
	if string(secret.Data[runcontract.KeyKubeconfig]) != string(kubeconfig) {
		t.Error("the API's kubeconfig is not the Secret's")
	}
}

// checkCredential looks for the credential in everything that the run left
// behind but its outputs' kubeconfig, and proves that it would be found.
func checkCredential(t *testing.T, run api.Provision) {
	t.Helper()
	harness.Until(t, "the credential Secret is deleted", func() (bool, error) {
		_, err := platform.Kubernetes.CoreV1().Secrets(sim.RunNamespace).Get(t.Context(), "provision-"+run.ID+"-credential", metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
	scanner, err := platform.Canaries()
	if err != nil {
		t.Fatal(err)
	}
	for where, data := range evidence(t, run) {
		if len(data) == 0 {
			t.Errorf("there is nothing of %s to scan", where)
		}
		if err := scanner.Scan(where, data); err != nil {
			t.Error(err)
		}
		planted := slices.Concat(data, []byte(platform.AccessKey.Secret.Reveal()))
		if err := scanner.Scan(where, planted); err == nil {
			t.Errorf("a secret planted in %s is not found", where)
		}
	}
}

// evidence is what a run leaves behind, by where it is.
func evidence(t *testing.T, run api.Provision) map[string][]byte {
	t.Helper()
	found := traces(t, runcontract.KindProvision, run.ID, platform.ClusterProvisioner)
	answer, err := yaml.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	found["the API's answer"] = answer
	found["the log"] = []byte(platform.Logs(t, run.ID))
	state, err := platform.AWS.S3().Object("kubeopera-terraform-state-"+run.TerraformEnvironment, "terraform.tfstate")
	if err != nil {
		t.Fatal(err)
	}
	found["the state"] = state
	return found
}

// traces are what a run of any kind leaves in the host cluster and at its service.
func traces(t *testing.T, kind runcontract.Kind, id string, service *sim.Service) map[string][]byte {
	t.Helper()
	ctx := t.Context()
	core := platform.Kubernetes.CoreV1()
	name := runcontract.JobName(kind, id)
	found := map[string][]byte{}
	add := func(where string, object any, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		data, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		found[where] = data
	}
	configMap, err := core.ConfigMaps(sim.RunNamespace).Get(ctx, name, metav1.GetOptions{})
	add("the ConfigMap", configMap, err)
	job, err := platform.Kubernetes.BatchV1().Jobs(sim.RunNamespace).Get(ctx, name, metav1.GetOptions{})
	add("the Job", job, err)
	pods, err := core.Pods(sim.RunNamespace).List(ctx, metav1.ListOptions{LabelSelector: runcontract.LabelRunID + "=" + id})
	add("the pods", pods, err)
	events, err := core.Events(sim.RunNamespace).List(ctx, metav1.ListOptions{})
	add("the events", events, err)
	outputs, err := core.Secrets(sim.RunNamespace).Get(ctx, runcontract.OutputsSecretName(kind, id), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for key, data := range outputs.Data {
		if key != runcontract.KeyKubeconfig && key != runcontract.KeyKubeconfigInternal { // hold a credential by design
			found["the outputs Secret's "+key] = data
		}
	}
	for what, file := range map[string]string{
		"the database":       service.Database(),
		"the database's WAL": service.Database() + "-wal",
		"the service's log":  service.LogFile(),
	} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found[what] = data
	}
	found["the metrics"] = metrics(t, service)
	return found
}

func metrics(t *testing.T, service *sim.Service) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, service.URL()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var text strings.Builder
	if _, err := fmt.Fprintln(&text, response.Status); err != nil {
		t.Fatal(err)
	}
	if err := response.Write(&text); err != nil {
		t.Fatal(err)
	}
	return []byte(text.String())
}

func runAgain(t *testing.T, name string) {
	t.Helper()
	again, err := platform.Provisioner(t).StartProvision(t.Context(), platform.Request(name))
	if err != nil {
		t.Fatal(err)
	}
	again = platform.Wait(t, again.ID, nil)
	if again.Status != api.StatusSucceeded || again.Message != "applied: 0 added, 0 changed, 0 removed" {
		t.Errorf("the second run ended %s (%s): %s", again.Status, again.ErrorCode, again.Message)
	}
	if _, err := platform.Provisioner(t).Kubeconfig(t.Context(), again.ID); err != nil {
		t.Error(err)
	}
}
