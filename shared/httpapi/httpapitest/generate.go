package httpapitest

import (
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// generator makes values by their schemas.
type generator struct {
	*rand.Rand
	doc    *document
	values map[string]func(*rand.Rand) any
	usual  []string
}

// chance is true once in n times.
func (g generator) chance(n int) bool { return g.IntN(n) == 0 }

func pick[T any](g generator, from []T) T { return from[g.IntN(len(from))] }

// value is valid by the schema of the field or parameter of that name.
func (g generator) value(name string, schema map[string]any) any {
	schema = g.doc.resolve(schema)
	if known, ok := g.values[name]; ok && !g.chance(8) {
		return known(g.Rand)
	}
	if choices, ok := schema["enum"].([]any); ok {
		return pick(g, choices)
	}
	if examples, ok := schema["examples"].([]any); ok && len(examples) > 0 && !g.chance(8) {
		return pick(g, examples)
	}
	switch kind(schema) {
	case "object":
		return g.object(schema)
	case "array":
		list := []any{}
		for range g.IntN(4) {
			list = append(list, g.value(name, object(schema["items"])))
		}
		return list
	case "integer":
		return g.integer(schema)
	case "number":
		return g.NormFloat64() * 1000
	case "boolean":
		return g.chance(2)
	}
	return g.text(schema)
}

// kind is a schema's type, the one beside null if there are two.
func kind(schema map[string]any) string {
	if list, ok := schema["type"].([]any); ok {
		for _, t := range list {
			if t != "null" {
				return text(t)
			}
		}
	}
	return text(schema["type"])
}

func (g generator) object(schema map[string]any) map[string]any {
	out := map[string]any{}
	required, _ := schema["required"].([]any) // absent: none
	properties := object(schema["properties"])
	// One or two of the others: each is one more that the service's rules may refuse.
	others := max(4, len(properties)-len(required))
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		usual := slices.Contains(g.usual, name) && !g.chance(8)
		if slices.Contains(required, any(name)) || usual || g.chance(others) {
			out[name] = g.value(name, object(properties[name]))
		}
	}
	if more := object(schema["additionalProperties"]); more != nil {
		for range g.IntN(3) {
			out[g.text(nil)] = g.value("", more)
		}
	}
	return out
}

func (g generator) integer(schema map[string]any) any {
	low, high := -2, 12
	if n, ok := schema["minimum"].(float64); ok {
		low, high = int(n), int(n)+12
	}
	if n, ok := schema["maximum"].(float64); ok {
		high = int(n)
	}
	if high <= low {
		return low
	}
	return low + g.IntN(high-low+1)
}

// texts are strings that have broken services.
var texts = []string{
	"a", "x", "acme", "0", "-1", "null", "true", "A", "a b", "a-", "-a", "ünïcödé", "日本", "a\u0000b", "a\nb", "\u202e", "é", "e\u0301", "\ufeff",
	"../../etc/passwd", "${x}", "%{if true}", "$(id)", "`id`", "'; DROP TABLE provision_jobs; --", `"`, `\`, "<script>", "%00", "{}", "[]",
	"10.0.0.0/16", "0.0.0.0/0", "::/0", "arn:aws:iam::123456789012:role/x", "2026-11-30T00:00:00Z", "\U0001F600",
}

func (g generator) text(schema map[string]any) string {
	switch text(schema["format"]) {
	case "date-time":
		return time.Unix(g.Int64N(4e9), g.Int64N(1e9)).UTC().Format(time.RFC3339Nano)
	case "uuid":
		return g.hex(8) + "-" + g.hex(4) + "-7" + g.hex(3) + "-8" + g.hex(3) + "-" + g.hex(12)
	}
	if pattern := text(schema["pattern"]); pattern != "" {
		return rapid.StringMatching(pattern).Example(g.IntN(math.MaxInt32))
	}
	value := pick(g, texts)
	if g.chance(20) {
		value = strings.Repeat(value, 1+g.IntN(100))
	}
	if most, ok := schema["maxLength"].(float64); ok && len(value) > int(most) {
		value = strings.ToValidUTF8(value[:int(most)], "")
	}
	if least, ok := schema["minLength"].(float64); ok && len(value) < int(least) {
		value += strings.Repeat("a", int(least)-len(value))
	}
	return value
}

func (g generator) hex(n int) string {
	const digits = "0123456789abcdef"
	out := make([]byte, n)
	for i := range out {
		out[i] = digits[g.IntN(len(digits))]
	}
	return string(out)
}

// wrong is a value that hardly any schema takes.
func (g generator) wrong() any {
	return pick(g, []any{
		nil, true, -1, 0, 1.5, 1e300, json.Number("123456789012345678901234567890"), json.Number("1e400"), "", "\u0000", strings.Repeat("a", 5000),
		[]any{},
		[]any{nil},
		map[string]any{},
		map[string]any{"a": map[string]any{"b": []any{1}}},
		pick(g, texts),
	})
}
