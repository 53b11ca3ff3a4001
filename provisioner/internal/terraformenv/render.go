package terraformenv

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/kubeopera/platform/shared/api"
)

// The files of an environment. Only one of an EKS cluster has variables.
const (
	FileMain      = "main.tf"
	FileBackend   = "backend.tf"
	FileProviders = "providers.tf"
	FileVariables = "variables.tf"
	FileOutputs   = "outputs.tf"
)

const (
	terraformVersion   = ">= 1.11"
	awsProviderSource  = "hashicorp/aws"
	awsProviderVersion = ">= 5.100.0, < 7.0.0"
)

const header = "# Rendered by cluster-provisioner, again for every run: changes made here are lost.\n\n"

// Render returns the environment's files by name. A topology that it does not
// know is an error.
func Render(e Environment) (map[string]string, error) {
	if err := e.check(); err != nil {
		return nil, fmt.Errorf("render environment: %w", err)
	}
	tags, err := e.tags()
	if err != nil {
		return nil, fmt.Errorf("render environment: %w", err)
	}

	files := map[string]*hclwrite.File{
		FileBackend:   backend(e),
		FileProviders: providers(e),
	}
	switch e.Topology {
	case api.TopologyEKS:
		files[FileMain] = eksMain(e, tags)
		files[FileVariables] = eksVariables()
		files[FileOutputs] = eksOutputs()
	case api.TopologyVanillaKubeadm:
		files[FileMain] = vanillaMain(e, tags)
		files[FileOutputs] = vanillaOutputs(e)
	default:
		return nil, fmt.Errorf("render environment: no modules for topology %q", e.Topology)
	}

	contents := make(map[string]string, len(files))
	for name, file := range files {
		contents[name] = header + string(hclwrite.Format(file.Bytes()))
	}
	return contents, nil
}

// backend leaves the region of the bucket to the runner, which finds it.
func backend(e Environment) *hclwrite.File {
	file := hclwrite.NewEmptyFile()
	s3 := file.Body().AppendNewBlock("terraform", nil).Body().AppendNewBlock("backend", []string{"s3"}).Body()
	s3.SetAttributeValue("bucket", cty.StringVal(e.StateBucket))
	s3.SetAttributeValue("key", cty.StringVal(e.StateKey))
	s3.SetAttributeValue("encrypt", cty.True)
	s3.SetAttributeValue("use_lockfile", cty.True)
	return file
}

// providers configures no credentials: they come from the environment.
func providers(e Environment) *hclwrite.File {
	file := hclwrite.NewEmptyFile()
	body := file.Body()

	terraform := body.AppendNewBlock("terraform", nil).Body()
	terraform.SetAttributeValue("required_version", cty.StringVal(terraformVersion))
	terraform.AppendNewline()
	terraform.AppendNewBlock("required_providers", nil).Body().SetAttributeValue("aws", cty.ObjectVal(map[string]cty.Value{
		"source":  cty.StringVal(awsProviderSource),
		"version": cty.StringVal(awsProviderVersion),
	}))

	body.AppendNewline()
	aws := body.AppendNewBlock("provider", []string{"aws"}).Body()
	aws.SetAttributeValue("region", cty.StringVal(e.Region))
	aws.AppendNewline()
	aws.AppendNewBlock("default_tags", nil).Body().SetAttributeTraversal("tags", reference("local", "tags"))
	return file
}

// reference is the expression a.b.c. All parts are identifiers of ours.
func reference(root string, parts ...string) hcl.Traversal {
	traversal := hcl.Traversal{hcl.TraverseRoot{Name: root}}
	for _, part := range parts {
		traversal = append(traversal, hcl.TraverseAttr{Name: part})
	}
	return traversal
}

// comment appends a line that explains what follows it.
func comment(body *hclwrite.Body, text string) {
	body.AppendUnstructuredTokens(hclwrite.Tokens{{Type: hclsyntax.TokenComment, Bytes: []byte("# " + text + "\n")}})
}

func stringList(values []string) cty.Value {
	if len(values) == 0 {
		return cty.ListValEmpty(cty.String)
	}
	list := make([]cty.Value, len(values))
	for i, value := range values {
		list[i] = cty.StringVal(value)
	}
	return cty.ListVal(list)
}

// stringMap is an object whose keys are sorted and all quoted: a bare key may be
// a word of the language.
func stringMap(values map[string]string) hclwrite.Tokens {
	var attributes []hclwrite.ObjectAttrTokens
	for _, key := range slices.Sorted(maps.Keys(values)) {
		attributes = append(attributes, hclwrite.ObjectAttrTokens{
			Name:  hclwrite.TokensForValue(cty.StringVal(key)),
			Value: hclwrite.TokensForValue(cty.StringVal(values[key])),
		})
	}
	return hclwrite.TokensForObject(attributes)
}
