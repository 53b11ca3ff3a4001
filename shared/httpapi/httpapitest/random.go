package httpapitest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/kubeopera/platform/shared/api"
)

// Config is what Random needs.
type Config struct {
	Handler  http.Handler
	Document []byte // OpenAPI 3.1, as the service serves it
	// Headers are those of every request: the API key.
	Headers  http.Header
	Requests int
	Seed     uint64
	// Timeout is how long a request may take before its client goes away.
	Timeout time.Duration
	// Values make fields and parameters, by name, whose schema says less than the
	// service's rules: names of what exists, and what passes the rules.
	Values map[string]func(*rand.Rand) any
	// Usual are fields that the schemas leave optional and most valid requests have.
	Usual []string
	// Before is called before each request, to change what the service sees.
	Before func(*rand.Rand)
}

// maxFindings is when Random gives up.
const maxFindings = 20

// Random sends requests made from a service's OpenAPI document, some valid, some
// nearly, some broken, and holds every answer against it: the status and the
// content type are documented, the body is valid by its schema, and none is 5xx.
// Each operation must have succeeded and been refused at least once, else the
// requests were not worth sending. The same seed sends the same requests, as far
// as the service's answers are the same.
func Random(tb testing.TB, cfg Config) {
	tb.Helper()
	doc, err := parse(cfg.Document)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Logf("seed %d, %d requests", cfg.Seed, cfg.Requests)
	g := generator{Rand: rand.New(rand.NewPCG(cfg.Seed, 0)), doc: doc, values: cfg.Values, usual: cfg.Usual}
	seen := map[string]map[int]int{} // operation → status → answers
	findings := 0
	for i := range cfg.Requests {
		if cfg.Before != nil {
			cfg.Before(g.Rand)
		}
		op := &doc.operations[g.IntN(len(doc.operations))]
		var r request
		switch n := g.IntN(10); {
		case n < 5:
			r, _ = g.valid(op, cfg.Headers)
		case n < 8:
			r = g.nearly(op, cfg.Headers)
		default:
			r = g.broken(op, cfg.Headers)
		}
		answer := send(tb.Context(), cfg, r)
		if err := doc.check(r, answer); err != nil {
			tb.Errorf("request %d of seed %d, %s: %v\n%s\n→ %d %s", i, cfg.Seed, r.what, err, r, answer.Code, cut(answer.Body.Bytes()))
			if findings++; findings == maxFindings {
				tb.Fatal("too many findings")
			}
		}
		if r.op != nil {
			if seen[r.op.id] == nil {
				seen[r.op.id] = map[int]int{}
			}
			seen[r.op.id][answer.Code]++
		}
	}
	for _, op := range doc.operations {
		tb.Logf("%-28s %v", op.id, seen[op.id])
		statuses := slices.Collect(maps.Keys(seen[op.id]))
		if !slices.ContainsFunc(statuses, func(s int) bool { return s < 300 }) || !slices.ContainsFunc(statuses, func(s int) bool { return s >= 400 }) {
			tb.Errorf("%s was not both done and refused: %v", op.id, seen[op.id])
		}
	}
}

// send sends a request and gives the answer, or what of it came before it was cut.
func send(ctx context.Context, cfg Config, r request) *httptest.ResponseRecorder {
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	target := "http://service" + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(r.body))
	if err != nil { // the generator escapes what it puts into a path
		panic(err)
	}
	req.Header = r.header.Clone()
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if p := recover(); p != nil {
				if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
					panic(p)
				}
			}
		}()
		cfg.Handler.ServeHTTP(w, req)
	}()
	return w
}

// clientGone is what no client sees: it went away before there was an answer.
const clientGone = 499

// check holds an answer against the document.
func (d *document) check(r request, w *httptest.ResponseRecorder) error {
	if w.Code == clientGone {
		return nil
	}
	if w.Code >= http.StatusInternalServerError {
		return errors.New("a failure of the service")
	}
	media, _, err := mime.ParseMediaType(w.Header().Get("Content-Type"))
	if err != nil && w.Body.Len() > 0 {
		return fmt.Errorf("content type: %w", err)
	}
	if r.op == nil {
		if !slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnauthorized}, w.Code) || media != api.ProblemContentType {
			return fmt.Errorf("no operation is there, but the answer is %s", media)
		}
		return valid(d.problem, w)
	}
	documented, ok := r.op.responses[strconv.Itoa(w.Code)]
	if !ok {
		return fmt.Errorf("%s documents no such status, only %v", r.op.id, slices.Sorted(maps.Keys(r.op.responses)))
	}
	if len(documented) == 0 {
		if w.Body.Len() > 0 {
			return errors.New("a body where none is documented")
		}
		return nil
	}
	schema, ok := documented[media]
	if !ok {
		return fmt.Errorf("content type %s is not documented", media)
	}
	if !strings.HasSuffix(media, "json") {
		return nil // any text
	}
	return valid(schema, w)
}

// valid says what is wrong with a JSON body.
func valid(schema *jsonschema.Schema, w *httptest.ResponseRecorder) error {
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		return fmt.Errorf("body: %w", err)
	}
	if err := schema.Validate(body); err != nil {
		return fmt.Errorf("body: %w", err)
	}
	var p api.Problem
	if w.Code >= http.StatusBadRequest && (json.Unmarshal(w.Body.Bytes(), &p) != nil || p.Status != w.Code || p.Code == "" || p.Detail == "") {
		return errors.New("a problem without code or detail, or of another status")
	}
	return nil
}

// String is the request as a report shows it, without its key.
func (r request) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s?%s\n", r.method, r.path, r.query.Encode())
	for _, name := range slices.Sorted(maps.Keys(r.header)) {
		if name != "X-Api-Key" {
			fmt.Fprintf(&b, "%s: %q\n", name, r.header[name])
		}
	}
	b.WriteString(cut(r.body))
	return b.String()
}

func cut(text []byte) string {
	const most = 2000
	if len(text) > most {
		return fmt.Sprintf("%q… (%d bytes)", text[:most], len(text))
	}
	return fmt.Sprintf("%q", text)
}
