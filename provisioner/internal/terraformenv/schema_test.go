package terraformenv

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/kubeopera/platform/shared/golden"
	"github.com/kubeopera/platform/shared/skip"
)

const (
	schemaExtractFile = "provider-schema.json"
	// schemaVersion is the version of the provider whose schema was extracted;
	// the schema itself does not say.
	schemaVersion = "6.47.0"
)

// schemaExtract is what the modules need to know of a provider's schema, taken
// from the output of "terraform providers schema -json".
type schemaExtract struct {
	ProviderVersion string                  `json:"provider_version"`
	Resources       map[string]*schemaBlock `json:"resources"`
	DataSources     map[string]*schemaBlock `json:"data_sources"`
}

// schemaBlock is a resource, a data source or a block in one.
type schemaBlock struct {
	Attributes map[string]use          `json:"attributes,omitempty"`
	Blocks     map[string]*schemaBlock `json:"blocks,omitempty"`
	Required   bool                    `json:"required,omitempty"`
	Deprecated bool                    `json:"deprecated,omitempty"`
}

// use says how an attribute is used.
type use string

const (
	required   use = "required"
	optional   use = "optional"
	computed   use = "computed" // only AWS sets it
	deprecated use = "deprecated"
)

// notInSchema are types that the schema file, itself a selection, does not have:
// only the provider that terraform validate runs with has checked their arguments.
func notInSchema() []string {
	return []string{
		"aws_default_security_group",
		"aws_eip_association",
		"data.aws_ec2_instance_type",
		"data.aws_eks_clusters",
		"data.aws_eks_node_group",
		"data.aws_eks_node_groups",
	}
}

// TestSchemaExtractIsUpToDate makes the extract from a whole schema, and with
// -update writes it:
//
//	terraform providers schema -json > schema.json
//	KUBEOPERA_PROVIDER_SCHEMA=$PWD/schema.json go test -run SchemaExtract -update
func TestSchemaExtractIsUpToDate(t *testing.T) {
	t.Parallel()
	path, ok := os.LookupEnv("KUBEOPERA_PROVIDER_SCHEMA")
	if !ok {
		skip.Missing(t, skip.ProviderSchema, "KUBEOPERA_PROVIDER_SCHEMA is not set")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	extract, err := json.MarshalIndent(extractSchema(t, data), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, schemaExtractFile, append(extract, '\n'))
}

func readSchemaExtract(tb testing.TB) schemaExtract {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", schemaExtractFile))
	if err != nil {
		tb.Fatal(err)
	}
	var extract schemaExtract
	if err := json.Unmarshal(data, &extract); err != nil {
		tb.Fatal(err)
	}
	return extract
}

// The schema as terraform prints it.
type (
	fullSchema struct {
		ProviderSchemas map[string]struct {
			Resources   map[string]fullType `json:"resource_schemas"`
			DataSources map[string]fullType `json:"data_source_schemas"`
		} `json:"provider_schemas"`
	}
	fullType struct {
		Block fullBlock `json:"block"`
	}
	fullBlock struct {
		Attributes map[string]struct {
			Required, Optional, Computed, Deprecated bool
		} `json:"attributes"`
		BlockTypes map[string]struct {
			Block    fullBlock `json:"block"`
			MinItems int       `json:"min_items"`
		} `json:"block_types"`
		Deprecated bool `json:"deprecated"`
	}
)

// configurations are the blocks of all modules and of all rendered environments.
func configurations(tb testing.TB) map[string][]*hclsyntax.Block {
	tb.Helper()
	all := map[string][]*hclsyntax.Block{}
	for _, module := range moduleNames() {
		all["module "+module] = readModule(tb, module)
	}
	for name, environment := range goldenEnvironments() {
		for file, content := range mustRender(tb, environment) {
			parsed, diagnostics := hclsyntax.ParseConfig([]byte(content), file, hcl.InitialPos)
			if diagnostics.HasErrors() {
				tb.Fatal(diagnostics)
			}
			all["environment "+name] = append(all["environment "+name], parsed.Body.(*hclsyntax.Body).Blocks...)
		}
	}
	return all
}

// extractSchema keeps of a schema the types that the modules and environments use.
func extractSchema(tb testing.TB, data []byte) schemaExtract {
	tb.Helper()
	var full fullSchema
	if err := json.Unmarshal(data, &full); err != nil {
		tb.Fatal(err)
	}
	provider, ok := full.ProviderSchemas["registry.terraform.io/hashicorp/aws"]
	if !ok {
		tb.Fatal("not a schema of hashicorp/aws")
	}
	extract := schemaExtract{
		ProviderVersion: schemaVersion,
		Resources:       map[string]*schemaBlock{},
		DataSources:     map[string]*schemaBlock{},
	}
	for _, blocks := range configurations(tb) {
		for _, block := range blocks {
			switch block.Type {
			case "resource":
				if t, ok := provider.Resources[block.Labels[0]]; ok {
					extract.Resources[block.Labels[0]] = t.Block.extract()
				}
			case "data":
				if t, ok := provider.DataSources[block.Labels[0]]; ok {
					extract.DataSources[block.Labels[0]] = t.Block.extract()
				}
			}
		}
	}
	return extract
}

func (b fullBlock) extract() *schemaBlock {
	block := &schemaBlock{
		Attributes: map[string]use{},
		Blocks:     map[string]*schemaBlock{},
		Deprecated: b.Deprecated,
	}
	for name, attribute := range b.Attributes {
		switch {
		case attribute.Deprecated:
			block.Attributes[name] = deprecated
		case attribute.Required:
			block.Attributes[name] = required
		case attribute.Optional:
			block.Attributes[name] = optional
		default:
			block.Attributes[name] = computed
		}
	}
	for name, nested := range b.BlockTypes {
		block.Blocks[name] = nested.Block.extract()
		block.Blocks[name].Required = nested.MinItems > 0
	}
	return block
}

// problems says what of a module's block does not fit the schema.
func (s schemaExtract) problems(block *hclsyntax.Block) []string {
	problems := s.referenceProblems(block.Body)
	types, prefix := s.Resources, ""
	switch block.Type {
	case "resource":
	case "data":
		types, prefix = s.DataSources, "data."
	default:
		return problems
	}
	name := prefix + block.Labels[0]
	if slices.Contains(notInSchema(), name) {
		return problems
	}
	t, ok := types[block.Labels[0]]
	if !ok {
		return append(problems, name+" is not in the extract of the schema")
	}
	return append(problems, t.problems(name, block.Body, true)...)
}

// problems holds a body against the block's schema; the outermost body of a
// resource has arguments of Terraform's own too.
func (b *schemaBlock) problems(path string, body *hclsyntax.Body, outermost bool) []string {
	var problems []string
	given := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(body.Attributes)) {
		given[name] = true
		if outermost && slices.Contains([]string{"count", "for_each", "depends_on", "provider"}, name) {
			continue
		}
		switch b.Attributes[name] {
		case required, optional:
		case deprecated:
			problems = append(problems, fmt.Sprintf("%s.%s is deprecated", path, name))
		default:
			problems = append(problems, fmt.Sprintf("%s has no argument %s", path, name))
		}
	}
	for _, block := range body.Blocks {
		name, content := block.Type, block.Body
		if outermost && name == "lifecycle" {
			continue
		}
		if name == "dynamic" {
			name = block.Labels[0]
			for _, inner := range content.Blocks {
				content = inner.Body // its only block: content
			}
		}
		given[name] = true
		nested, ok := b.Blocks[name]
		switch {
		case !ok:
			problems = append(problems, fmt.Sprintf("%s has no block %s", path, name))
		case nested.Deprecated:
			problems = append(problems, fmt.Sprintf("%s.%s is deprecated", path, name))
		default:
			problems = append(problems, nested.problems(path+"."+name, content, false)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.Attributes)) {
		if b.Attributes[name] == required && !given[name] {
			problems = append(problems, fmt.Sprintf("%s lacks %s", path, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.Blocks)) {
		if b.Blocks[name].Required && !given[name] {
			problems = append(problems, fmt.Sprintf("%s lacks %s", path, name))
		}
	}
	return problems
}

// referenceProblems finds references to attributes that are not there or are
// deprecated, such as data.aws_region.this.name.
func (s schemaExtract) referenceProblems(body *hclsyntax.Body) []string {
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(body.Attributes)) {
		for _, traversal := range body.Attributes[name].Expr.Variables() {
			if problem := s.referenceProblem(traversal); problem != "" {
				problems = append(problems, problem)
			}
		}
	}
	for _, block := range body.Blocks {
		problems = append(problems, s.referenceProblems(block.Body)...)
	}
	return problems
}

func (s schemaExtract) referenceProblem(traversal hcl.Traversal) string {
	var names []string // type, name, attribute; keys in brackets left out
	for _, step := range traversal {
		switch step := step.(type) {
		case hcl.TraverseRoot:
			names = append(names, step.Name)
		case hcl.TraverseAttr:
			names = append(names, step.Name)
		}
	}
	types, path := s.Resources, ""
	if names[0] == "data" {
		types, path, names = s.DataSources, "data.", names[1:]
	}
	if len(names) < 3 {
		return ""
	}
	path += names[0]
	t, ok := types[names[0]]
	if !ok {
		return "" // not a resource, or one that problems reports where it is made
	}
	if nested, ok := t.Blocks[names[2]]; ok {
		if nested.Deprecated {
			return fmt.Sprintf("%s.%s is deprecated", path, names[2])
		}
		return ""
	}
	switch t.Attributes[names[2]] {
	case required, optional, computed:
		return ""
	case deprecated:
		return fmt.Sprintf("%s.%s is deprecated", path, names[2])
	default:
		return fmt.Sprintf("%s has no attribute %s", path, names[2])
	}
}
