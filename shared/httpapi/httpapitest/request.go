package httpapitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// request is one that may be sent.
type request struct {
	op     *operation // nil: none of the document's
	method string
	path   string
	query  url.Values
	header http.Header
	body   []byte
	what   string // was done to it, for the report
}

// valid is a request that the document allows.
func (g generator) valid(op *operation, headers http.Header) (request, map[string]any) {
	r := request{op: op, method: op.method, path: g.doc.base + op.path, query: url.Values{}, header: headers.Clone(), what: "valid"}
	for _, p := range op.parameters {
		if !p.required && !g.chance(3) {
			continue
		}
		value := fmt.Sprint(g.value(p.name, p.schema))
		switch p.in {
		case "path":
			r.path = strings.ReplaceAll(r.path, "{"+p.name+"}", url.PathEscape(value))
		case "query":
			r.query.Set(p.name, value)
		case "header":
			r.header.Set(p.name, value)
		}
	}
	var body map[string]any
	if op.body != nil && (op.bodyRequired || g.chance(2)) {
		body = g.object(g.doc.resolve(op.body))
		r.body = encode(body)
		r.header.Set("Content-Type", "application/json")
	}
	return r, body
}

// nearly is a valid request with one thing wrong, more or less.
func (g generator) nearly(op *operation, headers http.Header) request {
	r, body := g.valid(op, headers)
	damages := []func() string{
		func() string { r.query.Set(g.text(nil), "1"); return "an unknown query parameter" },
		func() string {
			if len(op.parameters) == 0 {
				return "valid"
			}
			p := pick(g, op.parameters)
			value := fmt.Sprint(g.wrong())
			switch p.in {
			case "path":
				r.path = strings.ReplaceAll(g.doc.base+op.path, "{"+p.name+"}", url.PathEscape(value))
			case "query":
				r.query[p.name] = []string{value, value}[:1+g.IntN(2)]
			case "header":
				r.header.Set(p.name, value)
			}
			return "a wrong value of parameter " + p.name
		},
	}
	if len(body) > 0 {
		field := func() string { return pick(g, slices.Sorted(maps.Keys(body))) }
		damages = append(
			damages,
			func() string { name := field(); delete(body, name); r.body = encode(body); return "without " + name },
			func() string {
				name := field()
				body[name] = g.wrong()
				r.body = encode(body)
				return "a wrong value of " + name
			},
			func() string { body[g.text(nil)] = g.wrong(); r.body = encode(body); return "an unknown field" },
			func() string {
				name := field()
				r.body = append(append([]byte(`{`+string(encode(name))+`:1,`), r.body[1:len(r.body)-1]...), '}')
				return name + " twice"
			},
			func() string {
				name := field()
				body[strings.ToUpper(name)] = body[name]
				r.body = encode(body)
				return name + " in upper case too"
			},
		)
	}
	r.what = pick(g, damages)()
	return r
}

// broken is a request that no client should send.
func (g generator) broken(op *operation, headers http.Header) request {
	r, _ := g.valid(op, headers)
	damages := []func() string{
		func() string { r.path += "/" + url.PathEscape(pick(g, texts)); return "another path" },
		func() string {
			r.path = g.doc.base + "//" + strings.TrimPrefix(op.path, "/")
			return "a path with an empty part"
		},
		func() string {
			r.method = pick(g, []string{"PUT", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW", "get"})
			return "another method"
		},
		func() string { r.header.Del("X-Api-Key"); return "without a key" },
		func() string { r.header.Set("X-Api-Key", pick(g, texts[:14])); return "with another key" },
		func() string {
			r.header.Set("Content-Type", pick(g, []string{"text/plain", "application/json; charset=latin1", "application/xml", ";", "application/merge-patch+json"}))
			return "another content type"
		},
		func() string { r.header.Set("Content-Encoding", "gzip"); return "another encoding" },
		func() string {
			r.header.Set("Accept", pick(g, []string{"text/html", "application/cbor", "*/*", ";;", "application/json;q=0"}))
			return "another Accept"
		},
		func() string { r.body = nil; return "no body" },
		func() string {
			r.header.Set("Content-Type", "application/json")
			r.body = pick(g, [][]byte{
				[]byte(`{`), []byte(`{"name":`), []byte(`[]`), []byte(`null`), []byte(`"x"`), []byte(`1`), []byte(`{} {}`), []byte("\xff\xfe{}"), []byte(`{"a":1,"a":2}`),
				[]byte(`{"":{"":[[[{"":1}]]]}}`), bytes.Repeat([]byte(`[`), 20000), bytes.Repeat([]byte(`{"a":`), 20000), bytes.Repeat([]byte(" "), 1<<20+1), []byte(" \n"),
			})
			return "another body"
		},
		func() string {
			if len(r.body) < 2 {
				return "valid"
			}
			at := g.IntN(len(r.body))
			r.body = slices.Concat(r.body[:at], []byte{byte(g.IntN(256))}, r.body[at+1:])
			return "another byte"
		},
	}
	r.what = pick(g, damages)()
	r.op = g.doc.find(r.method, r.path)
	return r
}

// encode writes JSON. What the generator makes can be written.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}
