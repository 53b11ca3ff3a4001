package httpapi

import (
	"encoding/json"
	"testing"
)

func TestDuplicate(t *testing.T) {
	t.Parallel()
	tests := []struct{ body, want string }{
		{`{"a":1,"b":{"a":1},"c":[{"a":1},{"a":1}]}`, ""},
		{`{"a":1,"a":2}`, "body.a"},
		{`{"a":1,"\u0061":2}`, "body.a"},
		{`{"":1,"":2}`, "body."},
		{`{"":1,"a":2}`, ""},
		{`{"a":{"b":1,"c":{},"b":2}}`, "body.a.b"},
		{`{"m":[[],{"x":1},{"y":[1,2,{"x":1,"x":1}]}]}`, "body.m[2].y[2].x"},
		{`[{"a":"a"},"a","a"]`, ""},
		{`{"a":"a","b":"a"}`, ""},
		{`"a"`, ""},
	}
	for _, tt := range tests {
		if got := duplicate([]byte(tt.body)); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.body, got, tt.want)
		}
	}
}

func TestCheckJSONSaysWhere(t *testing.T) {
	t.Parallel()
	tests := []struct{ body, want string }{
		{"{\n  \"a\": tru,\n}", "the body is not valid JSON: line 2, column 11"},
		{`{"a":1}}`, "the body is not valid JSON: line 1, column 8"},
		{`{"a":`, "the body is not valid JSON: line 1, column 5"},
		{"\xef\xbb\xbf{}", "the body is not valid JSON: line 1, column 1"},
	}
	for _, tt := range tests {
		if p := checkJSON([]byte(tt.body)); p == nil || p.Detail != tt.want {
			t.Errorf("%q: got %v, want %q", tt.body, p, tt.want)
		}
	}
}

func FuzzCheckJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":null}]}`, `{"a":1,"a":2}`, `[`, `{"":{"":1}}`, "\xff", `{"a":"}"}`, " "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		p := checkJSON([]byte(body))
		if p == nil && !json.Valid([]byte(body)) {
			t.Errorf("%q was let through", body)
		}
		if p != nil && p.Code == CodeDuplicateField && !json.Valid([]byte(body)) {
			t.Errorf("%q: not even JSON, but %v", body, p)
		}
		// One name for each value: re-encoding loses nothing.
		var v any
		if p == nil && json.Unmarshal([]byte(body), &v) == nil && countNames(v) != countColons(t, body) {
			t.Errorf("%q has a name twice", body)
		}
	})
}

func countNames(v any) int {
	n := 0
	switch v := v.(type) {
	case map[string]any:
		n = len(v)
		for _, child := range v {
			n += countNames(child)
		}
	case []any:
		for _, child := range v {
			n += countNames(child)
		}
	}
	return n
}

// countColons counts those outside of strings: one for each name.
func countColons(tb testing.TB, body string) int {
	tb.Helper()
	n, quoted := 0, false
	for i := 0; i < len(body); i++ {
		switch {
		case quoted && body[i] == '\\':
			i++
		case body[i] == '"':
			quoted = !quoted
		case !quoted && body[i] == ':':
			n++
		}
	}
	return n
}
