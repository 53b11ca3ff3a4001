package httpapi

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/kubeopera/platform/shared/api"
)

const (
	// maxFieldProblems bounds an answer: a body can hold a hundred thousand
	// unknown fields.
	maxFieldProblems = 50
	// maxLocation bounds a location, which may hold names of the client's choice.
	maxLocation = 200
)

// humaProblem is the answer to what Huma refused. ctx is nil where a handler
// makes an error by itself.
func humaProblem(ctx huma.Context, status int, msg string, errs []error) *answer {
	p := &api.Problem{Status: status, Code: codeOf(status), Detail: msg}
	var more int
	unread := make(map[string]bool) // locations whose value has not the right form
	for _, err := range errs {
		d, ok := err.(huma.ErrorDetailer)
		if !ok {
			continue // nobody vouches for its text
		}
		if len(p.Errors) == maxFieldProblems {
			more++
			continue
		}
		f := fieldProblem(ctx, d.ErrorDetail())
		if _, rule := errors.AsType[*ruleError](err); !rule {
			unread[f.Location] = true
		} else if unread[f.Location] || unread["body"] {
			continue
		}
		p.Errors = append(p.Errors, f)
	}
	slices.SortStableFunc(p.Errors, func(a, b api.FieldProblem) int { return strings.Compare(a.Location, b.Location) })
	if len(p.Errors) > 0 {
		p.Detail = "the request is not valid: " + p.Errors[0].Location + ": " + p.Errors[0].Message
		if n := len(p.Errors) - 1 + more; n > 0 {
			p.Detail += fmt.Sprintf(" (and %d more)", n)
		}
	}
	return &answer{Problem: p}
}

func codeOf(status int) string {
	switch status {
	case http.StatusUnprocessableEntity, http.StatusBadRequest:
		return CodeInvalidRequest
	case http.StatusInternalServerError:
		return CodeInternal
	}
	return strings.ReplaceAll(strings.ToLower(http.StatusText(status)), " ", "_")
}

// fieldProblem names the field in the location and leaves out its value.
func fieldProblem(ctx huma.Context, d *huma.ErrorDetail) api.FieldProblem {
	p := api.FieldProblem{Location: d.Location, Message: d.Message}
	beforeName, afterName, _ := strings.Cut(validation.MsgExpectedRequiredProperty, "%s")
	switch {
	case strings.HasPrefix(d.Message, decodeMark):
		field, message, _ := strings.Cut(d.Message[len(decodeMark):], decodeMark)
		p.Message = message
		if field != "" {
			p.Location += "." + field
		}
	case d.Message == validation.MsgUnexpectedProperty:
		p.Message = "unknown field" + suggestion(unknownField(ctx, d))
	case d.Message == "unknown query parameter":
		p.Message = "unknown query parameter" + suggestion(strings.TrimPrefix(d.Location, "query."), queryParameters(ctx))
	case strings.HasPrefix(d.Message, beforeName) && strings.HasSuffix(d.Message, afterName):
		p.Location += "." + strings.TrimSuffix(strings.TrimPrefix(d.Message, beforeName), afterName)
		p.Message = "is required"
	case strings.HasPrefix(d.Message, "invalid value: "):
		p.Message = "invalid value" // the rest is a parser's error, which may quote the value
	case d.Value == nil && strings.HasPrefix(d.Message, "expected ") && strings.HasPrefix(d.Location, "body"):
		p.Message += ", not null"
	}
	p.Location = cut(p.Location, maxLocation)
	return p
}

// unknownField is the name that was not expected and those that were.
func unknownField(ctx huma.Context, d *huma.ErrorDetail) (name string, known []string) {
	object, ok := d.Value.(map[string]any)
	if !ok || ctx == nil {
		return "", nil
	}
	// Names may hold dots; the object at hand knows where the name begins.
	for k := range object {
		if len(k) > len(name) && strings.HasSuffix(d.Location, "."+k) {
			name = k
		}
	}
	req, body := requestFrom(ctx.Context()), ctx.Operation().RequestBody
	if name == "" || req == nil || body == nil || body.Content[jsonType] == nil {
		return "", nil
	}
	parent := strings.TrimPrefix(strings.TrimSuffix(d.Location, "."+name), "body")
	if s := schemaAt(req.api.huma.OpenAPI().Components.Schemas, body.Content[jsonType].Schema, parent); s != nil {
		known = slices.Sorted(maps.Keys(s.Properties))
	}
	return name, known
}

// schemaAt follows a location such as .machines[0] from s, nil where it leads
// nowhere or through a name that holds a dot.
func schemaAt(registry huma.Registry, s *huma.Schema, location string) *huma.Schema {
	for {
		for s != nil && s.Ref != "" {
			s = registry.SchemaFromRef(s.Ref)
		}
		if s == nil || location == "" {
			return s
		}
		if location[0] == '[' {
			_, location, _ = strings.Cut(location, "]")
			s = s.Items
			continue
		}
		name := location[1:]
		if end := strings.IndexAny(name, ".["); end >= 0 {
			name = name[:end]
		}
		location = location[1+len(name):]
		next := s.Properties[name]
		if next == nil {
			next, _ = s.AdditionalProperties.(*huma.Schema)
		}
		s = next
	}
}

func queryParameters(ctx huma.Context) []string {
	if ctx == nil {
		return nil
	}
	var names []string
	for _, p := range ctx.Operation().Parameters {
		if p.In == "query" {
			names = append(names, p.Name)
		}
	}
	return names
}
