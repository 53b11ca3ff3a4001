package api

import (
	"fmt"
	"strings"
)

// ProblemContentType is the media type of every error answer (RFC 9457).
const ProblemContentType = "application/problem+json"

// Problem is an error answer: RFC 9457 with a stable code and, for validation,
// every field problem. It implements error for clients.
type Problem struct { //nolint:errname // the term of RFC 9457; an error for clients only
	Type      string         `json:"type" doc:"about:blank, or a URI that names the kind of problem"`
	Title     string         `json:"title" doc:"The HTTP status in words"`
	Status    int            `json:"status"`
	Code      string         `json:"code" doc:"Stable code that a program can branch on"`
	Detail    string         `json:"detail" doc:"One human sentence: what was wrong and what to do"`
	Instance  string         `json:"instance,omitempty" doc:"The request path, or the run that is in the way"`
	RequestID string         `json:"request_id,omitempty" doc:"Id to look for in the service's log"`
	Errors    []FieldProblem `json:"errors,omitempty" doc:"All that is wrong with the request, field by field"`
}

// FieldProblem is one thing wrong with one field. It never holds the rejected
// value, which may be a secret.
type FieldProblem struct {
	Location string `json:"location" doc:"Path of the field, such as body.vpc_cidr or body.machines[0].role"`
	Message  string `json:"message"`
}

// Error is the detail with the field problems, for logs and terminals.
func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%d %s)", p.Detail, p.Status, p.Code)
	for _, f := range p.Errors {
		fmt.Fprintf(&b, "\n  %s: %s", f.Location, f.Message)
	}
	return b.String()
}
