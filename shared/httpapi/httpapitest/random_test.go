package httpapitest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

const testDocument = `{
	"openapi": "3.1.0", "servers": [{"url": "/api/v1"}],
	"components": {"schemas": {
		"Problem": {"type": "object", "required": ["status", "code", "detail"]},
		"Thing": {"type": "object", "required": ["name"], "additionalProperties": false, "properties": {"name": {"type": "string"}, "size": {"type": ["integer", "null"]}}}
	}},
	"paths": {"/things/{id}": {"post": {
		"operationId": "put-thing",
		"parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string", "pattern": "^[a-z]{1,5}$"}}],
		"requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}},
		"responses": {
			"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}},
			"401": {"content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}},
			"422": {"content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}}
		}
	}}}
}`

// recorder is a test whose failures are kept.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper()             {}
func (r *recorder) Logf(string, ...any) {}
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatal(args ...any) {
	r.failures = append(r.failures, fmt.Sprint(args...))
	panic(r)
}

// TestRandomFindsWhatIsWrong serves the document rightly, and wrongly.
func TestRandomFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	problem := func(w http.ResponseWriter, status int) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"status":%d,"code":"c","detail":"d"}`, status)
	}
	thing := func(w http.ResponseWriter, body string) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, body)
	}
	cases := []struct {
		name string
		good func(w http.ResponseWriter)
		says string // empty: nothing is wrong
	}{
		{"as documented", func(w http.ResponseWriter) { thing(w, `{"name":"a","size":null}`) }, ""},
		{"a failure", func(w http.ResponseWriter) { problem(w, 500) }, "a failure of the service"},
		{"another status", func(w http.ResponseWriter) { problem(w, 418) }, "documents no such status"},
		{"another content type", func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/plain"); _, _ = fmt.Fprint(w, "x") }, "text/plain is not documented"},
		{"a field too many", func(w http.ResponseWriter) { thing(w, `{"name":"a","colour":"blue"}`) }, "colour"},
		{"another type", func(w http.ResponseWriter) { thing(w, `{"name":1}`) }, "/name"},
		{"no JSON", func(w http.ResponseWriter) { thing(w, `{`) }, "body"},
		{"always refused", func(w http.ResponseWriter) { problem(w, 422) }, "not both done and refused"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/api/v1/things/")
				switch {
				case !ok || rest == "" || strings.Contains(rest, "/"):
					problem(w, 404)
				case r.Method != http.MethodPost:
					problem(w, 405)
				case r.Header.Get("X-Api-Key") != "key":
					problem(w, 401)
				case r.ContentLength < 10:
					problem(w, 422)
				default:
					c.good(w)
				}
			})
			r := &recorder{TB: t}
			func() {
				defer func() {
					if p := recover(); p != nil && p != any(r) {
						panic(p)
					}
				}()
				Random(r, Config{Handler: handler, Document: []byte(testDocument), Headers: http.Header{"X-Api-Key": {"key"}}, Requests: 200, Seed: 1, Timeout: time.Minute})
			}()
			switch got := strings.Join(r.failures, "\n"); {
			case c.says == "" && got != "":
				t.Errorf("findings:\n%s", got)
			case !strings.Contains(got, c.says):
				t.Errorf("findings do not say %q:\n%s", c.says, got)
			}
		})
	}
}

func TestDocumentsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, document := range map[string]string{
		"no JSON": `{`, "no operations": `{"components":{"schemas":{"Problem":{}}},"paths":{}}`, "no problems": `{"paths":{}}`,
		"a reference to nothing": strings.ReplaceAll(testDocument, `"$ref": "#/components/schemas/Thing"}}}},
			"401"`, `"$ref": "#/components/schemas/Other"}}}},
			"401"`),
	} {
		if _, err := parse([]byte(document)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
