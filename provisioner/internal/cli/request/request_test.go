package request_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/kubeopera/platform/provisioner/internal/cli/exit"
	"github.com/kubeopera/platform/provisioner/internal/cli/request"
	"github.com/kubeopera/platform/shared/api"
)

// thing is a request of these tests.
type thing struct {
	Name  string            `json:"name,omitempty"`
	Count *int              `json:"count,omitempty"`
	On    bool              `json:"on,omitempty"`
	Zones []string          `json:"zones,omitempty"`
	Tags  map[string]string `json:"tags,omitempty"`
	Hosts string            `json:"hosts,omitempty"`
	Key   string            `json:"key,omitempty"`
}

// read parses a command line and gives the request.
func read(tb testing.TB, stdin string, args ...string) (thing, error) {
	tb.Helper()
	cmd := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true}
	f := request.New[thing](cmd)
	request.Text(f, "name", "", func(q *thing) *string { return &q.Name })
	request.Number(f, "count", "", func(q *thing) **int { return &q.Count })
	request.Bool(f, "on", "", func(q *thing) *bool { return &q.On })
	request.List(f, "zones", "", func(q *thing) *[]string { return &q.Zones })
	request.Map(f, "tags", "", func(q *thing) *map[string]string { return &q.Tags })
	request.Content(f, "hosts", "", func(q *thing) *string { return &q.Hosts })
	request.Secret(f, "key-file", "KEY", "the key", func(q *thing) *string { return &q.Key })
	var q thing
	cmd.RunE = func(*cobra.Command, []string) (err error) {
		q, err = f.Read(&request.Input{Stdin: strings.NewReader(stdin)})
		return err
	}
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(tb.Context())
	return q, err
}

func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	whole := file("whole.yaml", "name: a\ncount: 3\nzones: [x]\nkey: of the file\n")
	three := 3
	tests := []struct {
		name  string
		stdin string
		args  []string
		want  thing
	}{
		{"a file", "", []string{"-f", whole}, thing{Name: "a", Count: &three, Zones: []string{"x"}, Key: "of the file"}},
		{"flags over a file", "", []string{"-f", whole, "--name", "", "--count", "0", "--on", "--zones", "y,z", "--tags", "a=b"}, thing{Count: new(int), On: true, Zones: []string{"y", "z"}, Tags: map[string]string{"a": "b"}, Key: "of the file"}},
		{"standard input as the file", `{"name": "a"}`, []string{"-f", "-"}, thing{Name: "a"}},
		{"a file's text as it is", "", []string{"--hosts", file("hosts", "a\nb\n")}, thing{Hosts: "a\nb\n"}},
		{"a secret of one line", "p a s s\r\n", []string{"--key-file", "-"}, thing{Key: "p a s s"}},
		{"a secret of several lines", "", []string{"--key-file", file("pem", "-----\nx\n-----\n")}, thing{Key: "-----\nx\n-----\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := read(t, tt.stdin, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for name, tt := range map[string]struct {
		stdin string
		args  []string
		want  string
	}{
		"standard input twice":  {"x", []string{"--hosts", "-", "--key-file", "-"}, "standard input is for one of"},
		"an empty secret":       {"\n", []string{"--key-file", "-"}, "there is nothing in it"},
		"no file":               {"", []string{"--key-file", ""}, "--key-file needs a file"},
		"a file that is not":    {"", []string{"--key-file", filepath.Join(dir, "none")}, "no such file"},
		"too much":              {strings.Repeat("x", 1<<20+1), []string{"--key-file", "-"}, "more than 1048576 bytes"},
		"another field":         {"colour: x", []string{"-f", "-"}, `unknown field "colour"`},
		"an unquoted number":    {"name: 1.30", []string{"-f", "-"}, "put the value in quotes"},
		"nothing":               {"# nothing", []string{"-f", "-"}, "it is empty"},
		"a secret as it is not": {"key: [canary]", []string{"-f", "-"}, "key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := read(t, tt.stdin, tt.args...)
			if err == nil || !strings.Contains(err.Error(), tt.want) || exit.Of(err) != exit.Usage || strings.Contains(err.Error(), "canary") {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// FuzzDecode: what is decoded can be decoded again from what is sent.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("name: acme\ntopology: eks\nworker_count: 3\ntags: {a: b}\n"))
	f.Add([]byte(`{"name": "acme", "machines": [{"address": "10.0.0.4", "role": "worker"}]}`))
	f.Add([]byte("kubernetes_version: 1.30"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var q, again api.ProvisionRequest
		if request.Decode(data, &q) != nil {
			return
		}
		sent, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		if err := request.Decode(sent, &again); err != nil {
			t.Fatalf("%s: %v", sent, err)
		}
		resent, err := json.Marshal(again)
		if err != nil {
			t.Fatal(err)
		}
		if string(sent) != string(resent) {
			t.Errorf("sent %s, then %s", sent, resent)
		}
	})
}
