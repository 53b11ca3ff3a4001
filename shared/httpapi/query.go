package httpapi

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/kubeopera/platform/shared/api"
)

// checkQuery refuses a query of which net/http and Huma would take a part only: a
// filter that is lost unseen gives more than was asked for. No operation takes a
// parameter more than once.
func (a *API) checkQuery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query, err := url.ParseQuery(r.URL.RawQuery)
		var f api.FieldProblem
		if err != nil { // its text quotes the query
			f = api.FieldProblem{Location: "query", Message: "cannot be read: separate parameters with &, and encode what is special in them"}
		}
		for name, values := range query {
			if len(values) > 1 {
				f = api.FieldProblem{Location: cut("query."+name, maxLocation), Message: "may be given once only"}
			}
		}
		if f.Location == "" {
			next.ServeHTTP(w, r)
			return
		}
		a.writeProblem(w, r, &api.Problem{
			Status: http.StatusUnprocessableEntity, Code: CodeInvalidRequest,
			Detail: fmt.Sprintf("the request is not valid: %s: %s", f.Location, f.Message), Errors: []api.FieldProblem{f},
		})
	})
}
