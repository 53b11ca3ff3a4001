package v1alpha1

import (
	"encoding/json"
	"reflect"
	"strings"
)

// A field is a key of a struct.
type field struct {
	name string
	typ  reflect.Type
}

// written is the key as files have it: some of holodeck's names begin with a capital
// letter that nobody writes.
func (f field) written() string { return strings.ToLower(f.name[:1]) + f.name[1:] }

type fieldList []field

// fields are the JSON fields of a struct, those of inlined structs included.
func fields(t reflect.Type) fieldList {
	var out fieldList
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && f.Anonymous:
			out = append(out, fields(f.Type)...)
		case name != "":
			out = append(out, field{name, f.Type})
		}
	}
	return out
}

func (l fieldList) find(key string) (field, bool) {
	for _, f := range l {
		if sameKey(f.name, key) {
			return f, true
		}
	}
	return field{}, false
}

func sameKey(a, b string) bool { return strings.EqualFold(a, b) }

func unmarshals(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}
