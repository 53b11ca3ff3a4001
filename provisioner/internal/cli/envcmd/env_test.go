package envcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/output"
	"github.com/kubeopera/platform/provisioner/internal/cli/session"
	"github.com/kubeopera/platform/provisioner/internal/cli/terminal"
	"github.com/kubeopera/platform/shared/api/v1alpha1"
	"github.com/kubeopera/platform/shared/golden"
	"github.com/kubeopera/platform/shared/logger"
	"github.com/kubeopera/platform/shared/provisioner"
	"github.com/kubeopera/platform/shared/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeLibrary is the library without machines: what it is told of nodes by name.
type fakeLibrary struct {
	fail       map[string]error // by node
	wait       bool             // until the context ends
	kubeconfig redact.Secret

	target   *target
	log      *logger.FunLogger
	progress func(provisioner.NodeProgress)
	asked    []string // nodes
	closed   bool
}

func (f *fakeLibrary) Cluster(t *target, log *logger.FunLogger, progress func(provisioner.NodeProgress)) cluster {
	f.target, f.log, f.progress = t, log, progress
	return f
}

func (f *fakeLibrary) Machine(_ context.Context, t *target, log *logger.FunLogger) (machine, error) {
	f.target, f.log = t, log
	if err := f.fail["connect"]; err != nil {
		return nil, err
	}
	return fakeMachine{f}, nil
}

func (f *fakeLibrary) work(ctx context.Context, nodes []provisioner.NodeInfo, during, end string) (*provisioner.ClusterResult, error) {
	r, errs := &provisioner.ClusterResult{}, []error{}
	for _, n := range nodes {
		out := provisioner.NodeResult{Name: n.Name, Role: n.Role, Phase: end, Step: end}
		f.progress(provisioner.NodeProgress{Node: n.Name, Role: n.Role, Phase: provisioner.PhaseConnecting})
		f.progress(provisioner.NodeProgress{Node: n.Name, Role: n.Role, Phase: during, Step: "a script"})
		f.log.Info("[%s] line of a script", n.Name)
		if f.wait {
			<-ctx.Done()
			out.Err = context.Cause(ctx)
		}
		if err := f.fail[n.Name]; err != nil {
			out.Err = err
		}
		if out.Err != nil {
			out.Phase, out.Step = during, "a script"
			errs = append(errs, &provisioner.NodeError{Node: n.Name, Step: out.Step, Err: out.Err})
			f.progress(provisioner.NodeProgress{Node: n.Name, Role: n.Role, Phase: provisioner.PhaseFailed, Step: out.Step, Message: out.Err.Error()})
		} else {
			f.progress(provisioner.NodeProgress{Node: n.Name, Role: n.Role, Phase: end})
		}
		r.Nodes = append(r.Nodes, out)
	}
	return r, errors.Join(errs...)
}

func (f *fakeLibrary) ProvisionClusterContext(ctx context.Context, nodes []provisioner.NodeInfo) (*provisioner.ClusterResult, error) {
	return f.work(ctx, nodes, provisioner.PhaseJoining, provisioner.PhaseReady)
}

func (f *fakeLibrary) ResetCluster(ctx context.Context, nodes []provisioner.NodeInfo) (*provisioner.ClusterResult, error) {
	return f.work(ctx, nodes, provisioner.PhaseResetting, provisioner.PhaseReset)
}

func (f *fakeLibrary) GetClusterHealthContext(_ context.Context, n provisioner.NodeInfo) (*provisioner.ClusterHealth, error) {
	f.asked = append(f.asked, n.Name)
	if err := f.fail[n.Name]; err != nil {
		return &provisioner.ClusterHealth{APIServerStatus: provisioner.APIServerUnreachable, Message: err.Error()}, err
	}
	h := &provisioner.ClusterHealth{
		Healthy: len(f.fail) == 0, APIServerStatus: provisioner.APIServerRunning, TotalNodes: 1, ReadyNodes: 1, ControlPlanes: 1, Message: "all 1 nodes are ready",
		Nodes: []provisioner.NodeHealth{{Name: "control-plane-0", Role: "control-plane", Ready: true, Status: "Ready", Version: "v1.36.3", InternalIP: "192.0.2.1"}},
	}
	if !h.Healthy {
		h.Message = "1 of 1 workers are missing"
	}
	return h, nil
}

func (f *fakeLibrary) Kubeconfig() redact.Secret { return f.kubeconfig }

type fakeMachine struct{ *fakeLibrary }

func (m fakeMachine) RunContext(context.Context, v1alpha1.Environment) (*v1alpha1.ComponentsStatus, error) {
	m.log.Info("line of a script")
	return &v1alpha1.ComponentsStatus{
		Runtime: &v1alpha1.ComponentProvenance{Source: "package", Version: "2.2.1"}, Kubernetes: &v1alpha1.ComponentProvenance{Source: "release", Version: "v1.36.3"},
	}, m.fail["run"]
}

func (m fakeMachine) Kubeconfig(context.Context, v1alpha1.Environment) (redact.Secret, error) {
	return m.kubeconfig, m.fail["kubeconfig"]
}

func (m fakeMachine) Close() error { m.closed = true; return nil }

const (
	clusterFile = `apiVersion: holodeck.nvidia.com/v1alpha1
kind: Environment
metadata: {name: acme}
spec:
  auth: {username: ops, privateKey: id}
  containerRuntime: {install: true, name: containerd}
  cluster: {controlPlane: {count: 1}, workers: {count: 1}}
`
	machinesFile = `- {address: 192.0.2.1, role: control-plane}
- {address: 192.0.2.2, role: worker, user: root, port: 2222}
`
	singleFile = `apiVersion: holodeck.nvidia.com/v1alpha1
kind: Environment
metadata: {name: one}
spec:
  auth: {username: ops, privateKey: id}
  instance: {hostUrl: "192.0.2.9:2222"}
  containerRuntime: {install: true, name: containerd}
  kubernetes: {install: true}
`
)

// outcome is what a command did.
type outcome struct {
	code           exit.Code
	stdout, stderr string
	dir            string
}

// call runs a command in a folder of its own that has the files above.
func call(ctx context.Context, tb testing.TB, f *fakeLibrary, env map[string]string, args ...string) outcome {
	tb.Helper()
	o := outcome{dir: tb.TempDir()}
	for name, text := range map[string]string{"cluster.yaml": clusterFile, "machines.yaml": machinesFile, "single.yaml": singleFile} {
		if err := os.WriteFile(filepath.Join(o.dir, name), []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	var out, diagnostics bytes.Buffer
	s := &session.Session{Terminal: terminal.Terminal{In: strings.NewReader(env["stdin"]), Out: &out, Err: &diagnostics, Getenv: func(name string) string { return env[name] }}}
	c := newCommands(s, f)
	root := &cobra.Command{Use: "env", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(c.plan(), c.apply(), c.health(), c.reset())
	root.SetArgs(inDir(o.dir, args))
	err := root.ExecuteContext(ctx)
	if o.code = exit.Of(err); err != nil {
		exit.Write(&diagnostics, err)
	}
	o.stdout, o.stderr = out.String(), diagnostics.String()
	if strings.Contains(o.stdout+o.stderr, "canary") {
		tb.Errorf("a secret was shown:\n%s%s", o.stdout, o.stderr)
	}
	return o
}

// inDir makes paths of the names of files.
func inDir(dir string, args []string) []string {
	var out []string
	for _, a := range args {
		if strings.HasSuffix(a, ".yaml") || strings.HasSuffix(a, ".config") {
			a = filepath.Join(dir, a)
		}
		out = append(out, a)
	}
	return out
}

func (o outcome) text() []byte {
	text := fmt.Sprintf("exit code %d\n-- stdout --\n%s-- stderr --\n%s", o.code, o.stdout, o.stderr)
	return []byte(strings.ReplaceAll(text, o.dir, "DIR"))
}

// TestCommands has what people see in golden files.
func TestCommands(t *testing.T) {
	t.Parallel()
	broken := &provisioner.StepError{Step: "a script", Code: 13, Class: "kubernetes", Tail: []string{"1", "2", "3", "4", "5", "6 \x1b[2J"}, Hint: "look"}
	onCluster := []string{"-f", "cluster.yaml", "--machines", "machines.yaml"}
	tests := []struct {
		name string
		fake fakeLibrary
		args []string
	}{
		{"apply", fakeLibrary{}, append([]string{"apply"}, onCluster...)},
		{"apply-json", fakeLibrary{}, append([]string{"apply", "-q", "-o", "json"}, onCluster...)},
		{"apply-verbose", fakeLibrary{}, append([]string{"apply", "-v", "-o", "name"}, onCluster...)},
		{"apply-fails", fakeLibrary{fail: map[string]error{"worker-0": broken}}, append([]string{"apply"}, onCluster...)},
		{"apply-fails-yaml", fakeLibrary{fail: map[string]error{"worker-0": broken}}, append([]string{"apply", "-q", "-o", "yaml"}, onCluster...)},
		{"apply-single", fakeLibrary{}, []string{"apply", "-f", "single.yaml"}},
		{"apply-single-fails", fakeLibrary{fail: map[string]error{"run": broken}}, []string{"apply", "-f", "single.yaml"}},
		{"apply-single-unreachable", fakeLibrary{fail: map[string]error{"connect": &provisioner.UnreachableError{Target: "192.0.2.9:2222", Attempts: 3, Err: errors.New("refused")}}}, []string{"apply", "-f", "single.yaml"}},
		{"reset", fakeLibrary{}, append([]string{"reset", "--yes"}, onCluster...)},
		{"health", fakeLibrary{}, append([]string{"health"}, onCluster...)},
		{"health-bad", fakeLibrary{fail: map[string]error{"another": broken}}, append([]string{"health", "-o", "json"}, onCluster...)},
		{"health-unreachable", fakeLibrary{fail: map[string]error{"control-plane-0": errors.New("nobody answers")}}, append([]string{"health"}, onCluster...)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			golden.Equal(t, tt.name+".txt", call(t.Context(), t, &tt.fake, nil, tt.args...).text())
		})
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	o := call(t.Context(), t, &fakeLibrary{}, nil, "plan", "-f", "cluster.yaml", "--machines", "machines.yaml")
	for _, want := range []string{"container runtime", "control-plane-0, worker-0", "initializing"} {
		if o.code != exit.OK || !strings.Contains(o.stdout, want) {
			t.Errorf("no %q:\n%s", want, o.text())
		}
	}
	// Machines may be left out; what deserves a look is said.
	text := strings.Replace(clusterFile, "install: true, name: containerd", "", 1)
	if o := call(t.Context(), t, &fakeLibrary{}, map[string]string{"stdin": text}, "plan", "-f", "-"); o.code != exit.OK || !strings.Contains(o.stderr, "warning: spec.containerRuntime: ") || !strings.Contains(o.stdout, "worker-0") {
		t.Errorf("%s", o.text())
	}
}

func TestPlanResult(t *testing.T) {
	t.Parallel()
	r := planResult(provisioner.Plan{
		Stages: []provisioner.Stage{
			{Phase: provisioner.PhasePreparing, Nodes: []string{"a", "b", "c", "d", "e"}, Parallel: 5, Scripts: []provisioner.PlannedScript{
				{Name: "kernel", Timeout: 30 * time.Minute, Digest: "0123456789abcdef", Reboots: true}, {Name: "container runtime"},
			}},
			{Phase: provisioner.PhaseInitializing, Nodes: []string{"a"}, Parallel: 1, Scripts: []provisioner.PlannedScript{{Name: "kubernetes init"}}},
		},
		Warnings: []string{"look"},
	})
	var out bytes.Buffer
	for _, format := range []output.Format{output.Table, output.YAML} {
		if err := output.Print(&out, format, r); err != nil {
			t.Fatal(err)
		}
	}
	golden.Equal(t, "plan.txt", out.Bytes())
}

func TestWhatTheLibraryIsGiven(t *testing.T) {
	t.Parallel()
	key := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJZtR1q3Zc5JZtR1q3Zc5JZtR1q3Zc5JZtR1q3Zc5"
	onCluster := []string{"apply", "-q", "-f", "cluster.yaml", "--machines", "machines.yaml"}
	type want struct {
		Nodes      []provisioner.NodeInfo
		User, Key  string
		Connection provisioner.Connection
		Host       string
	}
	tests := []struct {
		name string
		args []string
		env  map[string]string
		want want
	}{
		{"a cluster", onCluster, nil, want{
			Nodes: []provisioner.NodeInfo{{Name: "control-plane-0", Role: "control-plane", PublicIP: "192.0.2.1"}, {Name: "worker-0", Role: "worker", PublicIP: "192.0.2.2", SSHUsername: "root", Port: 2222}},
			User:  "ops", Key: "id",
		}},
		{"other credentials", append(onCluster, "--private-key", "mine", "--passphrase-file", "-", "--certificate", "c", "--known-hosts", "k"), map[string]string{"stdin": "canary pass\n", passphraseVariable: "another"}, want{
			Nodes: []provisioner.NodeInfo{{Name: "control-plane-0", Role: "control-plane", PublicIP: "192.0.2.1"}, {Name: "worker-0", Role: "worker", PublicIP: "192.0.2.2", SSHUsername: "root", Port: 2222}},
			User:  "ops", Key: "mine", Connection: provisioner.Connection{Passphrase: "canary pass", CertificateFile: "c", KnownHostsFile: "k"},
		}},
		{"one machine", []string{"apply", "-f", "single.yaml"}, map[string]string{passphraseVariable: "canary"}, want{
			Nodes: []provisioner.NodeInfo{{Name: "one", PublicIP: "192.0.2.9", Port: 2222}},
			User:  "ops", Key: "id", Host: "192.0.2.9:2222", Connection: provisioner.Connection{Passphrase: "canary"},
		}},
		{"one machine of a file", []string{"apply", "-f", "single.yaml", "--machines", "-"}, map[string]string{"stdin": "[{address: 192.0.2.7, name: seven, port: 23, user: me, host_key: " + key + "}]"}, want{
			Nodes: []provisioner.NodeInfo{{Name: "seven", PublicIP: "192.0.2.7", Port: 23, SSHUsername: "me", HostKeys: []string{key}}},
			User:  "ops", Key: "id", Host: "192.0.2.7:23",
		}},
		{"through Systems Manager", []string{"apply", "-f", "single.yaml", "--machines", "-"}, map[string]string{"stdin": "[{transport: ssm, instance_id: i-0123456789abcdef0, port: 23}]"}, want{
			Nodes: []provisioner.NodeInfo{{Name: "machine-0", InstanceID: "i-0123456789abcdef0", Port: 23, Transport: &provisioner.SSMTransport{InstanceID: "i-0123456789abcdef0", Port: 23}}},
			User:  "ops", Key: "id", Host: "i-0123456789abcdef0",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := &fakeLibrary{}
			if o := call(t.Context(), t, f, tt.env, tt.args...); o.code != exit.OK {
				t.Fatalf("%s", o.text())
			}
			got := want{f.target.nodes, f.target.user, f.target.keyPath, f.target.connection, f.target.env.Spec.HostUrl}
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(provisioner.SSMTransport{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	machines := func(text string) map[string]string { return map[string]string{"stdin": text} }
	fromStdin := []string{"apply", "-f", "cluster.yaml", "--machines", "-"}
	tests := []struct {
		name string
		args []string
		env  map[string]string
		want string
	}{
		{"no environment", []string{"apply"}, nil, "use -f FILE"},
		{"no machines", []string{"apply", "-f", "cluster.yaml"}, nil, "say by --machines FILE"},
		{"another number of machines", fromStdin, machines("[{address: a, role: control-plane}]"), "has 0 machines of the role worker; spec.cluster.workers.count is 1"},
		{"a machine without an address", fromStdin, machines("[{role: worker}]"), "machine 0: address is required"},
		{"one through Systems Manager without an id", fromStdin, machines("[{role: worker, address: a, transport: ssm}]"), "instance_id is required"},
		{"one through Systems Manager that the others cannot find", fromStdin, machines("[{role: worker, instance_id: i-1, transport: ssm}]"), "address is required: the one at which"},
		{"another transport", fromStdin, machines("[{role: worker, address: a, transport: telnet}]"), "transport must be direct or ssm"},
		{"an unknown field", fromStdin, machines("[{role: worker, colour: canary}]"), `unknown field "[0].colour"`},
		{"the same address twice", fromStdin, machines("[{address: a, role: control-plane}, {address: a, role: worker}]"), "as node control-plane-0 has"},
		{"several machines without a cluster", []string{"apply", "-f", "single.yaml", "--machines", "machines.yaml"}, nil, "has 2 machines; without spec.cluster it is one"},
		{"a wrong environment", []string{"plan", "-f", "-"}, machines("apiVersion: holodeck.nvidia.com/v1alpha1\nkind: Environment\nspec: {knd: canary}"), "spec.knd"},
		{"a reset of one machine", []string{"reset", "-f", "single.yaml", "-y"}, nil, "only a cluster can be reset"},
		{"a reset that nobody confirms", []string{"reset", "-f", "single.yaml"}, nil, "needs --yes"},
		{"a context without a file", []string{"apply", "-f", "single.yaml", "--context-name", "x"}, nil, "need --kubeconfig"},
		{"both loud and quiet", []string{"apply", "-f", "single.yaml", "-q", "-v"}, nil, "exclude each other"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := &fakeLibrary{}
			o := call(t.Context(), t, f, tt.env, tt.args...)
			if o.code != exit.Usage || !strings.Contains(o.stderr, tt.want) || f.target != nil {
				t.Errorf("want %q:\n%s", tt.want, o.text())
			}
		})
	}
}

func TestAnAgentIsEnough(t *testing.T) {
	t.Parallel()
	text := strings.Replace(singleFile, ", privateKey: id", "", 1)
	f := &fakeLibrary{}
	if o := call(t.Context(), t, f, map[string]string{"stdin": text}, "apply", "-f", "-"); o.code != exit.Usage || !strings.Contains(o.stderr, "there is no SSH key") {
		t.Errorf("without: %s", o.text())
	}
	if o := call(t.Context(), t, f, map[string]string{"stdin": text, "SSH_AUTH_SOCK": "/x"}, "apply", "-f", "-"); o.code != exit.OK || !f.target.connection.UseAgent {
		t.Errorf("with one: %s", o.text())
	}
}

func TestEnding(t *testing.T) {
	t.Parallel()
	onCluster := []string{"apply", "-q", "-f", "cluster.yaml", "--machines", "machines.yaml"}
	interrupted, cancel := context.WithCancel(t.Context())
	f := &fakeLibrary{wait: true}
	f.fail = map[string]error{}
	cancelled := make(chan outcome)
	go func() { cancelled <- call(interrupted, t, f, nil, onCluster...) }()
	cancel()
	if o := <-cancelled; o.code != exit.Interrupted {
		t.Errorf("an interrupt: %s", o.text())
	}
	o := call(t.Context(), t, &fakeLibrary{wait: true}, nil, append(onCluster, "--timeout", "50ms")...)
	if o.code != exit.NotFinished || !strings.Contains(o.stderr, "not done within 50ms") || !strings.Contains(o.stdout, "worker-0") {
		t.Errorf("a timeout: %s", o.text())
	}
}

func TestKubeconfig(t *testing.T) {
	t.Parallel()
	onCluster := []string{"apply", "-q", "-f", "cluster.yaml", "--machines", "machines.yaml", "--kubeconfig", "acme.config"}
	check := func(o outcome, name string) {
		t.Helper()
		path := filepath.Join(o.dir, "acme.config")
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%v, %v\n%s", info, err, o.text())
		}
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(data), "current-context: "+name) || !strings.Contains(string(data), "canary-token") {
			t.Errorf("%v\n%s", err, data)
		}
		if !strings.Contains(o.stderr, "kubectl --kubeconfig "+path+" --context "+name) {
			t.Errorf("%s", o.text())
		}
	}
	config := redact.Secret(kubeconfig(t))
	check(call(t.Context(), t, &fakeLibrary{kubeconfig: config}, nil, onCluster...), "acme")
	check(call(t.Context(), t, &fakeLibrary{kubeconfig: config}, nil, append(onCluster, "--context-name", "mine")...), "mine")
	check(call(t.Context(), t, &fakeLibrary{kubeconfig: config}, nil, "apply", "-f", "single.yaml", "--kubeconfig", "acme.config"), "one")

	// A cluster that lacks a node has one, too.
	o := call(t.Context(), t, &fakeLibrary{kubeconfig: config, fail: map[string]error{"worker-0": errors.New("no")}}, nil, onCluster...)
	if check(o, "acme"); o.code != exit.RunFailed {
		t.Errorf("%s", o.text())
	}
}

// TestHealthAsksUntilOneAnswers: workers are not asked.
func TestHealthAsksUntilOneAnswers(t *testing.T) {
	t.Parallel()
	text := strings.Replace(clusterFile, "controlPlane: {count: 1}", "controlPlane: {count: 3}, highAvailability: {enabled: true}, controlPlaneEndpoint: api.example.com", 1)
	machines := "[{address: a, role: control-plane}, {address: w, role: worker}, {address: b, role: control-plane}, {address: c, role: control-plane}]"
	f := &fakeLibrary{fail: map[string]error{"control-plane-0": errors.New("no")}}
	path := filepath.Join(t.TempDir(), "ha")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	call(t.Context(), t, f, map[string]string{"stdin": machines}, "health", "-f", path, "--machines", "-")
	if diff := cmp.Diff([]string{"control-plane-0", "control-plane-1"}, f.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}
