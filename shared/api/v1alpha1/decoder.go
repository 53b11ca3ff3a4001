package v1alpha1

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/shared/suggest"
)

// Aliases make a small file a large tree: maxNodes and maxDepth bound it. Who has
// got maxErrors has the wrong file.
const (
	maxNodes  = 100_000
	maxDepth  = 64
	maxErrors = 100
)

// A decoder makes the JSON tree of a Go type of a YAML tree and notes what does not
// fit. Scalars that do not fit are left out.
type decoder struct {
	errs  FieldErrors
	left  int                 // nodes that may still come; negative: give up
	paths map[string][]string // where in an environment a key is known, by its lower case
}

func newDecoder() *decoder {
	d := &decoder{left: maxNodes, paths: make(map[string][]string)}
	d.collect(reflect.TypeFor[EnvironmentSpec](), "spec")
	return d
}

// collect notes where keys of a type are known.
func (d *decoder) collect(t reflect.Type, path string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || unmarshals(t) {
		return
	}
	for _, f := range fields(t) {
		at := path + "." + f.written()
		key := strings.ToLower(f.name)
		d.paths[key] = append(d.paths[key], at)
		d.collect(f.typ, at)
	}
}

func (d *decoder) environment(root *yaml.Node) any {
	return d.structure(root, reflect.TypeFor[Environment](), "", 0)
}

func (d *decoder) wrong(n *yaml.Node, path, message string) {
	d.errs.add(path, fmt.Sprintf("%s (line %d)", message, n.Line))
	if len(d.errs) == maxErrors {
		d.left = -1
	}
}

// value is the JSON value of n for a field of type t; nil leaves the field as it is.
func (d *decoder) value(n *yaml.Node, t reflect.Type, path string, depth int) any {
	n, ok := d.enter(n, path, depth)
	if !ok || isNull(n) {
		return nil
	}
	depth++
	switch {
	case t.Kind() == reflect.Interface:
		return d.generic(n, path, depth)
	case unmarshals(t):
		return d.special(n, t, path, depth)
	case t.Kind() == reflect.Pointer:
		return d.value(n, t.Elem(), path, depth)
	case t.Kind() == reflect.Struct:
		return d.structure(n, t, path, depth)
	case t.Kind() == reflect.Map:
		return d.mapping(n, t, path, depth)
	case t.Kind() == reflect.Slice:
		return d.list(n, t, path, depth)
	}
	return d.scalar(n, t, path)
}

// enter follows an alias and takes n from what may still come.
func (d *decoder) enter(n *yaml.Node, path string, depth int) (*yaml.Node, bool) {
	if d.left < 0 {
		return n, false
	}
	if d.left--; d.left < 0 || depth > maxDepth {
		d.wrong(n, path, "too many or too deeply nested values")
		d.left = -1
		return n, false
	}
	if n.Kind == yaml.AliasNode {
		return d.enter(n.Alias, path, depth+1)
	}
	return n, true
}

func (d *decoder) structure(n *yaml.Node, t reflect.Type, path string, depth int) any {
	if n.Kind != yaml.MappingNode {
		d.wrong(n, path, "must be a mapping of keys to values")
		return nil
	}
	out, known := make(map[string]any), fields(t)
	seen := make(map[string]int)
	for i := 0; i+1 < len(n.Content) && d.left >= 0; i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		f, ok := known.find(key.Value)
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge":
			d.wrong(key, path, "merge keys and keys that are no plain text are not supported")
		case ok:
			at := join(path, f.written())
			if d.once(seen, f.name, key, at) {
				if v := d.value(value, f.typ, at, depth+1); v != nil {
					out[f.name] = v
				}
			}
		case t == reflect.TypeFor[metav1.ObjectMeta]() && sameKey(key.Value, "description"):
			if d.once(seen, "description", key, join(path, "description")) {
				d.description(out, n, value, depth)
			}
		default:
			d.unknown(key, path, known)
		}
	}
	return out
}

// once says that key was not given before.
func (d *decoder) once(seen map[string]int, name string, key *yaml.Node, path string) bool {
	if line, again := seen[name]; again {
		d.wrong(key, path, fmt.Sprintf("given before, in line %d", line))
		return false
	}
	seen[name] = key.Line
	return true
}

// description makes an annotation of metadata.description, whose mapping is n.
func (d *decoder) description(metadata map[string]any, n, value *yaml.Node, depth int) {
	text, _ := d.value(value, reflect.TypeFor[string](), "metadata.description", depth+1).(string)
	if text == "" {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if sameKey(n.Content[i].Value, "annotations") {
			d.wrong(value, "metadata.description", "put it into annotations, as "+DescriptionAnnotation)
			return
		}
	}
	metadata["annotations"] = map[string]any{DescriptionAnnotation: text}
}

// unknown notes an unknown key, and the key that was probably meant.
func (d *decoder) unknown(key *yaml.Node, path string, known fieldList) {
	message := "unknown key"
	lower := strings.ToLower(key.Value)
	var names []string
	for _, f := range known {
		names = append(names, f.written())
	}
	if meant, ok := commonMistakes[join(strings.ToLower(path), lower)]; ok {
		message += "; " + meant
	} else if near := suggest.Nearest(key.Value, names); near != "" {
		message += "; did you mean " + near + "?"
	} else if there := d.paths[lower]; len(there) > 0 && len(there) <= 3 {
		message += "; did you mean " + strings.Join(there, " or ") + "?"
	}
	d.wrong(key, join(path, printable(key.Value)), message)
}

// commonMistakes are keys that are often written, by their path in lower case.
var commonMistakes = map[string]string{
	"spec.kubernetes.kubernetesversion":          "did you mean release.version?",
	"spec.kubernetes.kubernetesinstaller":        "did you mean installer?",
	"spec.kubernetes.kubernetesfeatures":         "did you mean k8sFeatureGates?",
	"spec.nvidiadriver.driverversion":            "did you mean package.version?",
	"spec.cluster.controlplane.taint":            "did you mean taints?",
	"spec.cluster.highavailability.loadbalancer": "did you mean loadBalancerType?",
}

func (d *decoder) mapping(n *yaml.Node, t reflect.Type, path string, depth int) any {
	if n.Kind != yaml.MappingNode {
		d.wrong(n, path, "must be a mapping of keys to values")
		return nil
	}
	out, seen := make(map[string]any), make(map[string]int)
	for i := 0; i+1 < len(n.Content) && d.left >= 0; i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
			d.wrong(key, path, "merge keys and keys that are no plain text are not supported")
			continue
		}
		at := join(path, printable(key.Value))
		if !d.once(seen, key.Value, key, at) {
			continue
		}
		v := d.value(value, t.Elem(), at, depth+1)
		if v == nil && t.Elem().Kind() == reflect.String {
			v = "" // as encoding/json has it: the key is there
		}
		out[key.Value] = v
	}
	return out
}

func (d *decoder) list(n *yaml.Node, t reflect.Type, path string, depth int) any {
	if n.Kind != yaml.SequenceNode {
		d.wrong(n, path, "must be a list")
		return nil
	}
	out := make([]any, 0, min(len(n.Content), 1024))
	for i, item := range n.Content {
		out = append(out, d.value(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i), depth+1))
		if d.left < 0 {
			break
		}
	}
	return out
}

func (d *decoder) scalar(n *yaml.Node, t reflect.Type, path string) any {
	plain := n.Kind == yaml.ScalarNode && n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	switch t.Kind() {
	case reflect.String:
		if n.Kind == yaml.ScalarNode && n.ShortTag() != "!!binary" {
			return n.Value
		}
		d.wrong(n, path, "must be text")
	case reflect.Bool:
		if v, ok := booleans[strings.ToLower(n.Value)]; ok && plain {
			return v
		}
		d.wrong(n, path, "must be true or false")
	case reflect.Int, reflect.Int32, reflect.Int64:
		if v, err := strconv.ParseInt(n.Value, 10, t.Bits()); err == nil && plain {
			return v
		}
		d.wrong(n, path, fmt.Sprintf("must be a whole number of at most %d bits", t.Bits()))
	default:
		d.wrong(n, path, "is not supported in a file")
	}
	return nil
}

// booleans are those of YAML 1.1, which Kubernetes' files have.
var booleans = map[string]bool{
	"true": true, "yes": true, "on": true,
	"false": false, "no": false, "off": false,
}

// special is for types that read their own JSON: times and durations.
func (d *decoder) special(n *yaml.Node, t reflect.Type, path string, depth int) any {
	v := d.generic(n, path, depth)
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, reflect.New(t).Interface())
	}
	if err == nil {
		return v
	}
	switch t {
	case reflect.TypeFor[metav1.Duration]():
		d.wrong(n, path, "must be a duration, such as 30s")
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		d.wrong(n, path, "must be a time, such as 2026-01-31T10:00:00Z")
	default:
		d.wrong(n, path, "is not of the right form")
	}
	return nil
}

// generic is the JSON value of n, of whatever type.
func (d *decoder) generic(n *yaml.Node, path string, depth int) any {
	n, ok := d.enter(n, path, depth)
	if !ok || isNull(n) {
		return nil
	}
	depth++
	switch n.Kind {
	case yaml.MappingNode:
		return d.mapping(n, reflect.TypeFor[map[string]any](), path, depth)
	case yaml.SequenceNode:
		return d.list(n, reflect.TypeFor[[]any](), path, depth)
	default:
		return n.Value
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// printable is a key as it may stand in a path: keys come from the file.
func printable(key string) string {
	if len(key) > 64 {
		key = strings.ToValidUTF8(key[:64], "") + "…"
	}
	for _, r := range key {
		if !strconv.IsPrint(r) || strings.ContainsRune(` "'[]:`, r) {
			return strconv.QuoteToASCII(key)
		}
	}
	return key
}
