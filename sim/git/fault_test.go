package git_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kubeopera/platform/sim/git"
)

func TestALostRace(t *testing.T) {
	for _, transport := range []string{"https", "ssh"} {
		t.Run(transport, func(t *testing.T) {
			server := start(t)
			repository, _ := create(t, server, "platform", map[string]string{"README": "hello\n"})
			repository.Allow(git.Grant{Password: "token"})
			c, url := newClient(t, server), as(repository.URL(), "x", "token")
			if transport == "ssh" {
				withKey, key := c.useKey(server.KnownHosts())
				repository.Allow(git.Grant{Key: key})
				c, url = withKey, repository.SSHURL()
			}
			c.clone(url)
			repository.Inject(git.Fault{Operation: git.Push, Skip: 1, Times: 2, Do: git.Land(git.Branch, tree(map[string]string{"theirs.txt": "theirs\n"}))})

			c.must("push", "--dry-run", "origin", "HEAD:main") // the one that is let pass
			c.refused("fetch first", "push", "origin", "HEAD:main")
			c.must("pull", "--quiet", "--rebase", "origin", "main")
			c.refused("fetch first", "push", "origin", "HEAD:main")
			c.must("pull", "--quiet", "--rebase", "origin", "main")
			c.must("push", "--quiet", "origin", "HEAD:main")

			commits, err := repository.Commits(t.Context(), git.Branch)
			if err != nil {
				t.Fatal(err)
			}
			var messages []string
			for _, commit := range commits {
				messages = append(messages, commit.Message)
			}
			if got, want := strings.Join(messages, ", "), "own change, somebody else's change, somebody else's change, first"; got != want {
				t.Errorf("the history is %s, want %s", got, want)
			}
			if commits[0].Author != "Ada <ada@example.org>" || len(commits[0].Parents) != 1 || commits[0].Parents[0] != commits[1].ID {
				t.Errorf("the newest commit is %+v", commits[0])
			}
			files, err := repository.Files(t.Context(), git.Branch)
			if err != nil {
				t.Fatal(err)
			}
			if len(files) != 3 || string(files["theirs.txt"]) != "theirs\n" || string(files["own.txt"]) != "mine\n" {
				t.Errorf("files are %q", files)
			}
		})
	}
}

func TestAProtectedBranch(t *testing.T) {
	for name, test := range map[string]struct {
		hoster git.Hoster
		want   []string
	}{
		"as GitHub says it": {git.GitHub, []string{
			"GH006: Protected branch update failed for refs/heads/main.", "[remote rejected] HEAD -> main (protected branch hook declined)",
		}},
		"as GitLab says it": {git.GitLab, []string{
			"GitLab: You are not allowed to push code to protected branches on this project.", "[remote rejected] HEAD -> main (pre-receive hook declined)",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			server := start(t)
			repository, first := create(t, server, "platform", map[string]string{"README": "hello\n"})
			repository.Allow(git.Grant{Password: "token"})
			if err := repository.Protect(t.Context(), git.Branch, test.hoster); err != nil {
				t.Fatal(err)
			}
			c := newClient(t, server)
			c.clone(as(repository.URL(), "x", "token"))
			for _, want := range test.want {
				c.refused(want, "push", "origin", "HEAD:main")
			}
			if branches, err := repository.Branches(t.Context()); err != nil || branches["main"] != first {
				t.Errorf("main is at %s, %v; want %s", branches["main"], err, first)
			}
			c.must("push", "--quiet", "origin", "HEAD:refs/heads/change") // as for a pull request

			merged, err := repository.Merge(t.Context(), "change", git.Branch)
			if err != nil {
				t.Fatal(err)
			}
			if files, err := repository.Files(t.Context(), merged); err != nil || string(files["own.txt"]) != "mine\n" {
				t.Errorf("the merge has %q, %v", files, err)
			}
			if err := repository.Unprotect(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.must("pull", "--quiet", "--rebase", "origin", "main")
			c.must("commit", "--quiet", "--allow-empty", "-m", "more")
			c.must("push", "--quiet", "origin", "HEAD:main")
		})
	}
}

func TestOtherRefusals(t *testing.T) {
	server := start(t)
	repository, _ := create(t, server, "platform", map[string]string{"README": "hello\n"})
	repository.Allow(git.Grant{Password: "token"})
	c := newClient(t, server)
	c.clone(as(repository.URL(), "x", "token"))

	if err := repository.Decline("It's frozen until Monday."); err != nil {
		t.Fatal(err)
	}
	c.refused("It's frozen until Monday.", "push", "origin", "HEAD:main")
	if err := repository.Accept(); err != nil {
		t.Fatal(err)
	}
	repository.Inject(git.Fault{Operation: git.Push, Do: git.Fail("the disk is full")})
	c.refused("500", "push", "origin", "HEAD:main")
	repository.Inject(git.Fault{Operation: git.Fetch, Times: -1, Do: git.Fail("out of order")})
	c.refused("500", "fetch", "origin")
	c.refused("500", "fetch", "origin")
	repository.ClearFaults()
	c.must("fetch", "--quiet", "origin")
	repository.Inject(git.Fault{Operation: git.Push, Do: git.Delay(10 * time.Millisecond)})
	c.must("push", "--quiet", "origin", "HEAD:main")
}

func TestAServerThatHangs(t *testing.T) {
	server := start(t)
	repository, _ := create(t, server, "platform", map[string]string{"README": "hello\n"})
	held := make(chan struct{})
	repository.Inject(git.Fault{Operation: git.Fetch, Do: func(ctx context.Context, r *git.Repository) error {
		close(held)
		return git.Hang(ctx, r)
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-held
		cancel()
	}()
	c := newClient(t, server)
	if out, err := c.gitFor(ctx, "clone", repository.URL(), c.dir); err == nil || !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("the clone ended with %v: %s", err, out)
	}
}
