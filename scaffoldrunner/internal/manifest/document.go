// Package manifest reads Kubernetes manifests in YAML as they are kept in Git:
// files of several documents, with comments and either kind of line ending.
package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strings"

	"sigs.k8s.io/yaml"
)

// IsYAML says whether a file's name is that of a manifest.
func IsYAML(file string) bool {
	ext := path.Ext(file)
	return ext == ".yaml" || ext == ".yml"
}

// CRLF says whether text has Windows line endings: its first line decides.
func CRLF(data []byte) bool {
	i := bytes.IndexByte(data, '\n')
	return i > 0 && data[i-1] == '\r'
}

// ToLF is data with line endings of one byte.
func ToLF(data []byte) []byte { return bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")) }

// ToCRLF is data, which has line endings of one byte, with those of Windows.
func ToCRLF(data []byte) []byte { return bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n")) }

// Split cuts a file into its documents, comments and all, so that Join makes the
// same bytes of them if it had no more than one separator between two of them.
// Documents that hold nothing are dropped.
func Split(data []byte) [][]byte {
	var docs [][]byte
	var doc []byte
	flush := func() {
		if !blank(doc) {
			docs = append(docs, doc)
		}
		doc = nil
	}
	for line := range bytes.Lines(data) {
		if separator(line) {
			flush()
			continue
		}
		doc = append(doc, line...)
	}
	flush()
	return docs
}

// separator says whether a line ends one document and starts another.
func separator(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	if !ok {
		return false
	}
	rest = bytes.TrimSpace(rest)
	return len(rest) == 0 || rest[0] == '#'
}

// blank says whether a document has no content but comments.
func blank(doc []byte) bool {
	for line := range bytes.Lines(doc) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// Join makes one file of documents. They end with a line ending.
func Join(docs [][]byte) []byte {
	sep := []byte("---\n")
	if len(docs) > 0 && CRLF(docs[0]) {
		sep = []byte("---\r\n")
	}
	return bytes.Join(docs, sep)
}

// Object is one Kubernetes object.
type Object struct {
	APIVersion string
	Kind       string
	Namespace  string
	Name       string
	// Fields is the whole object, numbers as float64.
	Fields map[string]any
}

// Group is the API group; empty for the core group.
func (o Object) Group() string {
	group, _, ok := strings.Cut(o.APIVersion, "/")
	if !ok {
		return ""
	}
	return group
}

// Is says whether o is of that group and kind, whatever the version.
func (o Object) Is(group, kind string) bool { return o.Kind == kind && o.Group() == group }

// String names the object: kind, and where it is.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// ID tells objects apart across versions of a tree. The version of the API is
// no part of it.
func (o Object) ID() string { return o.Group() + "/" + o.Kind + "/" + o.Namespace + "/" + o.Name }

// ErrNoObject is for documents that are YAML but no Kubernetes object, such as
// a patch.
var ErrNoObject = errors.New("no Kubernetes object")

// Decode reads one document. Duplicate keys are errors.
func Decode(doc []byte) (Object, error) {
	var value any
	if err := yaml.UnmarshalStrict(doc, &value); err != nil {
		return Object{}, tidy(err)
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return Object{}, ErrNoObject
	}
	return FromFields(fields)
}

// FromFields makes an object of its fields, or ErrNoObject.
func FromFields(fields map[string]any) (Object, error) {
	o := Object{Fields: fields}
	o.APIVersion, _ = fields["apiVersion"].(string)
	o.Kind, _ = fields["kind"].(string)
	o.Name, _ = Get[string](fields, "metadata", "name")
	o.Namespace, _ = Get[string](fields, "metadata", "namespace")
	if o.APIVersion == "" || o.Kind == "" {
		return Object{}, ErrNoObject
	}
	return o, nil
}

// Objects are the objects of a file, in order. Documents that are none are left
// out; what is not YAML is an error.
func Objects(data []byte) ([]Object, error) {
	var objects []Object
	for i, doc := range Split(data) {
		switch o, err := Decode(doc); {
		case errors.Is(err, ErrNoObject):
		case err != nil:
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		default:
			objects = append(objects, o)
		}
	}
	return objects, nil
}

// Get is the value at a path of keys.
func Get[T any](fields map[string]any, keys ...string) (T, bool) {
	var value any = fields
	for _, key := range keys {
		m, ok := value.(map[string]any)
		if !ok {
			var none T
			return none, false
		}
		value = m[key]
	}
	v, ok := value.(T)
	return v, ok
}

// Items are the maps in the list at a path of keys.
func Items(fields map[string]any, keys ...string) []map[string]any {
	list, _ := Get[[]any](fields, keys...)
	var items []map[string]any
	for _, v := range list {
		if m, ok := v.(map[string]any); ok {
			items = append(items, m)
		}
	}
	return items
}

// tidy takes the name of the function that read JSON out of a message for people.
func tidy(err error) error {
	text := err.Error()
	for _, prefix := range []string{"error converting YAML to JSON: ", "error unmarshaling JSON: ", "while decoding JSON: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return errors.New(text)
}
