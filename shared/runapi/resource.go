package runapi

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/kubeopera/platform/shared/httpapi"
)

// PollSeconds is how long a client does well to wait before it asks again.
const PollSeconds = 2

// Resource is what a service calls its runs.
type Resource struct {
	Singular string // such as provision: part of the ids of operations and of codes
	Plural   string // such as provisions: the path, and the tag in the document
}

// Path is that of the list of runs, relative to httpapi.BasePath.
func (r Resource) Path() string { return "/" + r.Plural }

// RunPath is the path of one run, relative to httpapi.BasePath.
func (r Resource) RunPath() string { return r.Path() + "/{id}" }

// Location is where a run is found.
func (r Resource) Location(id string) string { return httpapi.BasePath + r.Path() + "/" + id }

// Operation describes an operation on runs.
func (r Resource) Operation(id, method, path, summary string, options ...func(*huma.Operation)) huma.Operation {
	o := huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{r.Plural}}
	for _, option := range options {
		option(&o)
	}
	return o
}

// Starts documents an operation whose work goes on after its answer.
func Starts(o *huma.Operation) { o.DefaultStatus = http.StatusAccepted }

// Problems documents statuses that an operation may answer beside those of all.
func Problems(codes ...int) func(*huma.Operation) {
	return func(o *huma.Operation) { o.Errors = codes }
}

// Answers documents a body that is not JSON.
func Answers(mediaType string) func(*huma.Operation) {
	return func(o *huma.Operation) {
		o.Responses = map[string]*huma.Response{"200": {
			Description: http.StatusText(http.StatusOK),
			Content:     map[string]*huma.MediaType{mediaType: {Schema: &huma.Schema{Type: huma.TypeString}}},
		}}
	}
}

// notModified documents the answer to If-None-Match.
func notModified(o *huma.Operation) {
	o.Responses = map[string]*huma.Response{"304": {Description: "The answer is still that of If-None-Match"}}
}
