package v1alpha1_test

import (
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/api/v1alpha1"
)

// Whatever a file holds: it is refused with FieldErrors, or it can be written and
// read again without a change.
func FuzzDecode(f *testing.F) {
	for _, folder := range []string{"ok", "bad"} {
		for _, data := range samples(f, folder) {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		env, err := v1alpha1.Decode(data)
		if err != nil {
			var errs v1alpha1.FieldErrors
			if !errors.As(err, &errs) || len(errs) == 0 {
				t.Fatalf("not FieldErrors: %v", err)
			}
			return
		}
		text, err := json.Marshal(env)
		if err != nil {
			t.Fatal(err)
		}
		again, err := v1alpha1.Decode(text)
		if err != nil {
			t.Fatalf("written and not readable: %v\n%s", err, text)
		}
		env.SetDefaults()
		again.SetDefaults()
		_ = env.Validate()
		if diff := cmp.Diff(env, again); diff != "" {
			t.Fatalf("written and read again (-want +got):\n%s", diff)
		}
	})
}

// Whatever is in two fields: defaults do not change what Validate thinks of an
// environment that it accepts, and setting them twice is setting them once.
func FuzzValidate(f *testing.F) {
	all := leaves()
	for i := range all {
		f.Add(i, "v1.36.3", i/2, "a")
	}
	f.Fuzz(func(t *testing.T, i int, a string, j int, b string) {
		env := &v1alpha1.Environment{}
		env.APIVersion, env.Kind = v1alpha1.APIVersion, v1alpha1.Kind
		env.Spec.Kubernetes.Install = i%2 == 0
		env.Spec.NVIDIADriver.Install = j%2 == 0
		all[uint(i)%uint(len(all))].set(env, a)
		all[uint(j)%uint(len(all))].set(env, b)
		before := env.Validate()
		env.SetDefaults()
		if after := env.Validate(); before == nil && after != nil {
			t.Fatalf("valid without defaults, but with them: %v", after)
		}
		once := env.DeepCopy()
		env.SetDefaults()
		if diff := cmp.Diff(once, env); diff != "" {
			t.Fatalf("defaults set again (-once +twice):\n%s", diff)
		}
		if before != nil && !utf8.ValidString(before.Error()) {
			t.Fatal("the message is not valid UTF-8")
		}
	})
}
