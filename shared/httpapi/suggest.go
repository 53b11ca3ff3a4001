package httpapi

import "github.com/kubeopera/platform/shared/suggest"

// suggestion is "; did you mean x?" for the known name that is nearest to a
// mistyped one, empty if none is near.
func suggestion(name string, known []string) string {
	best := suggest.Nearest(name, known)
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}
