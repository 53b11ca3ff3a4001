package planted

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutation makes a source file of the runner leak. Each old text is in the file
// once.
type mutation struct {
	name  string
	file  string            // in the checkout
	edits map[string]string // new by old text
	found string            // a regular expression that the scan's error matches
}

// mutations leak the AWS credential, each in another way.
func mutations() []mutation {
	return []mutation{
		{
			name: "to its log, which it forgets to mask",
			file: "tfrunner/cmd/terraform-runner/run.go",
			edits: map[string]string{
				`redact.New(append(secrets, machineSecrets...)...)`:   `redact.New(machineSecrets...)`,
				`log.Printf("terraform-runner %s", runner.Version())`: `log.Printf("terraform-runner %s %q", runner.Version(), secrets)`,
			},
			found: `/node/logs/.* holds the AWS secret access key`,
		},
		{
			name: "to its progress",
			file: "tfrunner/internal/run/run.go",
			edits: map[string]string{
				"\tif r.current != \"\" {\n": "\tif keys, err := r.AWS.Keys(context.Background()); err == nil {\n\t\tprogress.Message = keys.SecretAccessKey\n\t}\n\tif r.current != \"\" {\n",
			},
			found: `table provision_jobs\w* of .* holds the AWS secret access key`,
		},
		{
			name: "to Terraform's arguments",
			file: "tfrunner/internal/terraform/terraform.go",
			edits: map[string]string{
				`tfexec.DirOrPlan(planFile), `: `tfexec.DirOrPlan(planFile), tfexec.State(leaked(t.cfg.Env)), `,
				"func killed(":                 "func leaked(env map[string]string) string {\n\tdata, _ := os.ReadFile(env[\"AWS_SHARED_CREDENTIALS_FILE\"])\n\treturn string(data)\n}\n\nfunc killed(",
			},
			found: `a process's arguments holds the AWS secret access key`,
		},
	}
}

// buildLeaky builds terraform-runner with all mutations, and gives its path.
func buildLeaky(ctx context.Context, t *testing.T, root string) string {
	t.Helper()
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for _, m := range mutations() {
		source := filepath.Join(root, m.file)
		data, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		for old, with := range m.edits {
			if n := strings.Count(text, old); n != 1 {
				t.Fatalf("the mutation that leaks %s does not fit %s any more: %q is in it %d times", m.name, m.file, old, n)
			}
			text = strings.Replace(text, old, with, 1)
		}
		mutated := filepath.Join(dir, strings.ReplaceAll(m.file, "/", "_"))
		if err := os.WriteFile(mutated, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[source] = mutated
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	file, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "terraform-runner")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-overlay", file, "-o", binary, "./tfrunner/cmd/terraform-runner")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the leaky runner: %v\n%s", err, out)
	}
	return binary
}
