package ssm

import (
	"strings"
	"testing"
)

// FuzzReference checks that what is accepted is a name that could be created,
// and that writing it down again means the same.
func FuzzReference(f *testing.F) {
	for _, s := range []string{
		"/a/b", "a", "/a:3", "/a:label", "arn:aws:ssm:eu-central-1:123456789012:parameter/a/b:2", "arn:aws:ssm:x:y:parameter/a",
		"arn:aws:ssm::::", ":", "/a:", "/a:01", "/a:9999999999999999999", "/a//b", "/a/", "a/b", "/aws/service/x", strings.Repeat("/x", 16),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseReference(s)
		if err != nil {
			return
		}
		if r.version != 0 && r.label != "" || r.version < 0 {
			t.Errorf("%q: version %d and label %q", s, r.version, r.label)
		}
		if again, err := parseReference(r.name + r.selector()); err != nil || again.name != r.name || again.version != r.version || again.label != r.label {
			t.Errorf("%q: %+v, again %+v, %v", s, r, again, err)
		}
		if err := checkName("/x/" + strings.TrimPrefix(r.name, "/")); err != nil && len(r.name) < 1000 && strings.Count(r.name, "/") < 14 {
			t.Errorf("%q: a name that cannot be created: %v", s, err)
		}
	})
}

// FuzzName checks that what can be created can be referred to, by name and ARN.
func FuzzName(f *testing.F) {
	for _, s := range []string{"/a/b", "a", "", "/", "a b", "/ssm/x", "awsx", "/a.b_c-d", "ä", "/a\n", "arn:aws:ssm:r:a:parameter/x"} {
		f.Add(s)
	}
	service, err := New(Config{AccountID: "123456789012"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if checkName(name) != nil {
			return
		}
		r, err := parseReference(name)
		if err != nil || r.name != name {
			t.Fatalf("%q: %+v, %v", name, r, err)
		}
		byARN, err := parseReference(service.arn("eu-central-1", name))
		if err != nil || strings.TrimPrefix(byARN.name, "/") != strings.TrimPrefix(name, "/") {
			t.Errorf("%q by ARN: %+v, %v", name, byARN, err)
		}
	})
}
