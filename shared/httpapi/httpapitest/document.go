package httpapitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// document is what an OpenAPI document says that a service takes and answers.
type document struct {
	raw        map[string]any
	base       string // path before those of the operations
	operations []operation
	problem    *jsonschema.Schema
}

type operation struct {
	id, method, path string
	parameters       []parameter
	body             map[string]any // schema of the JSON body; nil: none
	bodyRequired     bool
	responses        map[string]response // by status
}

type parameter struct {
	name, in string
	required bool
	schema   map[string]any
}

// response is the schema of each media type; without any there is no body.
type response map[string]*jsonschema.Schema

// methods are those that an OpenAPI document can have.
var methods = []string{"get", "post", "put", "patch", "delete"}

const location = "openapi.json"

// parse reads an OpenAPI document. Its schemas are JSON Schema 2020-12, as
// OpenAPI 3.1 says, with formats asserted.
func parse(data []byte) (*document, error) {
	var raw map[string]any
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("parse document: %w", err)
	}
	resource, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("parse document: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	if err := compiler.AddResource(location, resource); err != nil {
		return nil, fmt.Errorf("parse document: %w", err)
	}
	doc := &document{raw: raw}
	if doc.problem, err = compiler.Compile(location + "#/components/schemas/Problem"); err != nil {
		return nil, fmt.Errorf("schema of problems: %w", err)
	}
	if servers, ok := raw["servers"].([]any); ok && len(servers) > 0 {
		doc.base = text(object(servers[0])["url"])
	}
	paths := object(raw["paths"])
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		for _, method := range methods {
			if o := object(object(paths[path])[method]); o != nil {
				op, err := doc.operation(compiler, path, method, o)
				if err != nil {
					return nil, err
				}
				doc.operations = append(doc.operations, op)
			}
		}
	}
	if len(doc.operations) == 0 {
		return nil, fmt.Errorf("the document has no operations")
	}
	return doc, nil
}

func (d *document) operation(compiler *jsonschema.Compiler, path, method string, o map[string]any) (operation, error) {
	op := operation{id: text(o["operationId"]), method: strings.ToUpper(method), path: path, responses: map[string]response{}}
	list, _ := o["parameters"].([]any) // absent: none
	for _, p := range list {
		p := object(p)
		required, _ := p["required"].(bool)
		op.parameters = append(op.parameters, parameter{name: text(p["name"]), in: text(p["in"]), required: required, schema: object(p["schema"])})
	}
	if body := object(o["requestBody"]); body != nil {
		op.bodyRequired, _ = body["required"].(bool)
		op.body = object(object(object(body["content"])["application/json"])["schema"])
	}
	pointer := func(parts ...string) string {
		var at strings.Builder
		at.WriteString(location + "#")
		for _, part := range parts {
			at.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(part))
		}
		return at.String()
	}
	for status, r := range object(o["responses"]) {
		media := response{}
		for name := range object(object(r)["content"]) {
			schema, err := compiler.Compile(pointer("paths", path, method, "responses", status, "content", name, "schema"))
			if err != nil {
				return op, fmt.Errorf("%s: answer %s: %w", op.id, status, err)
			}
			media[name] = schema
		}
		op.responses[status] = media
	}
	return op, nil
}

// find gives the operation that a request is for, nil if there is none.
func (d *document) find(method, path string) *operation {
	given := strings.Split(path, "/")
	for i, op := range d.operations {
		parts := strings.Split(d.base+op.path, "/")
		if op.method == method && slices.EqualFunc(parts, given, func(part, is string) bool {
			return part == is || strings.HasPrefix(part, "{") && is != ""
		}) {
			return &d.operations[i]
		}
	}
	return nil
}

// resolve follows a reference inside the document.
func (d *document) resolve(schema map[string]any) map[string]any {
	for {
		ref, ok := schema["$ref"].(string)
		if !ok {
			return schema
		}
		var at any = d.raw
		for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			at = object(at)[part]
		}
		schema = object(at)
	}
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any) // anything else has no members
	return m
}

func text(v any) string {
	s, _ := v.(string) // anything else is no text
	return s
}
