package git_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/sim/git"
)

func TestAnEmptyRepositoryTakesAFirstPush(t *testing.T) {
	server := start(t)
	repository, _ := create(t, server, "empty", nil)
	repository.Allow(git.Grant{Password: "token"})
	if branches, err := repository.Branches(t.Context()); err != nil || len(branches) != 0 {
		t.Fatalf("branches are %v, %v", branches, err)
	}
	c := newClient(t, server)
	c.clone(as(repository.URL(), "x", "token"))
	c.must("push", "--quiet", "origin", "HEAD:refs/heads/main")
	if commits, err := repository.Commits(t.Context(), git.Branch); err != nil || len(commits) != 1 {
		t.Errorf("commits are %v, %v; want one", commits, err)
	}
}

func TestARepositoryWithoutTheUsualBranch(t *testing.T) {
	server := start(t)
	repository, _ := create(t, server, "platform", nil)
	if _, err := repository.AddTo(t.Context(), "trunk", "first", tree(map[string]string{"README": "hello\n"})); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, server)
	c.refused("main not found", "clone", "--branch", "main", repository.URL(), c.dir)
	c.must("clone", "--quiet", "--branch", "trunk", repository.URL(), c.dir)
}

func TestAddToKeepsOtherFiles(t *testing.T) {
	server := start(t)
	repository, _ := create(t, server, "platform", map[string]string{"a/one": "1", "a/two": "2"})
	if _, err := repository.AddTo(t.Context(), git.Branch, "more", tree(map[string]string{"a/two": "zwei", "b": "three"})); err != nil {
		t.Fatal(err)
	}
	files, err := repository.Files(t.Context(), git.Branch)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]byte{"a/one": []byte("1"), "a/two": []byte("zwei"), "b": []byte("three")}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestFilesKeepTheirBytes(t *testing.T) {
	server := start(t)
	files := map[string]string{
		"crlf.yaml": "kind: A\r\nmetadata:\r\n  name: b\r\n", "empty": "", "same": "twice", "also/same": "twice",
		"no line end": "text\n\nmore", "ünïcode": "\x00\x01\xff",
	}
	repository, commit := create(t, server, "platform", files)
	got, err := repository.Files(t.Context(), commit)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]byte{}
	for name, content := range files {
		want[name] = []byte(content)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	c := newClient(t, server)
	c.must("clone", "--quiet", repository.URL(), c.dir)
	if content, err := os.ReadFile(filepath.Join(c.dir, "crlf.yaml")); err != nil || string(content) != files["crlf.yaml"] {
		t.Errorf("a client reads %q, %v", content, err)
	}
}

// TestScanSeesWhatNoBranchHas: a secret that was pushed and then overwritten is
// still there.
func TestScanSeesWhatNoBranchHas(t *testing.T) {
	server := start(t)
	repository, _ := create(t, server, "platform", nil)
	repository.Allow(git.Grant{Password: "token"})
	c := newClient(t, server)
	c.clone(as(repository.URL(), "x", "token"))
	c.must("push", "--quiet", "origin", "HEAD:refs/heads/main")
	if err := os.WriteFile(filepath.Join(c.dir, "own.txt"), []byte("yours\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.must("commit", "--quiet", "--all", "--amend", "-m", "password: hunter2")
	c.must("push", "--quiet", "--force", "origin", "HEAD:main")

	found := map[string]string{}
	if err := repository.Scan(t.Context(), func(o git.Object) error {
		for _, text := range []string{"mine", "yours", "hunter2", "nobody's"} {
			if bytes.Contains(o.Content, []byte(text)) {
				found[text] = o.Kind
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"mine": "blob", "yours": "blob", "hunter2": "commit"}, found); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}

func TestALongHistoryCanBeClonedShallow(t *testing.T) {
	server := start(t)
	repository, _ := create(t, server, "huge", nil)
	const count, size = 20, 100_000
	if err := repository.Fill(t.Context(), git.Branch, count, size, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := repository.AddTo(t.Context(), git.Branch, "last", tree(map[string]string{"README": "hello\n"})); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, server)
	c.must("clone", "--quiet", "--depth=1", repository.URL(), c.dir)
	if commits := strings.Count(c.must("rev-list", "HEAD"), "\n"); commits != 1 {
		t.Errorf("the clone has %d commits, want 1", commits)
	}
	if n := bytesBelow(t, filepath.Join(c.dir, ".git", "objects")); n > 2*size {
		t.Errorf("the shallow clone has %d bytes, want about %d", n, size)
	}
	if n := bytesBelow(t, filepath.Join(repository.Dir(), "objects")); n < count*size {
		t.Errorf("the repository has %d bytes, want at least %d", n, count*size)
	}
}

func bytesBelow(t *testing.T, dir string) (total int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}
