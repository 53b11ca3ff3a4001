package machines

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/provisioner"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner"
	"github.com/kubeopera/platform/shared/runner/runlog"
	"github.com/kubeopera/platform/tfrunner/internal/adminconf/adminconftest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a fleet, the publisher and the API server of a run.
type world struct {
	conf                      string // kubeconfig; empty: there is no cluster
	connect, provision, reset map[string]error
	stop                      context.CancelCauseFunc // called in Provision
	phases                    []api.Phase             // as they were published
	nodes                     []api.Node              // as they were published last
	files                     map[string][]byte
	result                    runcontract.Result
	log                       strings.Builder
	calls                     []string
	progressWhenFinished      runcontract.Progress
	openFails                 error
}

func (w *world) each(call string, errs map[string]error, seen func(provisioner.NodeProgress), phases ...string) (*provisioner.ClusterResult, error) {
	w.calls = append(w.calls, call)
	var result provisioner.ClusterResult
	var joined []error
	for _, m := range spec().Machines {
		r := provisioner.NodeResult{Name: m.Name, Role: string(m.Role), Phase: phases[len(phases)-1]}
		for _, phase := range phases {
			if phase == provisioner.PhaseInitializing && m.Role == api.RoleWorker {
				phase = provisioner.PhaseJoining
			}
			seen(provisioner.NodeProgress{Node: m.Name, Role: string(m.Role), Phase: phase, Step: "step of " + phase})
		}
		if err := errs[m.Name]; err != nil {
			r.Step, r.Err = "join", err
			joined = append(joined, &provisioner.NodeError{Node: m.Name, Step: "join", Err: err})
			seen(provisioner.NodeProgress{Node: m.Name, Role: string(m.Role), Phase: provisioner.PhaseFailed, Message: err.Error()})
		}
		result.Nodes = append(result.Nodes, r)
	}
	return &result, errors.Join(joined...)
}

func (w *world) Plan(context.Context) (string, error) { return "node cp: a\nnode w: b\n", nil }

func (w *world) Connect(_ context.Context, seen func(provisioner.NodeProgress)) (*provisioner.ClusterResult, error) {
	return w.each("connect", w.connect, seen, provisioner.PhaseConnecting)
}

func (w *world) Provision(ctx context.Context, seen func(provisioner.NodeProgress)) (*provisioner.ClusterResult, error) {
	if w.stop != nil {
		w.stop(runner.ErrInterrupted)
		return nil, context.Cause(ctx)
	}
	return w.each("provision", w.provision, seen, provisioner.PhasePreparing, provisioner.PhaseInitializing, provisioner.PhaseConfiguring, provisioner.PhaseReady)
}

func (w *world) Reset(_ context.Context, seen func(provisioner.NodeProgress)) (*provisioner.ClusterResult, error) {
	return w.each("reset", w.reset, seen, provisioner.PhaseResetting, provisioner.PhaseReset)
}

func (w *world) Kubeconfig() redact.Secret { return redact.Secret(w.conf) }
func (w *world) Close() error              { return nil }

func (w *world) Open(context.Context, runcontract.Progress) error { return w.openFails }
func (w *world) Run(ctx context.Context)                          { <-ctx.Done() }
func (w *world) Terminate(runcontract.Result) error               { return nil }

func (w *world) Report(p runcontract.Progress) {
	if n := len(w.phases); n == 0 || w.phases[n-1] != p.Phase {
		w.phases = append(w.phases, p.Phase)
	}
	w.nodes = p.Nodes
}

func (w *world) Finish(_ context.Context, p runcontract.Progress, r runcontract.Result, files map[string][]byte) error {
	w.progressWhenFinished, w.result, w.files = p, r, files
	return nil
}

func spec() runcontract.Spec {
	machine := func(name string, role api.Role) runcontract.Machine {
		return runcontract.Machine{Name: name, Machine: api.Machine{Address: "192.0.2.1", Role: role, User: "u", HostKey: "k"}}
	}
	return runcontract.Spec{
		Version: 1, ID: "1", Kind: runcontract.KindProvision, Operation: api.OperationApply, Name: "acme", Environment: "acme",
		Topology: api.TopologyExistingMachines, KubernetesVersion: "1.36.3", PodCIDR: "192.168.0.0/16", ControlPlaneEndpoint: "api.example.com:6443",
		Machines:       []runcontract.Machine{machine("cp", api.RoleControlPlane), machine("w", api.RoleWorker)},
		TimeoutSeconds: 60, GraceSeconds: 60,
	}
}

// run carries out a run in the world.
func (w *world) run(t *testing.T, change func(*runcontract.Spec)) runcontract.Result {
	t.Helper()
	s := spec()
	if change != nil {
		change(&s)
	}
	redactor := redact.New()
	log := runlog.New(&w.log, redactor)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	if w.stop != nil {
		w.stop = cancel
	}
	result := Run(ctx, Config{
		Spec: s, Fleet: w, Publisher: w, Log: log, Hide: redactor.Add,
		Probe: func(context.Context, []byte) error { return errors.New("no route") },
	})
	log.Close()
	return result
}

func kubeconfig(t *testing.T) string {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(adminconftest.New(t, "https://10.0.0.1:6443", nil).Published(t))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestApply(t *testing.T) {
	t.Parallel()
	broken := map[string]error{"w": errors.New("script join ended with code 13")}
	for name, test := range map[string]struct {
		world  world
		change func(*runcontract.Spec)
		conf   bool // there is a cluster
		code   runcontract.ErrorCode
		says   string
		states []api.NodeState
		phases []api.Phase
		calls  []string
	}{
		"all is well": {
			conf: true, says: "2 machines are nodes", states: []api.NodeState{api.NodeJoined, api.NodeJoined},
			phases: []api.Phase{api.PhaseConnecting, api.PhasePreparingMachines, api.PhaseWaitingForControlPlane, api.PhaseWaitingForNodes, api.PhasePublishing},
			calls:  []string{"connect", "provision"},
		},
		"a machine that does not answer": {
			world: world{connect: broken}, code: runcontract.CodeMachinesUnreachable, says: "1 of 2 machines failed; nothing was changed. w: join: script join",
			states: []api.NodeState{api.NodeWorking, api.NodeFailed}, phases: []api.Phase{api.PhaseConnecting}, calls: []string{"connect"},
		},
		"a worker that fails": {
			world: world{provision: broken}, conf: true, code: runcontract.CodeMachinesFailed, says: "the cluster is there without them",
			states: []api.NodeState{api.NodeJoined, api.NodeFailed},
			phases: []api.Phase{api.PhaseConnecting, api.PhasePreparingMachines, api.PhaseWaitingForControlPlane, api.PhaseWaitingForNodes, api.PhasePublishing},
			calls:  []string{"connect", "provision"},
		},
		"a control plane that fails": {
			world: world{provision: map[string]error{"cp": errors.New("no")}}, code: runcontract.CodeMachinesFailed, says: "start the run again",
			states: []api.NodeState{api.NodeFailed, api.NodeJoined}, calls: []string{"connect", "provision"},
			phases: []api.Phase{api.PhaseConnecting, api.PhasePreparingMachines, api.PhaseWaitingForControlPlane, api.PhaseWaitingForNodes},
		},
		"no kubeconfig": {
			code: runcontract.CodeKubeconfig, says: "given none", states: []api.NodeState{api.NodeJoined, api.NodeJoined}, calls: []string{"connect", "provision"},
			phases: []api.Phase{api.PhaseConnecting, api.PhasePreparingMachines, api.PhaseWaitingForControlPlane, api.PhaseWaitingForNodes},
		},
		"interrupted": {
			world: world{stop: func(error) {}}, conf: true, code: runcontract.CodeInterrupted, says: "interrupted (prepare the machines)",
			states: []api.NodeState{api.NodeWorking, api.NodeWorking}, phases: []api.Phase{api.PhaseConnecting, api.PhasePreparingMachines}, calls: []string{"connect"},
		},
		"a plan": {
			change: func(s *runcontract.Spec) { s.Operation = api.OperationPlan }, says: "all 2 machines can be reached",
			states: []api.NodeState{api.NodeWorking, api.NodeWorking}, phases: []api.Phase{api.PhaseConnecting}, calls: []string{"connect"},
		},
		"a destroy": {
			change: func(s *runcontract.Spec) { s.Operation = api.OperationDestroy }, says: "2 machines are reset",
			states: []api.NodeState{api.NodeReset, api.NodeReset}, phases: []api.Phase{api.PhaseConnecting, api.PhaseResettingMachines}, calls: []string{"reset"},
		},
		"a destroy that fails on one": {
			world: world{reset: broken}, change: func(s *runcontract.Spec) { s.Operation = api.OperationDestroy }, code: runcontract.CodeMachinesFailed, says: "what is reset stays reset",
			states: []api.NodeState{api.NodeReset, api.NodeFailed}, phases: []api.Phase{api.PhaseConnecting, api.PhaseResettingMachines}, calls: []string{"reset"},
		},
		"a spec without machines": {
			change: func(s *runcontract.Spec) { s.Machines = nil }, code: runcontract.CodeInvalidSpec, says: "no machines", phases: []api.Phase{api.PhaseConnecting},
		},
		"unlock": {
			change: func(s *runcontract.Spec) { s.Operation = api.OperationUnlock }, code: runcontract.CodeInvalidSpec, says: "not available",
			states: []api.NodeState{api.NodeWaiting, api.NodeWaiting}, phases: []api.Phase{api.PhaseConnecting},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &test.world
			if test.conf {
				w.conf = kubeconfig(t)
			}
			result := w.run(t, test.change)
			wantOutcome := runcontract.OutcomeSucceeded
			switch test.code {
			case "":
			case runcontract.CodeInterrupted:
				wantOutcome = runcontract.OutcomeCancelled
			default:
				wantOutcome = runcontract.OutcomeFailed
			}
			if result.Outcome != wantOutcome || result.ErrorCode != test.code || !strings.Contains(result.Message, test.says) {
				t.Errorf("result %+v", result)
			}
			var states []api.NodeState
			for _, n := range w.progressWhenFinished.Nodes {
				states = append(states, n.State)
			}
			if diff := cmp.Diff(test.states, states); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.phases, w.phases); diff != "" {
				t.Errorf("phases (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.calls, w.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			published := string(w.files[runcontract.KeyKubeconfig])
			if test.conf != strings.Contains(published, "server: https://api.example.com:6443") {
				t.Errorf("published kubeconfig: %q", published)
			}
			if secret, _, _ := strings.Cut(strings.TrimSpace(after(w.conf, "client-key-data:")), "\n"); secret != "" && strings.Contains(w.log.String(), secret) {
				t.Error("the log has the cluster's key")
			}
		})
	}
}

func after(text, mark string) string {
	_, rest, _ := strings.Cut(text, mark)
	return rest
}

// TestDeadline: a run whose machines hang ends by itself.
func TestDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &hanging{world: &world{}}
		log := runlog.New(&w.log, redact.New())
		result := Run(t.Context(), Config{Spec: spec(), Fleet: w, Publisher: w, Log: log})
		log.Close()
		if result.ErrorCode != runcontract.CodeDeadlineExceeded || !strings.Contains(result.Message, "60 s") {
			t.Errorf("result %+v", result)
		}
	})
}

type hanging struct{ *world }

func (h *hanging) Connect(ctx context.Context, _ func(provisioner.NodeProgress)) (*provisioner.ClusterResult, error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(time.Hour):
		return nil, nil //nolint:nilnil // never
	}
}

func TestFilesHideTheKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := FilesIn(dir)
	if secrets, err := f.Secrets(); err != nil || len(secrets) != 0 {
		t.Errorf("without files: %v, %v", secrets, err)
	}
	write(t, f.Key, "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\nQyNTUxOQAAACBfQ\n-----END OPENSSH PRIVATE KEY-----\n")
	write(t, f.Passphrase, "horse")
	secrets, err := f.Secrets()
	if err != nil || !slices.Equal(secrets, []string{"b3BlbnNzaC1rZXktdjEAAAAA", "horse"}) {
		t.Errorf("secrets %q, %v", secrets, err)
	}
}

func write(tb testing.TB, path, text string) {
	tb.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}
