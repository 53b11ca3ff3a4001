package manifest_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/scaffoldrunner/internal/manifest"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		text string
		want []string
	}{
		{"nothing", "", nil},
		{"one", "a: 1\n", []string{"a: 1\n"}},
		{"a separator in front, with a comment", "--- # x\na: 1\n", []string{"a: 1\n"}},
		{"comments belong to what follows", "# a\na: 1\n---\n# b\nb: 2\n", []string{"# a\na: 1\n", "# b\nb: 2\n"}},
		{"documents without content", "---\n# only words\n---\na: 1\n---\n---\n", []string{"a: 1\n"}},
		{"Windows", "a: 1\r\n---\r\nb: 2\r\n", []string{"a: 1\r\n", "b: 2\r\n"}},
		{"dashes in a text", "a: |\n  ---\n  x\n", []string{"a: |\n  ---\n  x\n"}},
		{"dashes that are no separator", "---a: 1\n", []string{"---a: 1\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, doc := range manifest.Split([]byte(tt.text)) {
				got = append(got, string(doc))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("documents (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	o, err := manifest.Decode([]byte("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, namespace: b}\n"))
	if err != nil || o.Group() != "apps" || o.String() != "Deployment b/a" || o.ID() != "apps/Deployment/b/a" || !o.Is("apps", "Deployment") {
		t.Errorf("%+v, %v", o, err)
	}
	for _, text := range []string{"- op: add\n", "a: 1\n", "kind: Patch\n"} {
		if _, err := manifest.Decode([]byte(text)); !errors.Is(err, manifest.ErrNoObject) {
			t.Errorf("%q: %v, want ErrNoObject", text, err)
		}
	}
	for _, text := range []string{"a: 1\na: 2\n", "a: [", "\ta: 1"} {
		if _, err := manifest.Decode([]byte(text)); err == nil || errors.Is(err, manifest.ErrNoObject) {
			t.Errorf("%q: %v, want a parser's error", text, err)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add([]byte("a: 1\n---\nb: 2\n"))
	f.Add([]byte("a: 1\r\n--- # x\r\n\r\nb: 2"))
	f.Fuzz(func(t *testing.T, data []byte) {
		docs := manifest.Split(data)
		again := manifest.Split(manifest.Join(docs))
		var texts, texts2 [][]byte
		for _, d := range docs {
			texts = append(texts, bytes.TrimRight(d, "\r\n"))
		}
		for _, d := range again {
			texts2 = append(texts2, bytes.TrimRight(d, "\r\n"))
		}
		if len(docs) > 0 && bytes.HasSuffix(docs[len(docs)-1], []byte("\n")) && !cmp.Equal(texts, texts2) {
			t.Errorf("%q became %q", texts, texts2)
		}
		_, _ = manifest.Objects(data) // must not panic
	})
}
