package terraformenv

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kubeopera/platform/shared/skip"
)

// modulesDir holds the Terraform modules of this repository.
const modulesDir = "../../../modules"

// moduleNames are the folders in it.
func moduleNames() []string { return []string{"compute", "eks", "security", "vpc"} }

func TestFilesAreFormattedAsTerraformWould(t *testing.T) {
	t.Parallel()
	terraform := findTerraform(t)
	for _, dir := range []string{filepath.Join("testdata", "environments"), modulesDir} {
		output, err := exec.CommandContext(t.Context(), terraform, "fmt", "-check", "-diff", "-recursive", dir).CombinedOutput()
		if err != nil {
			t.Errorf("terraform fmt %s: %v\n%s", dir, err, output)
		}
	}
}

// The provider takes 630 MB while it validates, so that these two tests run
// nothing in parallel.

func TestEnvironmentsAreValidForTheProvider(t *testing.T) {
	skip.Long(t)
	run := newTerraform(t)
	root := copyModules(t)
	environments := goldenEnvironments()
	for _, name := range slices.Sorted(maps.Keys(environments)) {
		files, err := Render(environments[name])
		if err != nil {
			t.Fatal(err)
		}
		// At the depth at which the runner has them.
		dir := filepath.Join(root, "run", name)
		for file, content := range files {
			writeFile(t, filepath.Join(dir, file), content)
		}
		t.Run(name, func(t *testing.T) {
			run(t, dir, "init", "-backend=false", "-input=false", "-no-color")
			run(t, dir, "validate", "-no-color")
		})
	}
}

func TestModulesPassTheirOwnTests(t *testing.T) {
	skip.Long(t)
	run := newTerraform(t)
	root := copyModules(t)
	for _, module := range moduleNames() {
		t.Run(module, func(t *testing.T) {
			dir := filepath.Join(root, "modules", module)
			run(t, dir, "init", "-input=false", "-no-color")
			run(t, dir, "test", "-no-color")
		})
	}
}

// copyModules copies the modules to where terraform may write beside them.
func copyModules(tb testing.TB) (root string) {
	tb.Helper()
	root = tb.TempDir()
	for _, module := range moduleNames() {
		source := os.DirFS(filepath.Join(modulesDir, module))
		if err := os.CopyFS(filepath.Join(root, "modules", module), source); err != nil {
			tb.Fatal(err)
		}
		// What a developer's own terraform init left behind.
		if err := os.RemoveAll(filepath.Join(root, "modules", module, ".terraform")); err != nil {
			tb.Fatal(err)
		}
	}
	return root
}

func findTerraform(tb testing.TB) string {
	tb.Helper()
	binary, ok := os.LookupEnv("TERRAFORM_BINARY")
	if !ok {
		binary = "terraform"
	}
	path, err := exec.LookPath(binary)
	if err != nil {
		skip.Missing(tb, skip.Terraform, err.Error())
	}
	return path
}

// newTerraform returns a function that runs terraform with a provider from a
// filesystem mirror (KUBEOPERA_PROVIDER_MIRROR), or from wherever
// TF_CLI_CONFIG_FILE has it, and fails the test if terraform fails.
func newTerraform(tb testing.TB) func(tb testing.TB, dir string, args ...string) {
	tb.Helper()
	binary := findTerraform(tb)
	config := os.ExpandEnv("$TF_CLI_CONFIG_FILE")
	if mirror, ok := os.LookupEnv("KUBEOPERA_PROVIDER_MIRROR"); ok {
		config = filepath.Join(tb.TempDir(), "terraform.rc")
		writeFile(tb, config, fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror))
	} else if _, err := os.Stat(config); err != nil {
		skip.Missing(tb, skip.ProviderMirror, "neither KUBEOPERA_PROVIDER_MIRROR nor an existing TF_CLI_CONFIG_FILE is set")
	}
	return func(tb testing.TB, dir string, args ...string) {
		tb.Helper()
		cmd := exec.CommandContext(tb.Context(), binary, args...)
		cmd.Dir = dir
		cmd.Env = []string{
			"PATH=" + os.ExpandEnv("$PATH"),
			"HOME=" + tb.TempDir(),
			"TF_CLI_CONFIG_FILE=" + config,
			"TF_IN_AUTOMATION=1",
			"CHECKPOINT_DISABLE=1",
			"AWS_EC2_METADATA_DISABLED=true",
		}
		output, err := cmd.CombinedOutput()
		if err != nil {
			tb.Fatalf("terraform %v: %v\n%s", args, err, output)
		}
	}
}

func writeFile(tb testing.TB, path, content string) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		tb.Fatal(err)
	}
}
