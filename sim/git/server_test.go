package git_test

import (
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"go.uber.org/goleak"

	"github.com/kubeopera/platform/sim/git"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCloneOverHTTPS(t *testing.T) {
	server, err := git.Start(t.Context(), t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	repository, err := server.Create(t.Context(), "modules")
	if err != nil {
		t.Fatal(err)
	}
	first, err := repository.Commit(t.Context(), "first", map[string]fs.FS{"a": fstest.MapFS{"one.tf": {Data: []byte("1")}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := repository.Tag(t.Context(), "v1", first); err != nil {
		t.Fatal(err)
	}
	if _, err := repository.Commit(t.Context(), "second", map[string]fs.FS{".": fstest.MapFS{"b.tf": {Data: []byte("2")}}}); err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, server.CA(), 0o600); err != nil {
		t.Fatal(err)
	}

	tests := []struct {
		name, ref string
		ca        string
		wantFile  string
		wantErr   string
	}{
		{name: "the branch has only the newest tree", ref: git.Branch, ca: ca, wantFile: "b.tf"},
		{name: "a tag stays at its commit", ref: "v1", ca: ca, wantFile: "a/one.tf"},
		{name: "a client that does not know the CA is refused", ref: git.Branch, wantErr: "certificate"},
		{name: "a ref that does not exist", ref: "nope", ca: ca, wantErr: "nope"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "clone")
			cmd := exec.CommandContext(t.Context(), "git", "clone", "--quiet", "--depth=1", "--branch", test.ref, repository.URL(), dir)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1"} //nolint:forbidigo // git is found on the user's PATH
			if test.ca != "" {
				cmd.Env = append(cmd.Env, "GIT_SSL_CAINFO="+test.ca)
			}
			out, err := cmd.CombinedOutput()
			if test.wantErr != "" {
				if err == nil || !strings.Contains(string(out), test.wantErr) {
					t.Fatalf("got %v, %s; want an error with %q", err, out, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if _, err := os.Stat(filepath.Join(dir, test.wantFile)); err != nil {
				t.Error(err)
			}
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			if len(entries) != 2 { // .git and the one entry of the tree
				t.Errorf("the clone has %d entries, want 2", len(entries))
			}
		})
	}
}
