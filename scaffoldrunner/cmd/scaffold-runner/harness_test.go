package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner"
	"github.com/kubeopera/platform/shared/runner/runnertest"
)

// actAsRunner makes the test binary behave as scaffold-runner: the tests run it as a
// process of its own.
const actAsRunner = "SCAFFOLD_RUNNER_TEST_ACT"

func TestMain(m *testing.M) {
	// git starts it with an environment of its own.
	asHelper := len(os.Args) > 1 && os.Args[1] == gitHelper
	if _, ok := os.LookupEnv(actAsRunner); ok || asHelper {
		getenv := func(key string) string {
			value, _ := os.LookupEnv(key)
			return value
		}
		code := int(command(os.Args[1:], runner.Process{
			Name: "scaffold-runner", Getenv: getenv, Setenv: os.Setenv, Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		}))
		if asHelper {
			syscall.Exit(code) // without the sleep of runnertest.NoExitSleep, which git does not pass on
		}
		os.Exit(code)
	}
	os.Exit(m.Run())
}

const (
	environment      = "acme"
	registryPassword = "canary-registry-password"
	digestKey        = "canary-digest-key-0123456789abcd"
	awsSecret        = "canary-aws-secret-access-key"
)

// fixture is a run: the mounted files, a Git server, a target and an API server to
// publish to.
type fixture struct {
	t       *testing.T
	git     *gitServer
	target  *targetServer
	outputs *runnertest.Outputs
	dir     string
	spec    runcontract.ScaffoldSpec
	runs    int
	last    *child
	ownBase bool // the repository has a development tree
}

func setup(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, git: newGitServer(t), target: newTargetServer(t), outputs: runnertest.NewOutputs(t), dir: t.TempDir()}
	f.spec = runcontract.ScaffoldSpec{
		Version: runcontract.SpecVersion, ID: "0196f3a0-0000-7000-8000-000000000001", Kind: runcontract.KindScaffold, Operation: api.OperationScaffold,
		Inputs: runcontract.ScaffoldInputs{
			Environment: environment, Domain: "acme.example.com", Region: "eu-west-1", Email: "ops@acme.example.com",
			Registry: runcontract.Registry{Server: "registry.example.com", Username: "robot"},
		},
		Repository: runcontract.Repository{
			URL: f.git.url(), Branch: "main", Mode: api.PushDirect, Auth: runcontract.RepositoryAuthToken, Username: gitUser, CA: true,
			AuthorName: "Scaffolder", AuthorEmail: "scaffolder@example.org",
		},
		TimeoutSeconds: 280, GraceSeconds: 40, SealedSecretsTimeoutSeconds: 60, PollIntervalSeconds: 1,
	}
	kubeconfig, err := clientcmd.Write(*runnertest.Kubeconfig(f.target.Server, targetToken))
	if err != nil {
		t.Fatal(err)
	}
	f.write("credential/"+runcontract.CredentialKubeconfigFile, string(kubeconfig))
	f.write("credential/"+runcontract.CredentialGitTokenFile, gitToken)
	f.write("credential/"+runcontract.CredentialRegistryPasswordFile, registryPassword)
	f.write("credential/"+runcontract.CredentialDigestKeyFile, digestKey)
	f.write("ca/"+runcontract.RepositoryCAFile, string(runnertest.CA(f.git.Server)))
	// Flux brings the controller up once the branch has its layer.
	f.target.deployed = func() bool {
		_, err := f.git.tryGit(context.WithoutCancel(t.Context()), nil, "rev-parse", "--verify", "--quiet", "main:clusters/"+environment+"/infrastructure/sealed-secrets.yaml")
		return err == nil
	}
	return f
}

func (f *fixture) write(name, content string) {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// child is the runner as a process.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	output *runnertest.Buffer
}

// start starts the runner as the Job does, below its init.
func (f *fixture) start() *child {
	f.t.Helper()
	spec, err := json.Marshal(f.spec)
	if err != nil {
		f.t.Fatal(err)
	}
	f.write("spec/"+runcontract.SpecFile, string(spec))
	f.write("tmp/.keep", "")
	self := os.Args[0]
	c := &child{t: f.t, output: &runnertest.Buffer{}}
	c.cmd = exec.CommandContext(context.Background(), self, "init", "--", self, "run",
		"--spec-dir="+filepath.Join(f.dir, "spec"),
		"--credential-dir="+filepath.Join(f.dir, "credential"),
		"--repository-ca-dir="+filepath.Join(f.dir, "ca"),
		"--termination-message="+filepath.Join(f.dir, "termination-log"),
	)
	c.cmd.Stdout, c.cmd.Stderr = c.output, c.output
	c.cmd.WaitDelay = 5 * time.Second
	path, _ := os.LookupEnv("PATH")
	c.cmd.Env = []string{
		actAsRunner + "=1", runnertest.NoExitSleep, "PATH=" + path, "HOME=" + filepath.Join(f.dir, "home"), "TMPDIR=" + filepath.Join(f.dir, "tmp"),
		"KUBECONFIG=" + f.outputs.Kubeconfig(f.t, filepath.Join(f.dir, "kubeconfig")),
		runcontract.EnvPodNamespace + "=kubeopera-provisioning",
		// What must not reach git:
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http.sslVerify", "GIT_CONFIG_VALUE_0=false", "GIT_DIR=/nowhere",
	}
	if err := c.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.last = c
	f.t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			_ = c.cmd.Process.Kill() // it may have ended
			_ = c.cmd.Wait()         // that it was killed is known
		}
		if f.t.Failed() {
			f.t.Logf("the runner's output:\n%s", c.output)
		}
	})
	return c
}

// wait waits for the end and returns the exit code; -1 for a signal.
func (c *child) wait() runcontract.ExitCode {
	c.t.Helper()
	done := make(chan error, 1)
	go func() { done <- c.cmd.Wait() }()
	select {
	case err := <-done:
		if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
			c.t.Fatal(err)
		}
	case <-time.After(5 * time.Minute):
		_ = c.cmd.Process.Kill()
		c.t.Fatal("the runner did not end: ", <-done)
	}
	return runcontract.ExitCode(c.cmd.ProcessState.ExitCode())
}

// until polls the output for a text.
func (c *child) until(text string) {
	c.t.Helper()
	c.times(1, text)
}

// times polls the output until it has a text so often.
func (c *child) times(n int, text string) {
	c.t.Helper()
	deadline := time.After(4 * time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for strings.Count(c.output.String(), text) < n {
		select {
		case <-deadline:
			c.t.Fatalf("the runner did not say %q", text)
		case <-tick.C:
		}
	}
}

func (c *child) terminate() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
}

// run runs it to its end.
func (f *fixture) run() runcontract.Result {
	f.t.Helper()
	return f.ended(f.start())
}

// ended is the result of a run, which is held against the exit code and the
// termination message.
func (f *fixture) ended(c *child) runcontract.Result {
	f.t.Helper()
	code := c.wait()
	var published, last runcontract.Result
	if err := json.Unmarshal(f.outputs.Data(runcontract.KeyResult), &published); err != nil {
		f.t.Fatalf("read %s: %v; exit code %d", runcontract.KeyResult, err, code)
	}
	message, err := os.ReadFile(filepath.Join(f.dir, "termination-log"))
	if err != nil {
		f.t.Fatal(err)
	}
	if err := json.Unmarshal(message, &last); err != nil {
		f.t.Fatalf("read the termination message: %v", err)
	}
	if last.Outcome != published.Outcome || last.ErrorCode != published.ErrorCode {
		f.t.Errorf("termination message says %s %s, result %s %s", last.Outcome, last.ErrorCode, published.Outcome, published.ErrorCode)
	}
	want := runcontract.ExitOK
	if published.Outcome != runcontract.OutcomeSucceeded {
		want = published.ErrorCode.Exit()
	}
	if code != want {
		f.t.Errorf("exit code %d, want %d", code, want)
	}
	if entries, err := os.ReadDir(filepath.Join(f.dir, "tmp")); err != nil || len(entries) != 1 {
		f.t.Errorf("left behind: %v, %v", entries, err)
	}
	f.noSecret()
	return published
}

// succeed runs it to its end, which must be a good one.
func (f *fixture) succeed() runcontract.Result {
	f.t.Helper()
	result := f.run()
	if result.Outcome != runcontract.OutcomeSucceeded {
		f.t.Fatalf("result %+v", result)
	}
	return result
}

// fail runs it to its end, which must be a failure with a message that has all texts.
func (f *fixture) fail(code runcontract.ErrorCode, texts ...string) runcontract.Result {
	f.t.Helper()
	result := f.run()
	f.failed(result, code, texts...)
	return result
}

func (f *fixture) failed(result runcontract.Result, code runcontract.ErrorCode, texts ...string) {
	f.t.Helper()
	if result.ErrorCode != code {
		f.t.Fatalf("code %s, want %s; message %q", result.ErrorCode, code, result.Message)
	}
	for _, text := range texts {
		if !strings.Contains(result.Message, text) {
			f.t.Errorf("the message lacks %q: %s", text, result.Message)
		}
	}
}

// next makes it another run of the same environment.
func (f *fixture) next() {
	f.runs++
	f.outputs.Reset()
	f.spec.ID = "0196f3a0-0000-7000-8000-00000000001" + string(rune('0'+f.runs))
}

// noSecret fails if a secret is anywhere but in the mounted credential.
func (f *fixture) noSecret() {
	f.t.Helper()
	secrets := append([]string{gitToken, targetToken, registryPassword, digestKey, awsSecret, "k8s-aws-v1."}, f.target.passwords()...)
	if !f.ownBase {
		secrets = append(secrets, "development-postgres-password", "development-rabbitmq-password", "development-registry-password")
	}
	places := map[string]string{
		"the log":    f.last.output.String(),
		"the commit": f.git.blobs(f.t),
	}
	for key, value := range f.outputs.Secret().Data {
		if strings.HasSuffix(key, ".gz") {
			value = gunzip(f.t, value)
		}
		places[key] = string(value)
	}
	err := filepath.WalkDir(f.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(path, filepath.Join(f.dir, "credential")) || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		places[path] = string(data)
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, place := range slices.Sorted(maps.Keys(places)) {
		for _, secret := range secrets {
			if len(secret) >= 8 && strings.Contains(places[place], secret) {
				f.t.Errorf("%s holds the secret %s", place, secret)
			}
		}
	}
}

func gunzip(t *testing.T, data []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// removeRest removes what goes with a killed pod.
func (f *fixture) removeRest() {
	f.t.Helper()
	if err := os.RemoveAll(filepath.Join(f.dir, "tmp")); err != nil {
		f.t.Fatal(err)
	}
}
