package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/kubeopera/platform/shared/api"
)

// keyScheme names the security scheme in the OpenAPI document.
const keyScheme = "ApiKey"

// openAPI is the document before its operations.
func openAPI(c Config, registry huma.Registry) *huma.OpenAPI {
	registry.RegisterTypeAlias(reflect.TypeFor[answer](), reflect.TypeFor[api.Problem]())
	problem := registry.Schema(reflect.TypeFor[api.Problem](), true, "Problem")
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info:    &huma.Info{Title: c.Title, Version: c.Version, Description: c.Description},
		Servers: []*huma.Server{{URL: BasePath}},
		Components: &huma.Components{
			Schemas: registry,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				keyScheme: {Type: "apiKey", In: "header", Name: keyHeader, Description: "A key that the service's operator gave out"},
			},
		},
		Security: []map[string][]string{{keyScheme: {}}},
	}
	doc.OnAddOperation = []huma.AddOpFunc{func(_ *huma.OpenAPI, op *huma.Operation) {
		documentProblems(op, problem)
		// The middleware readBody has its own limit and deadline.
		op.MaxBodyBytes = maxBody + 1
		op.BodyReadTimeout = -1
	}}
	return doc
}

// documentProblems adds the problems that any operation can answer with, by its
// form, to those that its registration lists.
func documentProblems(op *huma.Operation, problem *huma.Schema) {
	op.Security = []map[string][]string{{keyScheme: {}}}
	statuses := append([]int{http.StatusUnauthorized, http.StatusUnprocessableEntity, http.StatusInternalServerError, http.StatusServiceUnavailable}, op.Errors...)
	if changes(op.Method) {
		statuses = append(statuses, http.StatusBadRequest)
	}
	if op.RequestBody != nil {
		statuses = append(statuses, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	delete(op.Responses, "default")
	for _, status := range statuses {
		op.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status),
			Content:     map[string]*huma.MediaType{api.ProblemContentType: {Schema: problem}},
		}
	}
}

// OpenAPI is the OpenAPI 3.1 document as indented JSON. The same operations
// give the same bytes.
func (a *API) OpenAPI() ([]byte, error) {
	raw, err := json.Marshal(a.huma.OpenAPI())
	if err != nil {
		return nil, fmt.Errorf("openapi document: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return nil, fmt.Errorf("openapi document: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

func (a *API) openAPI(w http.ResponseWriter, _ *http.Request) {
	doc, err := a.OpenAPI()
	if err != nil {
		panic(err) // answered and logged like any other panic
	}
	w.Header().Set("Content-Type", jsonType)
	_, _ = w.Write(doc) // the client may be gone
}
