package main

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/kubeconfig"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/tfrunner/internal/adminconf/adminconftest"
)

// kubeadm is a run whose Terraform starts nodes, and what they have to report.
type kubeadm struct {
	*fixture
	published string
	conf      *adminconftest.Conf
}

const parameterPrefix = "/kubeopera/" + environment

// setupKubeadm prepares the run of a kubeadm environment with three control-plane
// nodes that have not reported yet, and an API server that answers.
func setupKubeadm(t *testing.T) *kubeadm {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok")) // a client that is gone needs no answer
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	k := &kubeadm{
		// It declares no variable: one that is passed all the same is an error.
		fixture: prepare(t, fmt.Sprintf(`
resource "terraform_data" "node" {}
output "api_endpoint_internal" { value = "https://acme-internal.example.com:6443" }
output "api_endpoint_public" { value = %q }
output "parameter_prefix" { value = %q }
output "control_plane_count" { value = 3 }
`, server.URL, parameterPrefix)),
		conf: adminconftest.New(t, "https://acme-internal.example.com:6443", ca),
	}
	k.published = k.conf.Published(t)
	k.spec.Topology, k.spec.KubeconfigAuth = api.TopologyVanillaKubeadm, ""
	k.spec.PollIntervalSeconds, k.spec.ControlPlaneTimeoutSeconds = 1, 60
	k.set("cluster_state", "PENDING")
	k.set("admin_kubeconfig", "PENDING")
	for i := range 3 {
		k.node(i, "PENDING", "PENDING")
	}
	return k
}

func (k *kubeadm) set(name, value string) { k.aws.SetParameter(parameterPrefix+"/"+name, value) }

func (k *kubeadm) node(i int, join, status string) {
	k.set(fmt.Sprintf("control_plane_joined/%d", i), join)
	k.set(fmt.Sprintf("bootstrap_status/control-plane-%d", i), status)
}

// initialised is what the first node reports when the cluster is there.
func (k *kubeadm) initialised() {
	k.set("admin_kubeconfig", k.published)
	k.set("cluster_state", "READY:0b1c:sha256:00")
	k.node(0, "JOINED:i-0:1764493200", "DONE|done|i-0|1764493200|")
}

// says waits until the published progress does.
func (k *kubeadm) says(t *testing.T, text string) {
	t.Helper()
	eventually(t, "the progress says: "+text, func() bool {
		var p runcontract.Progress
		return json.Unmarshal(k.cluster.Data(runcontract.KeyProgress), &p) == nil && strings.Contains(p.Message, text)
	})
}

// noKey fails if what the cluster published is anywhere that people or services look.
func (k *kubeadm) noKey(t *testing.T, c *child) {
	t.Helper()
	k.noSecret(t, c)
	state, _ := k.aws.Object(bucketName, stateKey)
	for place, text := range map[string]string{
		"the container's log":     c.output.String(),
		"the termination message": string(k.terminationMessage(t)),
		"progress.json":           string(k.cluster.Data(runcontract.KeyProgress)),
		"result.json":             string(k.cluster.Data(runcontract.KeyResult)),
		"the log tail":            k.logTail(t),
		"the state":               string(state),
	} {
		for _, secret := range []string{k.published, strings.Split(k.conf.Key, "\n")[1], base64.StdEncoding.EncodeToString([]byte(k.conf.Key))} {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds the admin's kubeconfig or its key:\n%s", place, text)
			}
		}
	}
}

func TestRun_kubeadm_ends_with_two_kubeconfigs(t *testing.T) {
	t.Parallel()
	k := setupKubeadm(t)
	c := k.start(t)
	k.node(0, "PENDING", "RUNNING|kubeadm init|i-0|1764493190|")
	k.says(t, "control-plane-0: kubeadm init")
	k.initialised()
	k.node(1, "JOINING:i-1:1764493210", "RUNNING|kubeadm join|i-1|1764493210|")
	k.says(t, "control-plane-1: kubeadm join (1 of 3")
	k.node(1, "JOINED:i-1:1764493220", "DONE|done|i-1|1764493220|")
	k.node(2, "JOINED:i-2:1764493230", "DONE|done|i-2|1764493230|")
	if code := c.wait(t); code != runcontract.ExitOK {
		t.Fatalf("exit code %d", code)
	}
	result := k.result(t)
	if result.Outcome != runcontract.OutcomeSucceeded || result.Message != "applied: 1 added, 0 changed, 0 removed; 3 of 3 control-plane nodes joined" {
		t.Errorf("result %+v", result)
	}
	public, internal := k.cluster.Data(runcontract.KeyKubeconfig), k.cluster.Data(runcontract.KeyKubeconfigInternal)
	if info, err := kubeconfig.Check(internal); err != nil || info.Server != "https://acme-internal.example.com:6443" {
		t.Errorf("internal kubeconfig: %+v, %v", info, err)
	}
	config, err := kubeconfig.Parse(public)
	if err != nil {
		t.Fatal(err)
	}
	if string(config.AuthInfos[environment].ClientKeyData) != k.conf.Key {
		t.Error("the kubeconfig has another user")
	}
	for _, want := range []string{"== waiting for the control plane", "== waiting for the control-plane nodes", "control-plane-1: kubeadm join", "the API server answers the kubeconfig: it is ready"} {
		if !strings.Contains(c.output.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, c.output)
		}
	}
	k.noKey(t, c)
	k.onlyWrites(t)
}

func TestRun_kubeadm_incomplete_control_plane_keeps_its_kubeconfig(t *testing.T) {
	t.Parallel()
	k := setupKubeadm(t)
	k.initialised()
	k.node(1, "JOINING:i-1:1764493210", "FAILED|kubeadm join|i-1|1764493220|error: "+strings.Split(k.conf.Key, "\n")[1]+" token abcdef.0123456789abcdef")
	throttles := 2
	k.aws.SetFault(func(operation, _ string) (string, int) {
		if operation != "GetParameters" || throttles == 0 {
			return "", 0
		}
		throttles--
		return "ThrottlingException", http.StatusBadRequest
	})
	c := k.start(t)
	if code := c.wait(t); code != runcontract.ExitControlPlaneMissing {
		t.Fatalf("exit code %d", code)
	}
	result := k.result(t)
	if result.Outcome != runcontract.OutcomeFailed || result.ErrorCode != runcontract.CodeControlPlaneIncomplete || result.Phase != api.PhaseWaitingForNodes {
		t.Errorf("result %+v", result)
	}
	if !strings.Contains(result.Message, "control-plane-1 failed: kubeadm join: error:") || strings.Contains(result.Message, "abcdef.0123456789abcdef") {
		t.Errorf("message %q", result.Message)
	}
	var p runcontract.Progress
	if err := json.Unmarshal(k.cluster.Data(runcontract.KeyProgress), &p); err != nil {
		t.Fatal(err)
	}
	var states []api.NodeState
	for _, n := range p.Nodes {
		states = append(states, n.State)
	}
	if diff := cmp.Diff([]api.NodeState{api.NodeJoined, api.NodeFailed, api.NodeWaiting}, states); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if _, err := kubeconfig.Check(k.cluster.Data(runcontract.KeyKubeconfig)); err != nil {
		t.Errorf("kubeconfig: %v", err)
	}
	k.noKey(t, c)
}

func TestRun_kubeadm_wait_ends_at_once_and_is_resumed(t *testing.T) {
	t.Parallel()
	k := setupKubeadm(t)
	k.spec.PollIntervalSeconds = 600
	c := k.start(t)
	k.says(t, "control-plane-0: has not reported yet")
	signalled := time.Now()
	c.terminate(t)
	if code := c.wait(t); code != runcontract.ExitInterrupted {
		t.Fatalf("exit code %d", code)
	}
	if took := time.Since(signalled); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	if result := k.result(t); result.Outcome != runcontract.OutcomeCancelled || result.Phase != api.PhaseWaitingForControlPlane {
		t.Errorf("result %+v", result)
	}
	k.stateHas(t, "node")
	if _, locked := k.aws.Object(bucketName, lockKey); locked {
		t.Error("the state is still locked")
	}
	if k.cluster.Data(runcontract.KeyKubeconfig) != nil {
		t.Error("a kubeconfig was published")
	}

	k.initialised()
	k.node(1, "JOINED:i-1:1764493220", "PENDING")
	k.node(2, "JOINED:i-2:1764493230", "PENDING")
	again := k.again(t)
	if code := again.wait(t); code != runcontract.ExitOK {
		t.Fatalf("exit code %d", code)
	}
	if result := k.result(t); result.Changes == nil || *result.Changes != (api.Changes{}) {
		t.Errorf("the second run changed %+v", result.Changes)
	}
}

// again is the same run by another pod, whose workspace is new.
func (k *kubeadm) again(t *testing.T) *child {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(k.dir, "modules-repository", "run")); err != nil {
		t.Fatal(err)
	}
	return k.start(t)
}
