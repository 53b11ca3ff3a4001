package httpapi

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/kubeopera/platform/shared/api"
)

// RuleProblems are what a service's own rules found wrong with a request, for a
// huma.Resolver to return: then an answer names unknown and mistyped fields
// together with values that are not allowed. Of a field whose form is wrong only
// that is reported, since its value could not be read.
func RuleProblems(problems []api.FieldProblem) []error {
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = &ruleError{p}
	}
	return errs
}

type ruleError struct{ api.FieldProblem }

func (e *ruleError) Error() string { return e.Location + ": " + e.Message }

// ErrorDetail implements huma.ErrorDetailer.
func (e *ruleError) ErrorDetail() *huma.ErrorDetail {
	return &huma.ErrorDetail{Location: e.Location, Message: e.Message}
}
