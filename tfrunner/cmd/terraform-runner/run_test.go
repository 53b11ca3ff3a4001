package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

const leaky = `
resource "terraform_data" "first" {
  input = var.credential_principal_arn
}
resource "terraform_data" "second" {
  input = terraform_data.first.id
  provisioner "local-exec" {
    command = "grep secret_access_key $AWS_SHARED_CREDENTIALS_FILE; grep secret $AWS_SHARED_CREDENTIALS_FILE | cut -d' ' -f3 | tr -d '\\n' | base64 -w0; echo \"env=[$LEAK]\""
  }
}
`

func TestRun_apply_ends_with_a_kubeconfig(t *testing.T) {
	t.Parallel()
	f := setup(t, leaky+outputs())
	c := f.start(t)
	if code := c.wait(t); code != runcontract.ExitOK {
		t.Fatalf("exit code %d", code)
	}
	result := f.result(t)
	if result.Outcome != runcontract.OutcomeSucceeded || result.Phase != api.PhaseDone {
		t.Errorf("result %+v", result)
	}
	if diff := cmp.Diff(&api.Changes{Add: 2}, result.Changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	for _, phase := range []api.Phase{api.PhasePreparingState, api.PhaseInit, api.PhasePlan, api.PhaseApply, api.PhasePublishing} {
		if _, ok := result.PhaseSeconds[phase]; !ok {
			t.Errorf("no duration of phase %s: %v", phase, result.PhaseSeconds)
		}
	}
	progress := f.cluster.Progress()
	last := progress[len(progress)-1]
	if last.Phase != api.PhaseDone || last.Done != 2 || last.Total != 2 {
		t.Errorf("last progress %+v", last)
	}

	cfg, err := clientcmd.Load(f.cluster.Data(runcontract.KeyKubeconfig))
	if err != nil {
		t.Fatalf("kubeconfig: %v", err)
	}
	env := map[string]string{}
	for _, e := range cfg.AuthInfos[environment].Exec.Env {
		env[e.Name] = e.Value
	}
	if env["AWS_SECRET_ACCESS_KEY"] != canary {
		t.Errorf("the kubeconfig's exec environment is %v", env)
	}

	state, _ := f.aws.Object(bucketName, stateKey)
	if !strings.Contains(string(state), "arn:aws:iam::123456789012:user/kubeopera") {
		t.Errorf("the state does not hold the principal that the runner passes:\n%s", state)
	}
	if _, locked := f.aws.Object(bucketName, lockKey); locked {
		t.Error("the state is still locked")
	}
	log := c.output.String()
	for _, want := range []string{"[1/2] terraform_data.first", "[2/2] terraform_data.second", "env=[]", "[redacted]"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
	f.noSecret(t, c)
	f.onlyWrites(t)
	f.modes(t)
}

// onlyWrites checks that the runner used no right that it does not have.
func (f *fixture) onlyWrites(t *testing.T) {
	t.Helper()
	const path = "/api/v1/namespaces/kubeopera-provisioning/secrets"
	for i, r := range f.cluster.Requests() {
		want := http.MethodPut + " " + path + "/" + runcontract.OutputsSecretName(f.spec.Kind, f.spec.ID)
		if i == 0 {
			want = http.MethodPost + " " + path
		}
		if r != want {
			t.Errorf("request %d: %s, want %s", i, r, want)
		}
	}
	wantLabels := map[string]string{
		runcontract.LabelManagedBy: "cluster-provisioner", runcontract.LabelRunID: f.spec.ID, runcontract.LabelKind: "provision",
		runcontract.LabelEnvironment: environment, runcontract.LabelComponent: runcontract.ComponentOutputs,
	}
	if diff := cmp.Diff(wantLabels, f.cluster.Secret().Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if len(f.cluster.Secret().OwnerReferences) > 0 {
		t.Errorf("the Secret has an owner: %v", f.cluster.Secret().OwnerReferences)
	}
}

// modes checks that nobody else can read the plan, which may hold secrets.
func (f *fixture) modes(t *testing.T) {
	t.Helper()
	info, err := os.Stat(filepath.Join(f.dir, "modules-repository", "run", environment, "run.tfplan"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 || info.Size() == 0 {
		t.Errorf("the plan file has mode %v and %d bytes", info.Mode(), info.Size())
	}
}

func TestRun_plan_changes_nothing(t *testing.T) {
	t.Parallel()
	f := setup(t, leaky+outputs())
	f.spec.Operation = api.OperationPlan
	c := f.start(t)
	if code := c.wait(t); code != runcontract.ExitOK {
		t.Fatalf("exit code %d", code)
	}
	result := f.result(t)
	if diff := cmp.Diff(&api.Changes{Add: 2}, result.Changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if _, ok := f.aws.Object(bucketName, stateKey); ok {
		t.Error("a plan wrote a state")
	}
	if f.cluster.Data(runcontract.KeyKubeconfig) != nil {
		t.Error("a plan published a kubeconfig")
	}
}

func TestRun_failing_apply_reports_Terraforms_own_diagnostic(t *testing.T) {
	t.Parallel()
	f := setup(t, `
resource "terraform_data" "broken" {
  provisioner "local-exec" {
    command = "echo \"quota reached for $(grep secret $AWS_SHARED_CREDENTIALS_FILE)\"; exit 3"
  }
}
`+outputs())
	c := f.start(t)
	if code := c.wait(t); code != runcontract.ExitTerraformApply {
		t.Fatalf("exit code %d", code)
	}
	result := f.result(t)
	if result.Outcome != runcontract.OutcomeFailed || result.ErrorCode != runcontract.CodeTerraformApply || result.Phase != api.PhaseApply {
		t.Errorf("result %+v", result)
	}
	for _, want := range []string{"local-exec provisioner error (terraform_data.broken)", "exit status 3"} {
		if !strings.Contains(result.Message, want) {
			t.Errorf("the message lacks %q: %s", want, result.Message)
		}
	}
	if d := result.Diagnostic; d == nil || d.Address != "terraform_data.broken" || !strings.Contains(d.Detail, "quota reached for aws_secret_access_key = [redacted]") {
		t.Errorf("diagnostic %+v", d)
	}
	if f.cluster.Data(runcontract.KeyKubeconfig) != nil {
		t.Error("a failed run published a kubeconfig")
	}
	f.noSecret(t, c)
}

// slow waits in the middle of an apply, after one resource is done.
const slow = `
resource "terraform_data" "first" {}
resource "terraform_data" "slow" {
  input = terraform_data.first.id
  provisioner "local-exec" {
    command = "echo $PPID > ../../../terraform-pid; exec sleep 300"
  }
}
`

// terraformPID waits until the slow command runs and reads Terraform's process id.
func (f *fixture) terraformPID(t *testing.T) int {
	t.Helper()
	var pid int
	eventually(t, "the slow command runs", func() bool {
		data, err := os.ReadFile(filepath.Join(f.dir, "terraform-pid"))
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
		return err == nil
	})
	return pid
}

func TestRun_interrupted_apply_keeps_its_state_and_frees_the_lock(t *testing.T) {
	t.Parallel()
	f := setup(t, slow+outputs())
	c := f.start(t)
	f.terraformPID(t)
	// The second one must not reach Terraform, which would give up its state.
	c.terminate(t)
	c.terminate(t)
	if code := c.wait(t); code != runcontract.ExitInterrupted {
		t.Fatalf("exit code %d", code)
	}
	result := f.result(t)
	if result.Outcome != runcontract.OutcomeCancelled || result.ErrorCode != runcontract.CodeInterrupted {
		t.Errorf("result %+v", result)
	}
	if want := "interrupted during the apply after 1 of 2 changes; the state is saved and its lock released"; result.Message != want {
		t.Errorf("message %q, want %q", result.Message, want)
	}
	f.stateHas(t, "first", "slow")
	if _, locked := f.aws.Object(bucketName, lockKey); locked {
		t.Error("the state is still locked")
	}
}

func (f *fixture) stateHas(t *testing.T, names ...string) {
	t.Helper()
	data, ok := f.aws.Object(bucketName, stateKey)
	if !ok {
		t.Fatal("there is no state")
	}
	var state struct {
		Resources []struct{ Name string }
	}
	if err := json.Unmarshal(data, &state); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range state.Resources {
		got = append(got, r.Name)
	}
	if diff := cmp.Diff(names, got); diff != "" {
		t.Errorf("resources in the state (-want +got):\n%s", diff)
	}
}

func TestRun_deadline_interrupts(t *testing.T) {
	t.Parallel()
	f := setup(t, slow+outputs())
	f.spec.TimeoutSeconds = 8
	c := f.start(t)
	if code := c.wait(t); code != runcontract.ExitDeadlineExceeded {
		t.Fatalf("exit code %d", code)
	}
	result := f.result(t)
	if result.Outcome != runcontract.OutcomeFailed || !strings.HasPrefix(result.Message, "stopped by its deadline of 8 s") {
		t.Errorf("result %+v", result)
	}
	if _, locked := f.aws.Object(bucketName, lockKey); locked {
		t.Error("the state is still locked")
	}
}

func TestRun_killed_runner_takes_Terraform_with_it(t *testing.T) {
	t.Parallel()
	f := setup(t, slow+outputs())
	c := f.start(t)
	terraform := f.terraformPID(t)
	runner := parent(t, terraform)
	if runner == c.cmd.Process.Pid || runner <= 1 {
		t.Fatalf("Terraform's parent is process %d", runner)
	}
	if err := syscall.Kill(runner, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := c.wait(t); code != 128+runcontract.ExitCode(syscall.SIGKILL) {
		t.Errorf("exit code %d", code)
	}
	eventually(t, "Terraform is gone", func() bool { return syscall.Kill(terraform, 0) != nil })
	var last runcontract.Result
	if err := json.Unmarshal(f.terminationMessage(t), &last); err != nil {
		t.Fatal(err)
	}
	if last.Phase != api.PhaseApply || last.Outcome != "" {
		t.Errorf("termination message %+v", last)
	}
}

func parent(t *testing.T, pid int) int {
	t.Helper()
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^PPid:\s*(\d+)$`).FindSubmatch(data)
	if found == nil {
		t.Fatalf("no parent in:\n%s", data)
	}
	n, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRun_lock_of_somebody_else_is_named(t *testing.T) {
	t.Parallel()
	f := setup(t, leaky+outputs())
	f.aws.AddBucket(bucketName, "us-west-2", "123456789012", nil)
	f.aws.PutObject(bucketName, lockKey, []byte(`{"ID":"71a9d75f-f093-8dfb-eff5-d21ebd1d855d","Operation":"OperationTypeApply","Info":"","Who":"nonroot@provision-other","Version":"1.11.4","Created":"2026-11-30T09:04:59.772497702Z","Path":"`+bucketName+`/`+stateKey+`"}`))
	c := f.start(t)
	if code := c.wait(t); code != runcontract.ExitStateLocked {
		t.Fatalf("exit code %d", code)
	}
	result := f.result(t)
	if result.Lock == nil || result.Lock.ID != "71a9d75f-f093-8dfb-eff5-d21ebd1d855d" || result.Lock.Who != "nonroot@provision-other" || result.Lock.Created.IsZero() {
		t.Errorf("lock %+v", result.Lock)
	}
	if _, locked := f.aws.Object(bucketName, lockKey); !locked {
		t.Error("somebody else's lock is gone")
	}
	if strings.Contains(c.output.String(), "initialising Terraform") {
		t.Error("Terraform was started")
	}
	// The bucket is in another region than the run.
	if !strings.Contains(c.output.String(), "in us-west-2: found") {
		t.Errorf("the log does not name the bucket's region:\n%s", c.output)
	}
}

func TestRun_refuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(f *fixture)
		want   runcontract.ExitCode
		says   string
	}{
		{
			name:   "an expired credential",
			change: func(f *fixture) { f.aws.SetFault(onlySTS("ExpiredToken")) },
			want:   runcontract.ExitCredentialRefused,
			says:   "the AWS credential is expired",
		},
		{
			name:   "a credential that AWS does not know",
			change: func(f *fixture) { f.aws.SetFault(onlySTS("InvalidClientTokenId")) },
			want:   runcontract.ExitCredentialRefused,
			says:   "the AWS credential is invalid",
		},
		{
			name:   "a credential without rights",
			change: func(f *fixture) { f.aws.SetFault(onlySTS("AccessDenied")) },
			want:   runcontract.ExitCredentialRefused,
			says:   "not allowed",
		},
		{
			name:   "a bucket of another account",
			change: func(f *fixture) { f.aws.AddBucket(bucketName, "eu-west-1", "999999999999", nil) },
			want:   runcontract.ExitStateBucket,
			says:   "another account",
		},
		{
			name:   "a topology of a later version",
			change: func(f *fixture) { f.spec.Topology = "talos" },
			want:   runcontract.ExitInvalidSpec,
			says:   `topology "talos" is not available`,
		},
		{
			name:   "existing machines of which there are none",
			change: func(f *fixture) { f.spec.Topology = api.TopologyExistingMachines },
			want:   runcontract.ExitInvalidSpec,
			says:   "there are no machines",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, leaky+outputs())
			tt.change(f)
			c := f.start(t)
			if code := c.wait(t); code != tt.want {
				t.Fatalf("exit code %d, want %d", code, tt.want)
			}
			if result := f.result(t); !strings.Contains(result.Message, tt.says) {
				t.Errorf("message %q lacks %q", result.Message, tt.says)
			}
			f.noSecret(t, c)
		})
	}
}

func onlySTS(code string) func(operation, bucket string) (string, int) {
	return func(operation, _ string) (string, int) {
		if operation == "GetCallerIdentity" {
			return code, http.StatusForbidden
		}
		return "", 0
	}
}

func TestRun_without_right_to_publish_builds_nothing(t *testing.T) {
	t.Parallel()
	f := setup(t, leaky+outputs())
	f.cluster.Refuse()
	c := f.start(t)
	if code := c.wait(t); code != runcontract.ExitPublish {
		t.Fatalf("exit code %d", code)
	}
	if ops := f.aws.Operations(); len(ops) > 0 {
		t.Errorf("AWS was asked: %v", ops)
	}
	if !strings.Contains(string(f.terminationMessage(t)), `"error_code":"publish_failed"`) {
		t.Errorf("termination message %s", f.terminationMessage(t))
	}
}
