package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner/awsfake"
	"github.com/kubeopera/platform/shared/runner/runnertest"
	"github.com/kubeopera/platform/shared/skip"
	"github.com/kubeopera/platform/sim/pki"
)

// actAsRunner makes the test binary behave as terraform-runner: the tests run
// it as a process of its own.
const actAsRunner = "TERRAFORM_RUNNER_TEST_ACT"

func TestMain(m *testing.M) {
	// git starts it with an environment of its own.
	asHelper := len(os.Args) > 1 && os.Args[1] == gitHelper
	if _, ok := os.LookupEnv(actAsRunner); ok || asHelper {
		if pod, ok := os.LookupEnv(runcontract.EnvPodName); ok { // in a UTS namespace of its own
			if err := unix.Sethostname([]byte(pod)); err != nil {
				panic(err)
			}
		}
		main()
	}
	os.Exit(m.Run())
}

const (
	canary      = "canarySecretAccessKey/0123456789+abcdef" // the credential's secret
	environment = "acme"
	bucketName  = "kubeopera-terraform-state-acme"
	stateKey    = "terraform.tfstate"
	lockKey     = "terraform.tfstate.tflock"
)

// fixture is one run: a folder as the init container leaves it, a fake AWS and
// a fake API server.
type fixture struct {
	aws     *awsfake.Server
	cluster *runnertest.Outputs
	dir     string
	spec    runcontract.Spec
	extra   []string // environment variables
	args    []string
	runs    int // so far
}

// backend is what every environment of the tests begins with.
const backend = `
terraform {
  backend "s3" {
    use_lockfile = true
    encrypt      = true
  }
}
`

// principal is what every EKS environment has besides.
const principal = `
variable "credential_principal_arn" { type = string }
`

// outputs are the outputs of an EKS environment.
func outputs() string {
	authority, err := pki.New("cluster")
	if err != nil {
		panic(err) // no randomness
	}
	ca := base64.StdEncoding.EncodeToString(authority.PEM())
	return fmt.Sprintf(`
output "cluster_name" { value = "acme" }
output "cluster_endpoint" { value = "https://0123.gr7.eu-west-1.eks.amazonaws.com" }
output "cluster_ca_certificate" { value = %q }
output "other" {
  value     = "sensitive-output-value"
  sensitive = true
}
`, ca)
}

// setup prepares the run of an EKS environment.
func setup(t *testing.T, hcl string) *fixture {
	t.Helper()
	return prepare(t, principal+hcl)
}

func prepare(t *testing.T, hcl string) *fixture {
	t.Helper()
	if _, err := exec.LookPath("terraform"); err != nil {
		skip.Missing(t, skip.Terraform, err.Error())
	}
	f := &fixture{aws: awsfake.New(t), cluster: runnertest.NewOutputs(t), dir: t.TempDir()}
	f.spec = runcontract.Spec{
		Version: runcontract.SpecVersion, ID: "0196f3a0-0000-7000-8000-000000000001", Kind: runcontract.KindProvision,
		Operation: api.OperationApply, Name: environment, Environment: environment,
		Topology: api.TopologyEKS, Region: "eu-west-1",
		State: runcontract.State{
			Bucket: bucketName, Key: stateKey,
			BackendConfig: map[string]string{"use_path_style": "true"},
		},
		Tags:           map[string]string{"environment": environment},
		TimeoutSeconds: 120, GraceSeconds: 40,
		Env: map[string]string{"AWS_ENDPOINT_URL": f.aws.URL},
	}
	f.write(t, "credential/config", "[profile kubeopera]\nregion = eu-west-1\n")
	f.write(t, "credential/credentials", "[kubeopera]\naws_access_key_id = AKIAEXAMPLEEXAMPLE00\naws_secret_access_key = "+canary+"\n")
	f.write(t, "terraform.rc", "")
	f.mount(t, map[string]string{"main.tf": backend + hcl})
	return f
}

// mount lays out files as a ConfigMap volume does: links into a folder of the day.
func (f *fixture) mount(t *testing.T, files map[string]string) {
	t.Helper()
	base := filepath.Join("modules-repository", "environments", environment)
	for name, content := range files {
		f.write(t, filepath.Join(base, "..2026_11_30", name), content)
		f.link(t, filepath.Join("..data", name), filepath.Join(base, name))
	}
	if _, err := os.Lstat(filepath.Join(f.dir, base, "..data")); err != nil {
		f.link(t, "..2026_11_30", filepath.Join(base, "..data"))
	}
}

func (f *fixture) link(t *testing.T, target, name string) {
	t.Helper()
	err := os.Symlink(target, filepath.Join(f.dir, name))
	if err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
}

func (f *fixture) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// child is the runner as a process.
type child struct {
	cmd    *exec.Cmd
	output *runnertest.Buffer
}

// start starts the runner as the Job does, below its init.
func (f *fixture) start(t *testing.T) *child {
	t.Helper()
	spec, err := json.Marshal(f.spec)
	if err != nil {
		t.Fatal(err)
	}
	f.mount(t, map[string]string{runcontract.SpecFile: string(spec)}) // now that the test has set it
	kubeconfig := f.cluster.Kubeconfig(t, filepath.Join(f.dir, "kubeconfig"))
	self := os.Args[0]
	args := []string{
		"init", "--", self, "run",
		"--modules-dir=" + filepath.Join(f.dir, "modules-repository"),
		"--credential-dir=" + filepath.Join(f.dir, "credential"),
		"--termination-message=" + filepath.Join(f.dir, "termination-log"),
		"--rescue-dir=" + filepath.Join(f.dir, "rescue"),
		"--lock-timeout=0s",
	}
	c := &child{output: &runnertest.Buffer{}}
	c.cmd = exec.CommandContext(context.Background(), self, append(args, f.args...)...)
	c.cmd.Stdout, c.cmd.Stderr = c.output, c.output
	c.cmd.WaitDelay = 5 * time.Second
	// A host name of its own, as a pod has: it is what a lock names.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWUTS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	path, _ := os.LookupEnv("PATH")
	c.cmd.Env = append([]string{
		actAsRunner + "=1", runnertest.NoExitSleep,
		"PATH=" + path,
		"HOME=" + filepath.Join(f.dir, "home"),
		"TF_CLI_CONFIG_FILE=" + filepath.Join(f.dir, "terraform.rc"),
		"KUBECONFIG=" + kubeconfig,
		runcontract.EnvPodNamespace + "=kubeopera-provisioning",
		runcontract.EnvPodName + "=" + f.pod(),
		// What must not reach Terraform:
		"TF_VAR_credential_principal_arn=from-the-environment",
		"AWS_ACCESS_KEY_ID=AKIAOFTHEENVIRONMENT",
		"AWS_SECRET_ACCESS_KEY=of-the-environment",
		"LEAK=leaked",
	}, f.extra...)
	if err := c.cmd.Start(); errors.Is(err, syscall.EPERM) {
		skip.Missing(t, skip.Namespaces, err.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			_ = c.cmd.Process.Kill() // it may have ended
			_ = c.cmd.Wait()         // that it was killed is known
		}
		if t.Failed() {
			t.Logf("the runner's output:\n%s", c.output)
		}
	})
	return c
}

// pod is the name of the run's pod.
func (f *fixture) pod() string { return runcontract.JobName(f.spec.Kind, f.spec.ID) + "-abcde" }

// next makes it another run of the same environment, in a pod whose workspace is
// new. What ran before is known to have ended.
func (f *fixture) next(t *testing.T, operation api.Operation) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(f.dir, "modules-repository", "run")); err != nil {
		t.Fatal(err)
	}
	f.cluster.Reset()
	f.runs++
	f.spec.EndedRuns = append(f.spec.EndedRuns, f.spec.ID)
	f.spec.ID = fmt.Sprintf("0196f3a0-0000-7000-8000-%012d", f.runs+1)
	f.spec.Operation = operation
}

// succeed runs it to its end, which must be a good one.
func (f *fixture) succeed(t *testing.T) runcontract.Result {
	t.Helper()
	if code := f.start(t).wait(t); code != runcontract.ExitOK {
		t.Fatalf("exit code %d", code)
	}
	return f.result(t)
}

func (c *child) terminate(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// wait waits for the end and returns the exit code.
func (c *child) wait(t *testing.T) runcontract.ExitCode {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- c.cmd.Wait() }()
	select {
	case err := <-done:
		if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
			t.Fatal(err)
		}
	case <-time.After(100 * time.Second):
		_ = c.cmd.Process.Kill()
		if err := <-done; err != nil {
			t.Log(err)
		}
		t.Fatal("the runner did not end")
	}
	return runcontract.ExitCode(c.cmd.ProcessState.ExitCode())
}

// eventually polls until ok or a minute has passed.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		case <-tick.C:
		}
	}
}

// result reads the published result, and checks that the termination message agrees.
func (f *fixture) result(t *testing.T) runcontract.Result {
	t.Helper()
	var published, last runcontract.Result
	if err := json.Unmarshal(f.cluster.Data(runcontract.KeyResult), &published); err != nil {
		t.Fatalf("read %s: %v", runcontract.KeyResult, err)
	}
	if err := json.Unmarshal(f.terminationMessage(t), &last); err != nil {
		t.Fatalf("read the termination message: %v", err)
	}
	if last.Outcome != published.Outcome || last.ErrorCode != published.ErrorCode {
		t.Errorf("termination message says %s %s, %s says %s %s", last.Outcome, last.ErrorCode, runcontract.KeyResult, published.Outcome, published.ErrorCode)
	}
	return published
}

func (f *fixture) terminationMessage(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(f.dir, "termination-log"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// noSecret fails if the credential is anywhere that people or services look.
func (f *fixture) noSecret(t *testing.T, c *child) {
	t.Helper()
	places := map[string]string{
		"the container's log":     c.output.String(),
		"the termination message": string(f.terminationMessage(t)),
		"progress.json":           string(f.cluster.Data(runcontract.KeyProgress)),
		"result.json":             string(f.cluster.Data(runcontract.KeyResult)),
		"the log tail":            f.logTail(t),
	}
	for place, text := range places {
		for _, secret := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary)), "sensitive-output-value"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds the secret %s:\n%s", place, secret, text)
			}
		}
	}
}

func (f *fixture) logTail(t *testing.T) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(f.cluster.Data(runcontract.KeyLogTail)))
	if err != nil {
		t.Fatalf("read the log tail: %v", err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatalf("read the log tail: %v", err)
	}
	return string(text)
}
