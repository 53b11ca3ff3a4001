package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/kubeopera/platform/shared/api"
)

const (
	jsonType = "application/json"
	// maxBody is the most that a request body may have, in bytes.
	maxBody = 1 << 20
	// bodyTimeout is how long a body may take to arrive.
	bodyTimeout = 30 * time.Second
)

// readBody is a Huma middleware: it reads a JSON body in full and refuses what
// is not exactly one JSON value, before Huma validates it. Huma's own reading
// repeats parts of the body in its errors, accepts fields that are given twice,
// and leaves a read deadline behind that ends slow handlers.
func (a *API) readBody(ctx huma.Context, next func(huma.Context)) {
	body := ctx.Operation().RequestBody
	r, w := humachi.Unwrap(ctx)
	if body == nil && changes(r.Method) && r.ContentLength != 0 {
		// What the client says in it would be lost unseen. One that is announced and
		// does not come is no better.
		if _, err := io.ReadFull(r.Body, make([]byte, 1)); !errors.Is(err, io.EOF) {
			a.writeProblem(w, r, &api.Problem{Status: http.StatusBadRequest, Code: CodeBodyUnexpected, Detail: "this operation takes no body"})
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // it is an empty one: what is left to read is the client's leaving
	}
	if body == nil || body.Content[jsonType] == nil {
		next(ctx)
		return
	}
	data, p := readAll(w, r)
	if p == nil && (len(data) > 0 || body.Required) {
		p = checkJSON(data)
	}
	if p != nil {
		a.writeProblem(w, r, p)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	r.Header.Set("Content-Type", jsonType) // what readAll took may be written in other ways, which Huma does not know
	next(ctx)
}

// changes says that a method is not for reading only.
func changes(method string) bool { return method != http.MethodGet && method != http.MethodHead }

func readAll(w http.ResponseWriter, r *http.Request) ([]byte, *api.Problem) {
	if t := r.Header.Get("Content-Type"); t != "" {
		media, params, err := mime.ParseMediaType(t)
		charset := params["charset"]
		if err != nil || media != jsonType || charset != "" && !strings.EqualFold(charset, "utf-8") {
			return nil, &api.Problem{Status: http.StatusUnsupportedMediaType, Code: CodeUnsupportedMediaType, Detail: "send the body as " + jsonType + " in UTF-8"}
		}
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, &api.Problem{Status: http.StatusUnsupportedMediaType, Code: CodeUnsupportedMediaType, Detail: "send the body without Content-Encoding"}
	}
	control := http.NewResponseController(w)
	// Only servers on a real connection have deadlines; tests do without.
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		_ = control.SetReadDeadline(time.Time{})
		return data, nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, &api.Problem{Status: http.StatusRequestEntityTooLarge, Code: CodeBodyTooLarge, Detail: fmt.Sprintf("the body may have %d bytes at most", maxBody)}
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return nil, &api.Problem{Status: http.StatusRequestTimeout, Code: CodeBodyTimeout, Detail: "the body took too long to arrive"}
	}
	return nil, &api.Problem{Status: http.StatusBadRequest, Code: CodeBodyIncomplete, Detail: "the body ended early"}
}

// checkJSON is nil for one JSON value without duplicate names.
func checkJSON(data []byte) *api.Problem {
	bad := func(code, format string, args ...any) *api.Problem {
		return &api.Problem{Status: http.StatusBadRequest, Code: code, Detail: fmt.Sprintf(format, args...)}
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return bad(CodeBodyRequired, "a JSON body is required")
	}
	if !utf8.Valid(data) {
		return bad(CodeInvalidJSON, "the body is not UTF-8")
	}
	var raw json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		offset := len(data)
		if s, ok := errors.AsType[*json.SyntaxError](err); ok {
			offset = min(max(int(s.Offset)-1, 0), len(data))
		}
		before := data[:offset]
		return bad(CodeInvalidJSON, "the body is not valid JSON: line %d, column %d", bytes.Count(before, []byte("\n"))+1, offset-bytes.LastIndexByte(before, '\n'))
	}
	if at := duplicate(data); at != "" {
		p := bad(CodeDuplicateField, "a field occurs twice in one object")
		p.Errors = []api.FieldProblem{{Location: cut(at, maxLocation), Message: "occurs twice"}}
		return p
	}
	return nil
}

// duplicate is the location of a name that occurs twice in one object of valid
// JSON, empty if there is none.
func duplicate(data []byte) string {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	type level struct {
		names map[string]bool // nil for an array
		name  string          // the current name; empty while one is expected
		index int             // the current index of an array
	}
	var levels []level
	for {
		token, err := dec.Token()
		if err != nil { // the end: the syntax was checked
			return ""
		}
		top := len(levels) - 1
		if d, ok := token.(json.Delim); ok && (d == '}' || d == ']') {
			levels = levels[:top]
			top--
		} else if name, ok := token.(string); ok && top >= 0 && levels[top].names != nil && levels[top].name == "" {
			l := &levels[top]
			if l.names[name] {
				var at strings.Builder
				at.WriteString("body")
				for _, outer := range levels[:top] {
					if outer.names != nil {
						at.WriteString("." + outer.name)
					} else {
						fmt.Fprintf(&at, "[%d]", outer.index)
					}
				}
				return at.String() + "." + name
			}
			l.names[name] = true
			l.name = name
			if name == "" {
				l.name = "\x00" // a name may be empty; an expected one may not look like it
			}
			continue
		} else if ok := token == json.Delim('{'); ok || token == json.Delim('[') {
			l := level{}
			if ok {
				l.names = make(map[string]bool)
			}
			levels = append(levels, l)
			continue
		}
		if top >= 0 { // a value is complete
			levels[top].name = ""
			levels[top].index++
		}
	}
}

// formats is JSON with errors that do not repeat the value.
func formats() map[string]huma.Format {
	f := huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: unmarshal}
	return map[string]huma.Format{jsonType: f, "json": f}
}

// unmarshal is json.Unmarshal. What fails here has passed the validation: a
// number outside of its type's range, or a type that parses itself.
func unmarshal(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if err == nil {
		return nil
	}
	t, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return decodeError{message: "a value has not the form that its field wants"}
	}
	switch t.Type.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return decodeError{field: t.Field, message: "expected a smaller whole number, without fraction or exponent"}
	case reflect.Float32, reflect.Float64:
		return decodeError{field: t.Field, message: "the number is out of range"}
	default:
		return decodeError{field: t.Field, message: "has the wrong type"}
	}
}

// decodeError carries the field's name through Huma, which keeps only an
// error's text; fieldProblem takes it apart again.
type decodeError struct{ field, message string }

const decodeMark = "\x1f"

func (e decodeError) Error() string { return decodeMark + e.field + decodeMark + e.message }
