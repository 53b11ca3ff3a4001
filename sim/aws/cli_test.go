package aws_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kubeopera/platform/shared/cloudcred"
	simeks "github.com/kubeopera/platform/sim/aws/eks"
	"github.com/kubeopera/platform/sim/aws/ekstoken"
	"github.com/kubeopera/platform/sim/controlplane"
	"github.com/kubeopera/platform/sim/controlplane/controlplanetest"
)

// cli runs the AWS CLI with the key that is given. With an endpoint it speaks to
// the account, without one it has to do without any network.
func cli(ctx context.Context, t *testing.T, id, endpoint string, args ...string) (string, error) {
	t.Helper()
	env := []string{"AWS_ACCESS_KEY_ID=" + id, "AWS_SECRET_ACCESS_KEY=" + keySecret}
	if endpoint != "" {
		env = append(env, "AWS_ENDPOINT_URL="+endpoint)
	}
	return cliWith(ctx, t, env, args...)
}

// cliWith runs the AWS CLI with the credential that the environment has.
func cliWith(ctx context.Context, t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	path, _ := os.LookupEnv("PATH")
	cmd := exec.CommandContext(ctx, theAccount(t).CLI(), args...)
	cmd.Env = append([]string{
		"PATH=" + path, "HOME=" + t.TempDir(), "AWS_DEFAULT_REGION=" + region, "AWS_STS_REGIONAL_ENDPOINTS=regional", "AWS_EC2_METADATA_DISABLED=true",
	}, env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("aws %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

func TestAWSCLI(t *testing.T) {
	t.Parallel()
	account := theAccount(t)
	must := func(args ...string) string {
		t.Helper()
		out, err := cli(t.Context(), t, keyID, account.URL(), args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := must("sts", "get-caller-identity", "--query", "Arn", "--output", "text"); strings.TrimSpace(out) != userARN {
		t.Errorf("identity: %s", out)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, bytes.Repeat([]byte("0123456789"), 1<<20), 0o600); err != nil { // 10 MB: in parts
		t.Fatal(err)
	}
	must("s3", "mb", "s3://aws-cli-bucket")
	must("s3", "cp", file, "s3://aws-cli-bucket/a dir/file")
	if out := must("s3", "ls", "--recursive", "s3://aws-cli-bucket"); !strings.Contains(out, "10485760 a dir/file") {
		t.Errorf("list: %s", out)
	}
	if out := must("s3", "presign", "s3://aws-cli-bucket/a dir/file"); !isReadable(t, strings.TrimSpace(out)) {
		t.Errorf("presigned URL cannot be read: %s", out)
	}
	must("s3", "cp", "s3://aws-cli-bucket/a dir/file", file+".back")
	if got, err := os.ReadFile(file + ".back"); err != nil || len(got) != 10<<20 {
		t.Errorf("read back: %d bytes, %v", len(got), err)
	}
	must("s3", "rb", "--force", "s3://aws-cli-bucket")
	if _, err := cli(t.Context(), t, "AKIAUNKNOWN000000000", account.URL(), "eks", "list-clusters"); err == nil || !strings.Contains(err.Error(), "UnrecognizedClientException") {
		t.Errorf("unknown key: %v", err)
	}
}

func isReadable(t *testing.T, url string) bool {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// A real API server accepts the token of the real CLI, for who has an access
// entry and no other.
func TestAPIServerAcceptsTheCLIsToken(t *testing.T) {
	account := theAccount(t)
	ctx := t.Context()
	webhook, err := account.Tokens().Kubeconfig(nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "webhook.kubeconfig")
	if err := os.WriteFile(file, webhook, 0o600); err != nil {
		t.Fatal(err)
	}
	plane := controlplanetest.Start(t, controlplane.Config{AuthenticationWebhook: file})
	admin, err := kubernetes.NewForConfig(plane.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := ekstoken.BindPolicies(ctx, admin); err != nil {
		t.Fatal(err)
	}
	shared.planes.Set(simeks.Endpoint{URL: plane.URL(), CA: plane.CABundle()})
	t.Cleanup(func() { shared.planes.Set(standIn) })
	makeCluster(t, "token-test")

	list := func(env ...string) error {
		t.Helper()
		out, err := cliWith(ctx, t, env, "eks", "get-token", "--cluster-name", "token-test", "--output", "json")
		if err != nil {
			t.Fatal(err)
		}
		var credential struct{ Status struct{ Token string } }
		if err := json.Unmarshal([]byte(out), &credential); err != nil {
			t.Fatal(err)
		}
		client, err := kubernetes.NewForConfig(&rest.Config{
			Host: plane.URL(), TLSClientConfig: rest.TLSClientConfig{CAData: plane.CABundle()}, BearerToken: credential.Status.Token,
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		return err
	}
	// As a user's shell has it: no endpoint, the token is signed for AWS's STS.
	key := []string{"AWS_ACCESS_KEY_ID=" + keyID, "AWS_SECRET_ACCESS_KEY=" + keySecret}
	if err := list(key...); err != nil {
		t.Errorf("token for STS: %v", err)
	}
	if err := list(append(key, "AWS_ENDPOINT_URL="+account.URL())...); err != nil {
		t.Errorf("token for the gateway: %v", err)
	}
	const stranger = "AKIASTRANGER00000001"
	if err := account.RegisterKey(stranger, keySecret, "arn:aws:iam::123456789012:user/stranger"); err != nil {
		t.Fatal(err)
	}
	if err := list("AWS_ACCESS_KEY_ID="+stranger, "AWS_SECRET_ACCESS_KEY="+keySecret); err == nil {
		t.Error("a stranger's token is accepted")
	}

	// A session of a role, as a run's credential files have it: the role's access
	// entry lets it in.
	role := theRole(t)
	assume := profile(t, cloudcred.Credential{AssumeRole: &cloudcred.AssumeRole{
		RoleARN: role, ExternalID: externalID,
		Base: cloudcred.Credential{AccessKey: &cloudcred.AccessKey{ID: keyID, Secret: keySecret}},
	}})
	if err := list(assume...); err == nil {
		t.Error("a role without an access entry is let in")
	}
	entry := "--principal-arn=" + role
	for _, args := range [][]string{
		{"create-access-entry", entry},
		{"associate-access-policy", entry, "--access-scope=type=cluster", "--policy-arn=arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"},
	} {
		if _, err := cli(ctx, t, keyID, account.URL(), append([]string{"eks", "--cluster-name=token-test"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	if err := list(assume...); err != nil {
		t.Errorf("token of a role: %v", err)
	}
}

// makeCluster makes a cluster that the test's user administers.
func makeCluster(t *testing.T, name string) {
	t.Helper()
	ctx, cfg := t.Context(), config(t)
	network, client := ec2.NewFromConfig(cfg), eks.NewFromConfig(cfg)
	vpc, err := network.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: new("10.40.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	var subnets []string
	for cidr, zone := range map[string]string{"10.40.0.0/24": region + "a", "10.40.1.0/24": region + "b"} {
		out, err := network.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: vpc.Vpc.VpcId, CidrBlock: &cidr, AvailabilityZone: &zone})
		if err != nil {
			t.Fatal(err)
		}
		subnets = append(subnets, *out.Subnet.SubnetId)
	}
	role, err := cli(ctx, t, keyID, theAccount(t).URL(), "iam", "create-role", "--role-name", name, "--query", "Role.Arn", "--output", "text",
		"--assume-role-policy-document", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"eks.amazonaws.com"},"Action":"sts:AssumeRole"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateCluster(ctx, &eks.CreateClusterInput{
		Name: &name, RoleArn: new(strings.TrimSpace(role)), ResourcesVpcConfig: &types.VpcConfigRequest{SubnetIds: subnets},
		AccessConfig: &types.CreateAccessConfigRequest{AuthenticationMode: types.AuthenticationModeApi},
	}); err != nil {
		t.Fatal(err)
	}
	if err := eks.NewClusterActiveWaiter(client, func(o *eks.ClusterActiveWaiterOptions) {
		o.MinDelay, o.MaxDelay = 100*time.Millisecond, time.Second
	}).Wait(ctx, &eks.DescribeClusterInput{Name: &name}, time.Minute); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := client.DeleteCluster(context.WithoutCancel(ctx), &eks.DeleteClusterInput{Name: &name}); err != nil {
			t.Error(err)
		}
	})
}
