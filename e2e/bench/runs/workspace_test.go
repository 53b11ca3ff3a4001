package runs

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/sim"
)

// workspace is one environment in which the runner and bare Terraform work in
// turn, with the same files, credential and state.
type workspace struct {
	modules string // stands for the clone of the modules repository
	dir     string // where bare Terraform works, at the same depth
	spec    runcontract.Spec
	runner  []string
	env     []string // of both
	spent   cost     // of all processes so far
}

// newWorkspace takes over a run that the service has made, with these files in
// place of its own unless there are none.
func newWorkspace(b *testing.B, id string, files map[string]string) *workspace {
	b.Helper()
	made := config(b, id)
	spec, err := runcontract.ReadSpec([]byte(made[runcontract.SpecFile]))
	if err != nil {
		b.Fatal(err)
	}
	if files == nil {
		files = maps.Clone(made)
	}
	files[runcontract.SpecFile] = made[runcontract.SpecFile]
	dir := b.TempDir()
	w := &workspace{modules: filepath.Join(dir, "modules-repository"), spec: spec}
	w.dir = filepath.Join(w.modules, "bare", spec.Environment)
	credential := cloudcred.Credential{Kind: cloudcred.KindAccessKey, AccessKey: &platform.AccessKey}
	for name, content := range credential.Files(spec.Region, spec.Environment) {
		write(b, filepath.Join(dir, "credential", name), string(content))
	}
	for name, content := range files {
		write(b, filepath.Join(w.modules, "environments", spec.Environment, name), content)
		if name != runcontract.SpecFile {
			write(b, filepath.Join(w.dir, name), content)
		}
	}
	terraformrc := "disable_checkpoint = true\nprovider_installation {\n  filesystem_mirror {\n    path = \"" +
		platform.Image.Binds["/usr/share/terraform/providers"] + "\"\n  }\n}\n"
	binary := filepath.Dir(platform.Image.Binds["/usr/local/bin/terraform"])
	env := map[string]string{
		"PATH":                        binary + ":/usr/local/bin:/usr/bin:/bin",
		"HOME":                        write(b, filepath.Join(dir, "home", "empty"), ""),
		"TF_CLI_CONFIG_FILE":          write(b, filepath.Join(dir, "terraform.rc"), terraformrc),
		"AWS_PROFILE":                 runcontract.CredentialProfile,
		"AWS_CONFIG_FILE":             filepath.Join(dir, "credential", runcontract.CredentialConfigFile),
		"AWS_SHARED_CREDENTIALS_FILE": filepath.Join(dir, "credential", runcontract.CredentialKeysFile),
		"AWS_EC2_METADATA_DISABLED":   "true",
		"KUBECONFIG":                  platform.HostKubeconfig(),
		runcontract.EnvPodNamespace:   sim.RunNamespace,
		runcontract.EnvPodName:        runcontract.JobName(spec.Kind, spec.ID) + "-bench",
	}
	env["HOME"] = filepath.Dir(env["HOME"])
	maps.Copy(env, spec.Env)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		w.env = append(w.env, name+"="+env[name])
	}
	runner := platform.Image.Binds["/usr/local/bin/terraform-runner"]
	w.runner = []string{
		runner, "init", "--", runner, "run",
		"--modules-dir=" + w.modules,
		"--credential-dir=" + filepath.Join(dir, "credential"),
		"--rescue-dir=" + filepath.Join(dir, "rescue"),
		"--termination-message=" + filepath.Join(dir, "termination-log"),
	}
	return w
}

// run carries out the whole run, as its container does.
func (w *workspace) run(b *testing.B) {
	b.Helper()
	w.execute(b, w.modules, w.runner...)
}

// bare runs Terraform as a person would.
func (w *workspace) bare(b *testing.B, verb string, args ...string) {
	b.Helper()
	line := []string{platform.Image.Binds["/usr/local/bin/terraform"], verb, "-input=false", "-no-color"}
	principal := "-var=" + runcontract.VariablePrincipal + "=" + platform.Principal()
	switch {
	case verb == "init":
		settings := map[string]string{"region": w.spec.Region, "bucket": w.spec.State.Bucket, "key": w.spec.State.Key}
		maps.Copy(settings, w.spec.State.BackendConfig)
		for _, name := range slices.Sorted(maps.Keys(settings)) {
			line = append(line, "-backend-config="+name+"="+settings[name])
		}
		for _, left := range []string{".terraform", ".terraform.lock.hcl"} { // the runner begins without them too
			if err := os.RemoveAll(filepath.Join(w.dir, left)); err != nil {
				b.Fatal(err)
			}
		}
	case verb == "plan":
		line = append(line, principal)
	case !slices.Contains(args, "plan"): // a saved plan has the variable
		line = append(line, "-auto-approve", principal)
	}
	w.execute(b, w.dir, append(line, args...)...)
}

// execute runs a program and adds what it cost, with all that it has started.
func (w *workspace) execute(b *testing.B, dir string, line ...string) {
	b.Helper()
	var output bytes.Buffer
	command := exec.CommandContext(context.WithoutCancel(b.Context()), line[0], line[1:]...)
	command.Dir, command.Env, command.Stdout, command.Stderr = dir, w.env, &output, &output
	began := time.Now()
	if err := command.Run(); err != nil {
		b.Fatalf("%v: %v\n%s", line, err, output.String())
	}
	w.spent.time += time.Since(began)
	w.spent.cpu += command.ProcessState.UserTime() + command.ProcessState.SystemTime()
}

func write(b *testing.B, path, content string) string {
	b.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}
