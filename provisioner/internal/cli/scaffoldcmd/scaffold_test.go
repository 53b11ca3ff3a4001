package scaffoldcmd

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kubeopera/platform/provisioner/internal/cli/session"
	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/golden"
)

// fields are the paths of a request's fields, joined by dashes.
func fields(t reflect.Type, prefix string) []string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return []string{strings.TrimSuffix(prefix, "-")}
	}
	var all []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		all = append(all, fields(f.Type, prefix+strings.ReplaceAll(name, "_", "-")+"-")...)
	}
	return all
}

// TestEveryFieldHasAFlag: what the API takes can be said on the command line, and of
// secrets in which file they are.
func TestEveryFieldHasAFlag(t *testing.T) {
	t.Parallel()
	c := newCommands(&session.Session{})
	create, retry := c.create(), c.retry()
	inFiles := []string{"repository-token", "repository-ssh-key", "registry-password", "signing-key"}
	for _, field := range fields(reflect.TypeFor[api.ScaffoldRequest](), "") {
		flag := field
		if slices.Contains(inFiles, field) {
			flag += "-file"
			if create.Flags().Lookup(field) != nil {
				t.Errorf("the secret --%s is an argument", field)
			}
		}
		if create.Flags().Lookup(flag) == nil {
			t.Errorf("create has no flag --%s", flag)
		}
	}
	if len(secrets) != reflect.TypeFor[api.ScaffoldSecrets]().NumField() {
		t.Errorf("retry knows %d secrets, the API another number", len(secrets))
	}
	var q api.ScaffoldSecrets
	for _, s := range secrets {
		if f, ok := reflect.TypeFor[api.ScaffoldSecrets]().FieldByNameFunc(func(name string) bool {
			f, _ := reflect.TypeFor[api.ScaffoldSecrets]().FieldByName(name)
			field, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			return field == s.field
		}); !ok || reflect.ValueOf(&q).Elem().FieldByIndex(f.Index).Addr().Interface() != s.value(&q) {
			t.Errorf("%s is another field", s.field)
		}
		if retry.Flags().Lookup(s.flag) == nil || create.Flags().Lookup(s.flag) == nil {
			t.Errorf("no flag --%s", s.flag)
		}
	}
}

func TestWriteColoured(t *testing.T) {
	t.Parallel()
	diff := `diff --git a/x b/x
deleted file mode 100644
--- a/x
+++ b/x
@@ -1,3 +1,2 @@ heading
 same
--- was a line
-` + "\t\x1b[2Jgone" + `
+new
@@ -9 +8 @@
-old
+++ a line
\ No newline at end of file
diff --git a/y b/y
@@ broken
+ no line of a hunk`
	var out bytes.Buffer
	if err := writeColoured(&out, []byte(diff)); err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "diff.txt", []byte(strings.ReplaceAll(out.String(), "\x1b", `\e`)+"\n"))
}

// FuzzWriteColoured: without the colours it is the text, and nothing else steers a
// terminal.
func FuzzWriteColoured(f *testing.F) {
	f.Add([]byte("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n"))
	f.Add([]byte("@@ -1,99999999999999999999 +1 @@\n-\x1b[2J\r\n"))
	f.Fuzz(func(t *testing.T, diff []byte) {
		var out bytes.Buffer
		if err := writeColoured(&out, diff); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		for _, colour := range []string{"\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[36m", "\x1b[0m"} {
			text = strings.ReplaceAll(text, colour, "")
		}
		if strings.Contains(text, "\x1b") || strings.Count(text, "\n") != bytes.Count(diff, []byte("\n")) {
			t.Errorf("%q became %q", diff, out.String())
		}
	})
}
