package v1alpha1_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
)

// A leaf is a place in an environment where a string can be.
type leaf struct {
	path string // as in FieldError; a map's is the map's own
	key  bool   // the string is a map's key
	set  func(*v1alpha1.Environment, string)
}

// leaves are all strings of an environment, found by reflection, so that none can be
// forgotten. Lists and maps have one element each.
func leaves() []leaf {
	var out []leaf
	collect(reflect.TypeFor[v1alpha1.Environment](), "", func(e *v1alpha1.Environment) reflect.Value {
		return reflect.ValueOf(e).Elem()
	}, &out)
	return out
}

func collect(t reflect.Type, path string, get func(*v1alpha1.Environment) reflect.Value, out *[]leaf) {
	switch {
	case t == reflect.TypeFor[metav1.Time](), t == reflect.TypeFor[metav1.FieldsV1]():
	case t.Kind() == reflect.String:
		*out = append(*out, leaf{path, false, func(e *v1alpha1.Environment, s string) { get(e).SetString(s) }})
	case t.Kind() == reflect.Pointer:
		collect(t.Elem(), path, func(e *v1alpha1.Environment) reflect.Value {
			v := get(e)
			if v.IsNil() {
				v.Set(reflect.New(t.Elem()))
			}
			return v.Elem()
		}, out)
	case t.Kind() == reflect.Slice:
		collect(t.Elem(), path+"[0]", func(e *v1alpha1.Environment) reflect.Value {
			v := get(e)
			if v.Len() == 0 {
				v.Set(reflect.MakeSlice(t, 1, 1))
			}
			return v.Index(0)
		}, out)
	case t.Kind() == reflect.Map:
		entry := func(e *v1alpha1.Environment, key, value string) {
			m := reflect.MakeMap(t)
			m.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(value))
			get(e).Set(m)
		}
		*out = append(*out,
			leaf{path, true, func(e *v1alpha1.Environment, s string) { entry(e, s, "v") }},
			leaf{path, false, func(e *v1alpha1.Environment, s string) { entry(e, "K", s) }})
	case t.Kind() == reflect.Struct:
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			at := path
			if name != "" {
				at = strings.TrimPrefix(path+"."+strings.ToLower(name[:1])+name[1:], ".")
			}
			collect(f.Type, at, func(e *v1alpha1.Environment) reflect.Value { return get(e).FieldByIndex(f.Index) }, out)
		}
	}
}

// fill gives every field of a value a value of its own that is not zero.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.Repeat("x", *n%7+1))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8:
		v.SetUint(uint64(*n % 256))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[metav1.Time]() {
			v.Set(reflect.ValueOf(metav1.Unix(int64(*n), 0)))
			return
		}
		for _, f := range v.Fields() {
			fill(f, n)
		}
	default:
		panic("a field of a type that is not known here: " + v.Type().String())
	}
}

// memory collects the addresses of all that a value points to.
func memory(v reflect.Value, found map[uintptr]string, path string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && v.Type() != reflect.TypeFor[*metav1.Time]() {
			found[v.Pointer()] = path
			memory(v.Elem(), found, path)
		}
	case reflect.Slice:
		found[v.Pointer()] = path
		for i := range v.Len() {
			memory(v.Index(i), found, path+"[]")
		}
	case reflect.Map:
		found[v.Pointer()] = path
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[metav1.Time]() {
			return // its location is shared and never written
		}
		for f, field := range v.Fields() {
			memory(field, found, path+"."+f.Name)
		}
	default: // values
	}
}

func TestDeepCopy(t *testing.T) {
	t.Parallel()
	n := 0
	env := new(v1alpha1.Environment)
	fill(reflect.ValueOf(env).Elem(), &n)
	if n < 200 {
		t.Fatalf("only %d fields were filled", n)
	}
	got, _ := env.DeepCopyObject().(*v1alpha1.Environment)
	if diff := cmp.Diff(env, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	shares(t, reflect.ValueOf(env), reflect.ValueOf(got))

	list := &v1alpha1.EnvironmentList{Items: []v1alpha1.Environment{*env, *env.DeepCopy()}}
	copied, _ := list.DeepCopyObject().(*v1alpha1.EnvironmentList)
	if diff := cmp.Diff(list, copied); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	shares(t, reflect.ValueOf(list), reflect.ValueOf(copied))

	if (*v1alpha1.Environment)(nil).DeepCopy() != nil || (*v1alpha1.EnvironmentList)(nil).DeepCopyObject() != nil {
		t.Error("the copy of nil is not nil")
	}
}

func shares(t *testing.T, a, b reflect.Value) {
	t.Helper()
	original, copied := make(map[uintptr]string), make(map[uintptr]string)
	memory(a, original, "")
	memory(b, copied, "")
	for address, path := range copied {
		if _, shared := original[address]; shared {
			t.Errorf("%s is shared with the copy", path)
		}
	}
}
