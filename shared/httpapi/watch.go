package httpapi

import (
	"strings"
	"time"
)

// Watch are the parameters of a GET whose answer has an ETag: the caller may ask
// for changes only, and wait for one. Embed it in the input of an operation.
type Watch struct {
	IfNoneMatch string `header:"If-None-Match" maxLength:"1000" doc:"ETag of an earlier answer: 304 while the answer is still that"`
	Wait        string `query:"wait" pattern:"^([1-5]?[0-9](\\.[0-9]{1,3})?s|60s|[0-9]{1,3}ms|1m(0s)?)$" example:"30s" doc:"Wait so long, at most 60s, for the next change, or for one since If-None-Match"`
}

// Has says whether the caller has the answer of that ETag already.
func (w Watch) Has(etag string) bool {
	for tag := range strings.SplitSeq(w.IfNoneMatch, ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/") // a cache on the way may have made it weak
		if tag == etag || tag == "*" {
			return true
		}
	}
	return false
}

// Most is how long the caller wants to wait; 0: not at all.
func (w Watch) Most() time.Duration {
	most, err := time.ParseDuration(w.Wait)
	if err != nil { // the pattern lets nothing else pass
		return 0
	}
	return most
}

// ETag is the header for a revision of an answer: the same revision, the same bytes.
func ETag(revision string) string { return `"` + revision + `"` }
