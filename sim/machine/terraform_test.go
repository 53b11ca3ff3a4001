package machine_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubeopera/platform/shared/skip"
	"github.com/kubeopera/platform/sim/machine"
	"github.com/kubeopera/platform/sim/machine/guest"
)

// environment is a rendered environment of cluster-provisioner's golden files,
// which the real Terraform applies.
type environment struct {
	dir  string
	env  []string
	name string // terraform_environment
}

const environmentRegion = "eu-west-1" // of all golden environments

// newEnvironment copies a golden environment beside the modules. Its state is local.
func newEnvironment(t *testing.T, golden string) *environment {
	t.Helper()
	theMachines(t)
	if _, err := exec.LookPath("terraform"); err != nil {
		skip.Missing(t, skip.Terraform, "terraform is not on PATH")
	}
	mirror, ok := os.LookupEnv("KUBEOPERA_PROVIDER_MIRROR")
	if !ok {
		skip.Missing(t, skip.ProviderMirror, "KUBEOPERA_PROVIDER_MIRROR is not set")
	}
	path, _ := os.LookupEnv("PATH")
	root := filepath.Join("..", "..")
	home := t.TempDir()
	e := &environment{dir: filepath.Join(home, "run", golden)}
	for from, to := range map[string]string{
		filepath.Join(root, "modules"): filepath.Join(home, "modules"),
		filepath.Join(root, "provisioner", "internal", "terraformenv", "testdata", "environments", golden): e.dir,
	} {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(e.dir, "backend.tf")); err != nil {
		t.Fatal(err)
	}
	rc := filepath.Join(home, "terraform.rc")
	for file, text := range map[string]string{
		rc:                                 fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror),
		filepath.Join(home, "credentials"): fmt.Sprintf("[test]\naws_access_key_id = %s\naws_secret_access_key = %s\n", keyID, keySecret),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e.env = []string{
		"PATH=" + path, "HOME=" + home, "TMPDIR=" + home, "TF_CLI_CONFIG_FILE=" + rc, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_INPUT=0",
		"AWS_ENDPOINT_URL=" + shared.account.URL(), "AWS_PROFILE=test", "AWS_SHARED_CREDENTIALS_FILE=" + filepath.Join(home, "credentials"),
		"TF_VAR_credential_principal_arn=arn:aws:iam::123456789012:user/platform",
	}
	return e
}

// must runs terraform.
func (e *environment) must(t *testing.T, args ...string) string {
	t.Helper()
	started := time.Now()
	command := exec.CommandContext(t.Context(), "terraform", append(args, "-no-color")...)
	command.Dir, command.Env = e.dir, e.env
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Run(); err != nil {
		t.Fatalf("terraform %s: %v\n%s", strings.Join(args, " "), err, out.String())
	}
	t.Logf("terraform %s: %s", args[0], time.Since(started).Round(100*time.Millisecond))
	return out.String()
}

// apply applies the environment; it is destroyed with the test.
func (e *environment) apply(t *testing.T) {
	t.Helper()
	e.must(t, "init")
	e.must(t, "apply", "-auto-approve")
	t.Cleanup(func() {
		if t.Failed() {
			for _, m := range shared.machines.Machines() {
				log, err := m.Log()
				t.Logf("console of %s (%v), its end:\n%s", m.ID(), err, log[max(0, len(log)-6000):])
			}
		}
		command := exec.CommandContext(context.Background(), "terraform", "destroy", "-auto-approve", "-no-color")
		command.Dir, command.Env = e.dir, e.env
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("terraform destroy: %v\n%s", err, out)
		}
	})
	e.name = strings.TrimPrefix(e.must(t, "output", "-raw", "parameter_prefix"), "/kubeopera/")
}

func (e *environment) parameter(name string) string {
	parameter, ok := shared.account.SSM().Get(environmentRegion, "/kubeopera/"+e.name+"/"+name)
	if !ok {
		return ""
	}
	return parameter.Value
}

// untilBootstrapped waits until every control plane has joined, or one has failed.
func (e *environment) untilBootstrapped(t *testing.T, controlPlanes int, limit time.Duration) {
	t.Helper()
	deadline := time.Now().Add(limit)
	last := map[string]string{}
	for {
		joined := 0
		for i := range controlPlanes {
			node := fmt.Sprintf("control-plane-%d", i)
			status := e.parameter("bootstrap_status/" + node)
			if fields := strings.SplitN(status, "|", 3); len(fields) == 3 && fields[0]+fields[1] != last[node] {
				last[node] = fields[0] + fields[1]
				t.Logf("%s: %s %s", node, fields[0], fields[1])
			}
			if strings.HasPrefix(status, "FAILED") {
				t.Fatalf("%s: %s", node, status)
			}
			if strings.HasPrefix(e.parameter(fmt.Sprintf("control_plane_joined/%d", i)), "JOINED:") {
				joined++
			}
		}
		if joined == controlPlanes {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not bootstrapped within %s: %v", limit, last)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// kubernetes is a client by the published kubeconfig, at the given endpoint.
func (e *environment) kubernetes(t *testing.T, server string) kubernetes.Interface {
	t.Helper()
	content, err := base64.StdEncoding.DecodeString(e.parameter("admin_kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		t.Fatal(err)
	}
	if server != "" {
		config.Host = server
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// untilNodes waits until so many nodes are ready.
func untilNodes(t *testing.T, client kubernetes.Interface, count int) {
	t.Helper()
	until(t, fmt.Sprintf("%d nodes are ready", count), func() bool {
		nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		return err == nil && len(nodes.Items) == count && !slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return !nodeReady(n) })
	})
}

func nodeReady(n corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func TestTerraformAndUserDataMakeACluster(t *testing.T) {
	e := newEnvironment(t, "vanilla")
	e.apply(t)
	e.untilBootstrapped(t, 1, 5*time.Minute)
	client := e.kubernetes(t, e.must(t, "output", "-raw", "api_endpoint_public"))
	untilNodes(t, client, 3)

	// A destroy finds the cluster's volumes by their tag.
	driver, err := client.AppsV1().Deployments("kube-system").Get(t.Context(), "ebs-csi-controller", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if args := driver.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--k8s-tag-cluster-id=acme-prod") {
		t.Errorf("arguments of the storage driver: %q", args)
	}
	// Exit code 2 would be a change: of what the nodes have written meanwhile, say.
	e.must(t, "plan", "-detailed-exitcode")
}

// TestAHighlyAvailableClusterSurvives takes minutes, of which most are Terraform's.
// Without faults the same cluster is made end to end by the platform's own tests.
func TestAHighlyAvailableClusterSurvives(t *testing.T) {
	skip.Soak(t)
	e := newEnvironment(t, "vanilla-three")
	inits := shared.machines.Inits()
	e.apply(t)

	e.untilPhase(t, "control-plane-1", "kubeadm join")
	node := e.controlPlane(t, 1)
	t.Logf("power failure of %s, which is joining", node.ID())
	if err := node.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.untilBootstrapped(t, 3, 10*time.Minute)
	endpoint := e.must(t, "output", "-raw", "api_endpoint_public")
	client := e.kubernetes(t, endpoint)
	untilNodes(t, client, 5)

	t.Run("a reboot of every control plane, one after the other", func(t *testing.T) {
		for i := range 3 {
			node := e.controlPlane(t, i)
			if err := node.Reboot(t.Context()); err != nil {
				t.Fatal(err)
			}
			until(t, "its kubelet runs", func() bool {
				code, _, err := node.Systemctl(t.Context(), "is-active", "kubelet")
				return err == nil && code == 0
			})
			untilNodes(t, client, 5)
		}
	})

	for _, index := range []int{0, 2} {
		t.Run(fmt.Sprintf("control-plane-%d is replaced", index), func(t *testing.T) {
			lost := e.controlPlane(t, index)
			if err := lost.Terminate(t.Context()); err != nil {
				t.Fatal(err)
			}
			e.must(t, "apply", "-auto-approve")
			slot := fmt.Sprintf("control_plane_joined/%d", index)
			deadline := time.Now().Add(8 * time.Minute)
			for !strings.HasPrefix(e.parameter(slot), "JOINED:") || strings.Contains(e.parameter(slot), lost.ID()) {
				if status := e.parameter(fmt.Sprintf("bootstrap_status/control-plane-%d", index)); strings.HasPrefix(status, "FAILED") || time.Now().After(deadline) {
					t.Fatalf("not replaced: %s", status)
				}
				<-time.After(200 * time.Millisecond)
			}
			untilNodes(t, client, 5)
		})
	}
	if made := shared.machines.Inits() - inits; made != 1 {
		t.Errorf("kubeadm init made %d clusters, want one", made)
	}
	for _, c := range shared.machines.Clusters() {
		members := c.AllMembers()
		if len(members) != 3 || slices.ContainsFunc(members, func(m guest.Member) bool { return m.Learner || !m.Healthy }) {
			t.Errorf("members of %s are %+v", c.ID(), members)
		}
	}
}

// controlPlane is the machine of a control plane that is not terminated.
func (e *environment) controlPlane(t *testing.T, index int) *machine.Machine {
	t.Helper()
	for _, m := range shared.machines.Machines() {
		i := m.Instance()
		if i.Tags["kubeopera.io/node"] == fmt.Sprintf("control-plane-%d", index) && i.Tags["kubeopera.io/environment"] == e.name && i.State == "running" {
			return m
		}
	}
	t.Fatalf("control-plane-%d is not there", index)
	return nil
}

func (e *environment) untilPhase(t *testing.T, node, phase string) {
	t.Helper()
	deadline := time.Now().Add(8 * time.Minute)
	for !strings.HasPrefix(e.parameter("bootstrap_status/"+node), "RUNNING|"+phase+"|") {
		if time.Now().After(deadline) {
			t.Fatalf("%s never comes to %s: %s", node, phase, e.parameter("bootstrap_status/"+node))
		}
		<-time.After(50 * time.Millisecond)
	}
}
