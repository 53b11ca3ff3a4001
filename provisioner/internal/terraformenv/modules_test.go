package terraformenv

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// readModule returns the blocks of a module's files.
func readModule(tb testing.TB, module string) []*hclsyntax.Block {
	tb.Helper()
	paths, err := filepath.Glob(filepath.Join(modulesDir, module, "*.tf"))
	if err != nil || len(paths) == 0 {
		tb.Fatalf("no files of module %s (%v)", module, err)
	}
	var blocks []*hclsyntax.Block
	for _, path := range paths {
		file, diagnostics := hclparse.NewParser().ParseHCLFile(path)
		if diagnostics.HasErrors() {
			tb.Fatal(diagnostics)
		}
		body, ok := file.Body.(*hclsyntax.Body)
		if !ok {
			tb.Fatalf("%s: body is a %T", path, file.Body)
		}
		blocks = append(blocks, body.Blocks...)
	}
	return blocks
}

func TestModulesAreDocumented(t *testing.T) {
	t.Parallel()
	for _, module := range moduleNames() {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			readme, err := os.ReadFile(filepath.Join(modulesDir, module, "README.md"))
			if err != nil {
				t.Fatal(err)
			}
			_, tables, ok := strings.Cut(string(readme), "## Inputs")
			if !ok {
				t.Fatal("README has no section Inputs")
			}
			var documented []string
			for line := range strings.Lines(tables) {
				if name, ok := strings.CutPrefix(line, "| `"); ok {
					name, _, _ = strings.Cut(name, "`")
					documented = append(documented, name)
				}
			}
			var declared []string
			for _, kind := range []string{"variable", "output"} {
				for _, block := range readModule(t, module) {
					if block.Type != kind {
						continue
					}
					declared = append(declared, block.Labels[0])
					if _, ok := block.Body.Attributes["description"]; !ok {
						t.Errorf("%s %s has no description", kind, block.Labels[0])
					}
				}
			}
			if diff := cmp.Diff(declared, documented); diff != "" {
				t.Errorf("README does not have the variables and outputs in their order (-declared +documented):\n%s", diff)
			}
		})
	}
}

// The renderer and the modules state their versions each for themselves: an
// environment must not allow what a module refuses.
func TestModulesWantTheVersionsThatAreRendered(t *testing.T) {
	t.Parallel()
	rendered := parse(t, mustRender(t, goldenEnvironments()["smallest"]))
	want := map[string]any{
		"required_version":   rendered["providers.tf:terraform"]["required_version"],
		"required_providers": rendered["providers.tf:terraform/required_providers"]["aws"],
	}
	for _, module := range moduleNames() {
		got := map[string]any{}
		for _, block := range readModule(t, module) {
			if block.Type == "terraform" {
				got["required_version"] = literal(t, block.Body.Attributes["required_version"].Expr)
				got["required_providers"] = literal(t, block.Body.Blocks[0].Body.Attributes["aws"].Expr)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("module %s (-rendered +module):\n%s", module, diff)
		}
	}
}

// All that modules and environments use of the provider is there, and not
// deprecated, in the newest version that they allow; terraform validate checks the
// oldest.
func TestModulesAndEnvironmentsFitTheNewestProvider(t *testing.T) {
	t.Parallel()
	schema := readSchemaExtract(t)
	for name, blocks := range configurations(t) {
		for _, block := range blocks {
			for _, problem := range schema.problems(block) {
				t.Errorf("%s: %s", name, problem)
			}
		}
	}
}

func TestSchemaFindsWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	schema := readSchemaExtract(t)
	tests := []struct{ name, hcl, want string }{
		{
			"an argument that does not exist",
			`resource "aws_vpc" "a" { cider_block = "" }`,
			"aws_vpc has no argument cider_block",
		},
		{
			"an argument that only AWS sets",
			`resource "aws_vpc" "a" { arn = "" }`,
			"aws_vpc has no argument arn",
		},
		{
			"a deprecated argument",
			`resource "aws_iam_role" "a" {
				assume_role_policy  = ""
				managed_policy_arns = []
			}`,
			"aws_iam_role.managed_policy_arns is deprecated",
		},
		{
			"a deprecated block",
			`resource "aws_iam_role" "a" {
				assume_role_policy = ""
				inline_policy {}
			}`,
			"aws_iam_role.inline_policy is deprecated",
		},
		{
			"a missing argument of a block",
			`resource "aws_eks_cluster" "a" {
				name     = ""
				role_arn = ""
				vpc_config {}
			}`,
			"aws_eks_cluster.vpc_config lacks subnet_ids",
		},
		{
			"a missing block",
			`resource "aws_eks_cluster" "a" {
				name     = ""
				role_arn = ""
			}`,
			"aws_eks_cluster lacks vpc_config",
		},
		{
			"an unknown argument in a generated block",
			`resource "aws_launch_template" "a" {
				dynamic "tag_specifications" {
					for_each = []
					content { labels = {} }
				}
			}`,
			"aws_launch_template.tag_specifications has no argument labels",
		},
		{
			"a type that does not exist",
			`resource "aws_vpcs" "a" {}`,
			"aws_vpcs is not in the extract of the schema",
		},
		{
			"a reference to what is deprecated",
			`output "a" { value = "x-${aws_iam_role.a["b"].inline_policy}" }`,
			"aws_iam_role.inline_policy is deprecated",
		},
		{
			"a reference to what a data source does not have",
			`output "a" { value = data.aws_partition.a.name }`,
			"data.aws_partition has no attribute name",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file, diagnostics := hclsyntax.ParseConfig([]byte(tt.hcl), "a.tf", hcl.InitialPos)
			if diagnostics.HasErrors() {
				t.Fatal(diagnostics)
			}
			problems := schema.problems(file.Body.(*hclsyntax.Body).Blocks[0])
			if !slices.Equal(problems, []string{tt.want}) {
				t.Errorf("got problems %q, want only %q", problems, tt.want)
			}
		})
	}
}

func mustRender(tb testing.TB, e Environment) map[string]string {
	tb.Helper()
	files, err := Render(e)
	if err != nil {
		tb.Fatal(err)
	}
	return files
}
