package git_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubeopera/platform/sim/git"
)

func TestCloneOverHTTPS(t *testing.T) {
	server := start(t)
	repository, err := server.Create(t.Context(), "modules")
	if err != nil {
		t.Fatal(err)
	}
	first, err := repository.Commit(t.Context(), "first", map[string]fs.FS{"a": tree(map[string]string{"one.tf": "1"})})
	if err != nil {
		t.Fatal(err)
	}
	if err := repository.Tag(t.Context(), "v1", first); err != nil {
		t.Fatal(err)
	}
	if _, err := repository.Commit(t.Context(), "second", map[string]fs.FS{".": tree(map[string]string{"b.tf": "2"})}); err != nil {
		t.Fatal(err)
	}

	tests := []struct {
		name, ref string
		stranger  bool // does not know the CA
		wantFile  string
		wantErr   string
	}{
		{name: "the branch has only the newest tree", ref: git.Branch, wantFile: "b.tf"},
		{name: "a tag stays at its commit", ref: "v1", wantFile: "a/one.tf"},
		{name: "a client that does not know the CA is refused", ref: git.Branch, stranger: true, wantErr: "certificate"},
		{name: "a ref that does not exist", ref: "nope", wantErr: "nope"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newClient(t, server)
			if test.stranger {
				c.env = slices.DeleteFunc(c.env, func(v string) bool { return strings.HasPrefix(v, "GIT_SSL_CAINFO=") })
			}
			args := []string{"clone", "--quiet", "--depth=1", "--branch", test.ref, repository.URL(), c.dir}
			if test.wantErr != "" {
				c.refused(test.wantErr, args...)
				return
			}
			c.must(args...)
			if _, err := os.Stat(filepath.Join(c.dir, test.wantFile)); err != nil {
				t.Error(err)
			}
			entries, err := os.ReadDir(c.dir)
			if err != nil {
				t.Fatal(err)
			}
			if len(entries) != 2 { // .git and the one entry of the tree
				t.Errorf("the clone has %d entries, want 2", len(entries))
			}
		})
	}
}

func TestPasswordsOverHTTPS(t *testing.T) {
	server := start(t)
	repository, _ := create(t, server, "platform", map[string]string{"README": "hello\n"})
	repository.Allow(git.Grant{Username: "reader", Password: "read", ReadOnly: true})
	repository.Allow(git.Grant{Password: "token"})

	tests := []struct {
		name, url string
		wantClone string // refusal; empty: allowed
		wantPush  string
	}{
		{name: "nobody", url: repository.URL(), wantClone: "could not read Username"},
		{name: "a wrong password", url: as(repository.URL(), "reader", "guess"), wantClone: "Authentication failed"},
		{name: "another's password", url: as(repository.URL(), "writer", "read"), wantClone: "Authentication failed"},
		{name: "a reader", url: as(repository.URL(), "reader", "read"), wantPush: "403"},
		{name: "a token under any name", url: as(repository.URL(), "x-access-token", "token")},
		{name: "a repository that does not exist", url: as(repository.URL(), "a", "token") + "s", wantClone: "not found"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newClient(t, server)
			if test.wantClone != "" {
				c.refused(test.wantClone, "clone", test.url, c.dir)
				return
			}
			c.clone(test.url)
			if test.wantPush != "" {
				c.refused(test.wantPush, "push", "origin", "HEAD:main")
				return
			}
			c.must("push", "--quiet", "origin", "HEAD:main")
			head := c.must("rev-parse", "HEAD")
			branches, err := repository.Branches(t.Context())
			if err != nil || branches["main"]+"\n" != head {
				t.Errorf("main is at %s, %v; want %s", branches["main"], err, head)
			}
		})
	}
	t.Run("everybody, once access is revoked", func(t *testing.T) {
		repository.Revoke()
		c := newClient(t, server)
		c.refused("Authentication failed", "clone", as(repository.URL(), "x", "token"), c.dir)
	})
}

func TestKeysOverSSH(t *testing.T) {
	server := start(t)
	repository, _ := create(t, server, "platform", map[string]string{"README": "hello\n"})
	other, _ := create(t, server, "other", map[string]string{"README": "hello\n"})

	writer, writerKey := newClient(t, server).useKey(server.KnownHosts())
	repository.Allow(git.Grant{Key: writerKey})
	reader, readerKey := newClient(t, server).useKey(server.KnownHosts())
	repository.Allow(git.Grant{Key: readerKey, ReadOnly: true})

	t.Run("a key that may write", func(t *testing.T) {
		writer.t = t
		writer.clone(repository.SSHURL())
		writer.must("push", "--quiet", "origin", "HEAD:main")
	})
	t.Run("a key that may read", func(t *testing.T) {
		reader.t = t
		reader.clone(repository.SSHURL())
		reader.refused("marked as read only", "push", "origin", "HEAD:main")
	})
	t.Run("another's repository is not found", func(t *testing.T) {
		reader.t = t
		reader.refused("Repository not found", "clone", other.SSHURL(), filepath.Join(t.TempDir(), "other"))
	})
	t.Run("an unknown key", func(t *testing.T) {
		c, _ := newClient(t, server).useKey(server.KnownHosts())
		c.refused("Permission denied", "clone", repository.SSHURL(), c.dir)
	})
	t.Run("a server whose key the client does not know", func(t *testing.T) {
		c, key := newClient(t, server).useKey(start(t).KnownHosts())
		repository.Allow(git.Grant{Key: key})
		c.refused("Host key verification failed", "clone", repository.SSHURL(), c.dir)
	})
}
