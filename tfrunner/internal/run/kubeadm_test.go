package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/kubeconfig"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner"
	"github.com/kubeopera/platform/tfrunner/internal/adminconf"
	"github.com/kubeopera/platform/tfrunner/internal/adminconf/adminconftest"
	"github.com/kubeopera/platform/tfrunner/internal/bootstrap"
)

// Parameters implements AWS.
func (w *world) Parameters(ctx context.Context) (bootstrap.Parameters, error) {
	return w, w.step(ctx, "parameters")
}

// GetParameters implements bootstrap.Parameters.
func (w *world) GetParameters(ctx context.Context, in *ssm.GetParametersInput, _ ...func(*ssm.Options)) (*ssm.GetParametersOutput, error) {
	if err := w.step(ctx, "poll"); err != nil {
		return nil, err
	}
	out := &ssm.GetParametersOutput{}
	for _, name := range in.Names {
		if value, ok := w.store[name]; ok {
			out.Parameters = append(out.Parameters, types.Parameter{Name: &name, Value: &value})
		}
	}
	return out, nil
}

// GetParametersByPath implements bootstrap.Parameters.
func (w *world) GetParametersByPath(_ context.Context, in *ssm.GetParametersByPathInput, _ ...func(*ssm.Options)) (*ssm.GetParametersByPathOutput, error) {
	out := &ssm.GetParametersByPathOutput{}
	for name, value := range w.store {
		if strings.HasPrefix(name, *in.Path+"/") {
			out.Parameters = append(out.Parameters, types.Parameter{Name: &name, Value: &value})
		}
	}
	return out, nil
}

const prefix = "/kubeopera/acme"

// newKubeadmWorld is a world whose nodes have not reported yet.
func newKubeadmWorld(nodes int, public string) *world {
	w := newWorld()
	w.outputs = map[string]json.RawMessage{}
	for name, value := range map[string]any{
		runcontract.OutputAPIEndpointInternal: "https://10.0.1.5:6443", runcontract.OutputAPIEndpointPublic: public, runcontract.OutputParameterPrefix: prefix, runcontract.OutputControlPlaneCount: nodes,
	} {
		data, _ := json.Marshal(value)
		w.outputs[name] = data
	}
	w.store = map[string]string{prefix + "/cluster_state": "PENDING", prefix + "/admin_kubeconfig": "PENDING"}
	for i := range nodes {
		w.node(i, "PENDING", "PENDING")
	}
	return w
}

func (w *world) node(i int, join, status string) {
	w.store[prefix+"/control_plane_joined/"+strconv.Itoa(i)] = join
	w.store[prefix+"/bootstrap_status/control-plane-"+strconv.Itoa(i)] = status
}

func (w *world) publishes(published string) {
	w.store[prefix+"/admin_kubeconfig"] = published
	w.store[prefix+"/cluster_state"] = "READY:uid:sha256:00"
}

// at lets things happen before a poll, by its number.
func (w *world) at(events map[int]func()) {
	n := 0
	w.on["poll"] = func(ctx context.Context) error {
		n++
		if do := events[n]; do != nil {
			do()
		}
		return ctx.Err()
	}
}

func kubeadmSpec() runcontract.Spec {
	s := spec()
	s.Topology, s.Name = api.TopologyVanillaKubeadm, "acme"
	return s
}

// server is where a published kubeconfig leads; empty if there is none.
func (w *world) server(t *testing.T, key string) string {
	t.Helper()
	data, ok := w.files[key]
	if !ok {
		return ""
	}
	info, err := kubeconfig.Check(data)
	if err != nil {
		t.Fatal(err)
	}
	return info.Server
}

func TestKubeadm_waits_for_the_control_plane_and_then_for_its_nodes(t *testing.T) {
	t.Parallel()
	conf := adminconftest.New(t, "https://10.0.1.5:6443", nil)
	published := conf.Published(t)
	synctest.Test(t, func(t *testing.T) {
		w := newKubeadmWorld(3, "https://203.0.113.7:6443")
		w.at(map[int]func(){
			2: func() { w.node(0, "PENDING", "RUNNING|kubeadm_init|i-0|1|") },
			4: func() { w.publishes(published); w.node(0, "JOINED:i-0:2", "DONE|done|i-0|2|") },
			5: func() { w.node(1, "JOINING:i-1:3", "RUNNING|kubeadm join|i-1|3|") },
			6: func() {
				w.node(1, "JOINED:i-1:4", "DONE|done|i-1|4|")
				w.node(2, "JOINED:i-2:5", "DONE|done|i-2|5|")
				w.store[prefix+"/bootstrap_status/worker-i-9"] = fmt.Sprintf("DONE|done|i-9|%d|", time.Now().Unix())
			},
		})
		w.store[prefix+"/bootstrap_status/worker-i-8"] = "DONE|done|i-8|7|of an earlier run"
		start := time.Now()
		result := w.run(t.Context(), kubeadmSpec())
		if result.Outcome != runcontract.OutcomeSucceeded || result.Message != "applied: 2 added, 0 changed, 0 removed; 3 of 3 control-plane nodes joined" {
			t.Errorf("result %+v", result)
		}
		// The first poll for the nodes follows at once on the last one for the control plane.
		if took := time.Since(start); took != 4*20*time.Second {
			t.Errorf("took %s", took)
		}
		if len(w.vars) != 0 {
			t.Errorf("variables %v: the environment declares none", w.vars)
		}
		var got []string
		for _, p := range w.progress {
			line := string(p.Phase) + "|" + p.Current + "|" + p.Message
			if len(got) == 0 || got[len(got)-1] != line {
				got = append(got, line)
			}
		}
		got = got[slices.IndexFunc(got, func(l string) bool { return strings.HasPrefix(l, string(api.PhaseWaitingForControlPlane)) }):]
		want := []string{
			"waiting_for_control_plane||waiting for the control plane",
			"waiting_for_control_plane|control-plane-0|control-plane-0: has not reported yet (0 of 3 control-plane nodes joined)",
			"waiting_for_control_plane|control-plane-0|control-plane-0: kubeadm init (0 of 3 control-plane nodes joined)",
			"waiting_for_control_plane|control-plane-1|control-plane-1: has not reported yet (1 of 3 control-plane nodes joined)",
			"waiting_for_nodes|control-plane-1|waiting for the control-plane nodes",
			"waiting_for_nodes|control-plane-1|control-plane-1: kubeadm join (1 of 3 control-plane nodes joined)",
			"waiting_for_nodes||3 of 3 control-plane nodes joined",
			"publishing||publishing the result",
			"done||applied: 2 added, 0 changed, 0 removed; 3 of 3 control-plane nodes joined",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("progress (-want +got):\n%s", diff)
		}
		last := w.progress[len(w.progress)-1]
		joined := func(name string) api.Node {
			return api.Node{Name: name, State: api.NodeJoined, Message: "joined"}
		}
		if diff := cmp.Diff([]api.Node{joined("control-plane-0"), joined("control-plane-1"), joined("control-plane-2"), joined("worker-i-9")}, last.Nodes); diff != "" {
			t.Errorf("nodes (-want +got):\n%s", diff)
		}
		for key, want := range map[string]string{
			runcontract.KeyKubeconfig: "https://203.0.113.7:6443", runcontract.KeyKubeconfigInternal: "https://10.0.1.5:6443",
		} {
			if got := w.server(t, key); got != want {
				t.Errorf("%s leads to %q, want %q", key, got, want)
			}
		}
		if !slices.Contains(w.hidden, published) || !slices.Contains(w.hidden, conf.Key) {
			t.Error("the published kubeconfig or its key is not hidden")
		}
		for _, phase := range []api.Phase{api.PhaseWaitingForControlPlane, api.PhaseWaitingForNodes} {
			if result.PhaseSeconds[phase] == 0 {
				t.Errorf("no duration of phase %s: %v", phase, result.PhaseSeconds)
			}
		}
	})
}

func TestKubeadm_a_private_cluster_has_one_kubeconfig(t *testing.T) {
	t.Parallel()
	w := newKubeadmWorld(1, "")
	w.publishes(adminconftest.New(t, "https://10.0.1.5:6443", nil).Published(t))
	w.node(0, "JOINED:i-0:2", "DONE|done|i-0|2|")
	w.on["probe"] = func(context.Context) error { return errors.New("no route to host") } // in order
	result := w.run(t.Context(), kubeadmSpec())
	if result.Outcome != runcontract.OutcomeSucceeded {
		t.Errorf("result %+v", result)
	}
	if got := w.server(t, runcontract.KeyKubeconfig); got != "https://10.0.1.5:6443" {
		t.Errorf("the kubeconfig leads to %q", got)
	}
	if _, ok := w.files[runcontract.KeyKubeconfigInternal]; ok {
		t.Error("there is a second kubeconfig")
	}
	want := []string{"open", "identity", "bucket", "prepare", "init", "plan", "apply", "outputs", "parameters", "poll", "poll", "probe", "finish"}
	if diff := cmp.Diff(want, w.calls); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestKubeadm_an_untrusted_api_server_is_no_failure(t *testing.T) {
	t.Parallel()
	w := newKubeadmWorld(1, "https://203.0.113.7:6443")
	w.publishes(adminconftest.New(t, "https://10.0.1.5:6443", nil).Published(t))
	w.node(0, "JOINED:i-0:2", "PENDING")
	w.on["probe"] = func(context.Context) error { return &adminconf.UntrustedError{Err: errors.New("unknown authority")} }
	if result := w.run(t.Context(), kubeadmSpec()); result.Outcome != runcontract.OutcomeSucceeded {
		t.Errorf("result %+v", result)
	}
}

// TestKubeadm_the_newest_kubeconfig_counts: a first node that dies after it has
// published begins anew, with another CA.
func TestKubeadm_the_newest_kubeconfig_counts(t *testing.T) {
	t.Parallel()
	first, second := adminconftest.New(t, "https://10.0.1.5:6443", nil), adminconftest.New(t, "https://10.0.1.5:6443", nil)
	synctest.Test(t, func(t *testing.T) {
		w := newKubeadmWorld(1, "")
		w.at(map[int]func(){
			2: func() { w.publishes(first.Published(t)) },
			5: func() { w.publishes(second.Published(t)); w.node(0, "JOINED:i-0:2", "PENDING") },
		})
		w.run(t.Context(), kubeadmSpec())
		config, err := kubeconfig.Parse(w.files[runcontract.KeyKubeconfig])
		if err != nil {
			t.Fatal(err)
		}
		if got := string(config.AuthInfos["acme"].ClientKeyData); got != second.Key {
			t.Error("the kubeconfig is the first one")
		}
	})
}

func TestKubeadm_instances_that_were_replaced_do_not_count(t *testing.T) {
	t.Parallel()
	published := adminconftest.New(t, "https://10.0.1.5:6443", nil).Published(t)
	synctest.Test(t, func(t *testing.T) {
		w := newKubeadmWorld(3, "")
		w.outputs[runcontract.OutputControlPlaneInstanceIDs] = json.RawMessage(`["i-0","i-1","i-new"]`)
		w.publishes(published)
		w.node(0, "JOINED:i-0:2", "DONE|done|i-0|2|")
		w.node(1, "JOINED:i-1:2", "DONE|done|i-1|2|")
		w.node(2, "FAILED:i-old:2:lost", "FAILED|kubeadm join|i-old|2|lost")
		w.at(map[int]func(){4: func() { w.node(2, "JOINED:i-new:3", "DONE|done|i-new|3|") }})
		start := time.Now()
		if result := w.run(t.Context(), kubeadmSpec()); result.Outcome != runcontract.OutcomeSucceeded {
			t.Errorf("result %+v", result)
		}
		if took := time.Since(start); took != 40*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func TestKubeadm_failures(t *testing.T) {
	t.Parallel()
	conf := adminconftest.New(t, "https://10.0.1.5:6443", nil)
	published := conf.Published(t)
	tests := []struct {
		name       string
		nodes      int
		prepare    func(w *world, s *runcontract.Spec)
		code       runcontract.ErrorCode
		phase      api.Phase
		says       string
		kubeconfig bool
		after      time.Duration
	}{
		{
			"a node gives up after the kubeconfig was published", 3,
			func(w *world, _ *runcontract.Spec) {
				w.publishes(published)
				w.node(0, "JOINED:i-0:2", "DONE|done|i-0|2|")
				w.node(1, "FAILED:i-1:3:etcd is unhealthy", "FAILED|kubeadm join|i-1|3|etcd is unhealthy")
			},
			runcontract.CodeControlPlaneIncomplete, api.PhaseWaitingForNodes,
			"the cluster is there, but not all of its control plane: control-plane-1 failed: kubeadm join: etcd is unhealthy (1 of 3 control-plane nodes joined); reboot the instance i-1, or terminate it to have it replaced, and start the run again",
			true, 0,
		},
		{
			"the first node gives up before", 1,
			func(w *world, _ *runcontract.Spec) { w.node(0, "PENDING", "FAILED|packages|i-0|3|no space left") },
			runcontract.CodeKubeconfig, api.PhaseWaitingForControlPlane,
			"the cluster has published no kubeconfig: control-plane-0 failed: packages: no space left (0 of 1 control-plane nodes joined); reboot the instance i-0,", false, 0,
		},
		{
			"the only node gives up when there is a cluster on it", 1,
			func(w *world, _ *runcontract.Spec) {
				w.publishes(published)
				w.node(0, "FAILED:i-0:3:readyz", "PENDING")
			},
			runcontract.CodeControlPlaneIncomplete, api.PhaseWaitingForNodes,
			"control-plane-0 failed: readyz (0 of 1 control-plane nodes joined)", true, 0,
		},
		{
			"there is no control plane in time", 1,
			func(w *world, _ *runcontract.Spec) { w.node(0, "PENDING", "RUNNING|packages|i-0|3|attempt 9") },
			runcontract.CodeKubeconfig, api.PhaseWaitingForControlPlane,
			"the cluster has published no kubeconfig: not within 20m0s; control-plane-0: packages: attempt 9; start the run again", false, 20 * time.Minute,
		},
		{
			"not every node joins in time", 3,
			func(w *world, s *runcontract.Spec) {
				s.ControlPlaneTimeoutSeconds, s.PollIntervalSeconds = 90, 7
				w.publishes(published)
				w.node(0, "JOINED:i-0:2", "DONE|done|i-0|2|")
				w.node(1, "JOINING:i-1:3", "RUNNING|kubeadm join|i-1|3|")
			},
			runcontract.CodeControlPlaneIncomplete, api.PhaseWaitingForNodes,
			"not within 1m30s; control-plane-1: kubeadm join (1 of 3 control-plane nodes joined); start the run again to go on waiting", true, 90 * time.Second,
		},
		{
			"the credential may not read parameters", 1,
			func(w *world, _ *runcontract.Spec) {
				w.on["poll"] = func(context.Context) error {
					return &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "ssm:GetParameters"}
				}
			},
			runcontract.CodeKubeconfig, api.PhaseWaitingForControlPlane, "the AWS credential is not allowed to do so: AccessDeniedException: ssm:GetParameters", false, 0,
		},
		{
			"what was published is no kubeconfig", 1,
			func(w *world, _ *runcontract.Spec) { w.publishes("canary/canary") },
			runcontract.CodeKubeconfig, api.PhaseWaitingForControlPlane, "the cluster is there, but its kubeconfig cannot be used: the published kubeconfig is not base64", false, 0,
		},
		{
			"an address that is none", 1,
			func(w *world, _ *runcontract.Spec) {
				w.publishes(published)
				w.outputs[runcontract.OutputAPIEndpointPublic] = json.RawMessage(`"203.0.113.7"`)
			},
			runcontract.CodeKubeconfig, api.PhaseWaitingForControlPlane, `the API server's address "203.0.113.7" is no https URL`, false, 0,
		},
		{
			"outputs are missing", 1,
			func(w *world, _ *runcontract.Spec) {
				w.outputs = map[string]json.RawMessage{runcontract.OutputControlPlaneCount: json.RawMessage(`"x"`)}
			},
			runcontract.CodeKubeconfig, api.PhaseWaitingForControlPlane, "the environment has no output api_endpoint_internal", false, 0,
		},
		{
			"outputs of no nodes", 0,
			func(*world, *runcontract.Spec) {},
			runcontract.CodeKubeconfig, api.PhaseWaitingForControlPlane, "name no nodes", false, 0,
		},
		{
			"a negative interval", 1,
			func(_ *world, s *runcontract.Spec) { s.PollIntervalSeconds = -1 },
			runcontract.CodeInvalidSpec, api.PhasePreparingState, "must not be negative", false, 0,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, s := newKubeadmWorld(tt.nodes, ""), kubeadmSpec()
				tt.prepare(w, &s)
				start := time.Now()
				result := w.run(t.Context(), s)
				if result.Outcome != runcontract.OutcomeFailed || result.ErrorCode != tt.code || result.Phase != tt.phase {
					t.Errorf("%s %s in %s, want %s in %s", result.Outcome, result.ErrorCode, result.Phase, tt.code, tt.phase)
				}
				if !strings.Contains(result.Message, tt.says) || strings.Contains(result.Message, "canary") {
					t.Errorf("message %q lacks %q", result.Message, tt.says)
				}
				if _, got := w.files[runcontract.KeyKubeconfig]; got != tt.kubeconfig {
					t.Errorf("kubeconfig published: %v", got)
				}
				if took := time.Since(start); took != tt.after {
					t.Errorf("took %s, want %s", took, tt.after)
				}
			})
		})
	}
}

func TestKubeadm_interrupted(t *testing.T) {
	t.Parallel()
	published := adminconftest.New(t, "https://10.0.1.5:6443", nil).Published(t)
	tests := []struct {
		name    string
		prepare func(w *world, s *runcontract.Spec)
		outcome runcontract.Outcome
		code    runcontract.ErrorCode
		says    string
		after   time.Duration
	}{
		{
			"by a signal while there is no control plane",
			func(w *world, _ *runcontract.Spec) { w.node(0, "PENDING", "RUNNING|packages|i-0|3|") },
			runcontract.OutcomeCancelled, runcontract.CodeInterrupted,
			"interrupted (waiting for the control plane); control-plane-0: packages (0 of 3 control-plane nodes joined); what was built is in the saved state: start the run again to resume",
			time.Minute,
		},
		{
			"by a signal while nodes join",
			func(w *world, _ *runcontract.Spec) { w.publishes(published); w.node(0, "JOINED:i-0:2", "PENDING") },
			runcontract.OutcomeCancelled, runcontract.CodeInterrupted,
			"interrupted (waiting for the control-plane nodes); control-plane-1: has not reported yet (1 of 3 control-plane nodes joined); what was built",
			time.Minute,
		},
		{
			"by its deadline",
			func(_ *world, s *runcontract.Spec) { s.TimeoutSeconds = 35 },
			runcontract.OutcomeFailed, runcontract.CodeDeadlineExceeded, "stopped by its deadline of 35 s (waiting for the control plane)", 35 * time.Second,
		},
		{
			"by a signal at the end of the apply",
			func(w *world, _ *runcontract.Spec) {
				w.on["apply"] = func(ctx context.Context) error {
					<-ctx.Done()
					return nil
				}
			},
			runcontract.OutcomeCancelled, runcontract.CodeInterrupted, "interrupted (waiting for the control plane); what was built is in the saved state", time.Minute,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, s := newKubeadmWorld(3, ""), kubeadmSpec()
				tt.prepare(w, &s)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				defer time.AfterFunc(time.Minute, func() { cancel(runner.ErrInterrupted) }).Stop()
				start := time.Now()
				result := w.run(ctx, s)
				if result.Outcome != tt.outcome || result.ErrorCode != tt.code || !strings.HasPrefix(result.Message, tt.says) {
					t.Errorf("%s %s %q, want %s %s %q", result.Outcome, result.ErrorCode, result.Message, tt.outcome, tt.code, tt.says)
				}
				if took := time.Since(start); took != tt.after {
					t.Errorf("took %s, want %s", took, tt.after)
				}
				if keys := slices.Sorted(maps.Keys(w.files)); !slices.Equal(keys, []string{runcontract.KeyLogTail}) {
					t.Errorf("files %v", keys)
				}
			})
		})
	}
}
