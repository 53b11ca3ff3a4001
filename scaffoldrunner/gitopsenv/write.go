package gitopsenv

import (
	"bytes"
	"fmt"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"

	"github.com/kubeopera/platform/scaffoldrunner/internal/manifest"
)

// marshal is YAML of a value made here: keys sorted, strings quoted where YAML
// would read something else.
func marshal(value any) []byte {
	data, err := yaml.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("marshal %T: %v", value, err)) // plain structs and maps of strings always can be
	}
	return data
}

// scalar is a string as a YAML node, quoted where any reader of YAML would read
// something else.
func scalar(s string) *kyaml.RNode {
	node := kyaml.NewStringRNode(s)
	if string(marshal(s)) != s+"\n" {
		node.YNode().Style = kyaml.DoubleQuotedStyle
	}
	return node
}

// edit changes one document and keeps its comments, its order, how it indents lists
// and its line endings; what else is a matter of taste may change. The document stays as it is if change says that it changed nothing.
func edit(doc []byte, change func(*kyaml.RNode) (bool, error)) ([]byte, error) {
	crlf := manifest.CRLF(doc)
	text := string(manifest.ToLF(doc))
	node, err := kyaml.Parse(text)
	if err != nil {
		return nil, err
	}
	changed, err := change(node)
	if err != nil || !changed {
		return doc, err
	}
	var out bytes.Buffer
	encoder := kyaml.NewEncoderWithOptions(&out, &kyaml.EncoderOptions{
		SeqIndent: kyaml.SequenceIndentStyle(kyaml.DeriveSeqIndentStyle(text)),
	})
	if err := encoder.Encode(node.Document()); err != nil {
		return nil, err
	}
	if crlf {
		return manifest.ToCRLF(out.Bytes()), nil
	}
	return out.Bytes(), nil
}

// setString sets the scalar at an existing path, and says whether it changed.
func setString(parent *kyaml.RNode, value, field string) (bool, error) {
	at, err := parent.Pipe(kyaml.Get(field))
	if err != nil || at == nil || at.YNode().Value == value {
		return false, err
	}
	return true, replaceField(parent, field, scalar(value))
}

// replaceField sets a field and keeps the comments of what was there.
func replaceField(parent *kyaml.RNode, field string, value *kyaml.RNode) error {
	if old, err := parent.Pipe(kyaml.Get(field)); err == nil && old != nil {
		value.YNode().LineComment = old.YNode().LineComment
	}
	return set(parent, field, value)
}

// set sets a field to exactly that node: kyaml's setter would keep the old one's
// quotes, or its lack of them.
func set(parent *kyaml.RNode, field string, value *kyaml.RNode) error {
	if old := parent.Field(field); old != nil && old.Value != nil {
		old.Value.SetYNode(value.YNode())
		return nil
	}
	return parent.PipeE(kyaml.FieldSetter{Name: field, Value: value, OverrideStyle: true})
}

// lookup is the node at a path of keys; nil if it is not there.
func lookup(node *kyaml.RNode, path ...string) *kyaml.RNode {
	at, err := node.Pipe(kyaml.Lookup(path...))
	if err != nil {
		return nil
	}
	return at
}

// elements are the elements of the list at a path of keys.
func elements(node *kyaml.RNode, path ...string) []*kyaml.RNode {
	at := lookup(node, path...)
	if at == nil || at.YNode().Kind != kyaml.SequenceNode {
		return nil
	}
	list, err := at.Elements()
	if err != nil {
		return nil
	}
	return list
}
