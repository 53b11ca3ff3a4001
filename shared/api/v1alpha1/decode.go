package v1alpha1

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// MaxSize is the largest environment file in bytes. A larger template belongs in a
// file of its own.
const MaxSize = 1 << 20

// DescriptionAnnotation holds metadata.description, which many files written for
// holodeck have, although Kubernetes metadata has no such field.
const DescriptionAnnotation = GroupName + "/description"

// Decode reads one environment from YAML or JSON. It is strict: unknown keys (with
// the known one that was probably meant), keys given twice, values of the wrong
// type, several documents and files over MaxSize are errors; those with a path come
// all together as FieldErrors, with their lines. Keys are matched without regard to
// case. A string may be given as an unquoted number or boolean and keeps its
// characters: 1.30 stays "1.30".
//
// Decode sets no defaults and checks no values.
func Decode(data []byte) (*Environment, error) {
	root, err := document(data)
	if err != nil {
		return nil, err
	}
	if err := checkKind(root); err != nil {
		return nil, err
	}
	d := newDecoder()
	tree := d.environment(root)
	if err := d.errs.err(); err != nil {
		return nil, err
	}
	canonical, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("decode environment: %w", err)
	}
	env := new(Environment)
	if err := json.Unmarshal(canonical, env); err != nil {
		return nil, fmt.Errorf("decode environment: %w", err)
	}
	return env, nil
}

// document is the mapping of the only document.
func document(data []byte) (*yaml.Node, error) {
	if len(data) > MaxSize {
		return nil, FieldErrors{{"", fmt.Sprintf("the file is larger than %d KiB", MaxSize>>10)}}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, FieldErrors{{"", "the file is empty"}}
	case err != nil:
		return nil, FieldErrors{{"", fmt.Sprintf("not valid YAML or JSON: %v", err)}}
	}
	switch err := dec.Decode(&next); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, FieldErrors{{"", fmt.Sprintf("not valid YAML or JSON: %v", err)}}
	default:
		return nil, FieldErrors{{"", "the file has several documents; one environment is one file"}}
	}
	if len(doc.Content) != 1 || isNull(doc.Content[0]) {
		return nil, FieldErrors{{"", "the file is empty"}}
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, FieldErrors{{"", "the file must be a mapping with apiVersion, kind, metadata and spec"}}
	}
	return root, nil
}

// checkKind comes first: in a file of another kind every key would be unknown.
func checkKind(root *yaml.Node) error {
	var errs FieldErrors
	for _, want := range [][2]string{{"apiVersion", APIVersion}, {"kind", Kind}} {
		value := ""
		for i := 0; i+1 < len(root.Content); i += 2 {
			if sameKey(root.Content[i].Value, want[0]) && root.Content[i+1].Kind == yaml.ScalarNode {
				value = root.Content[i+1].Value
			}
		}
		if value != want[1] {
			errs.add(want[0], "must be "+want[1])
		}
	}
	return errs.err()
}
