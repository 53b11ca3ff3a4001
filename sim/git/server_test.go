package git_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"

	"github.com/kubeopera/platform/shared/skip"
	"github.com/kubeopera/platform/sim/git"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T) *git.Server {
	t.Helper()
	server, err := git.Start(t.Context(), t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// create makes a repository whose main branch has one commit, if there are files.
func create(t *testing.T, server *git.Server, name string, files map[string]string) (r *git.Repository, commit string) {
	t.Helper()
	r, err := server.Create(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) > 0 {
		if commit, err = r.Commit(t.Context(), "first", map[string]fs.FS{".": tree(files)}); err != nil {
			t.Fatal(err)
		}
	}
	return r, commit
}

func tree(files map[string]string) fstest.MapFS {
	tree := fstest.MapFS{}
	for name, content := range files {
		tree[name] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
	}
	return tree
}

// client is a user with a directory of its own.
type client struct {
	t   *testing.T
	dir string
	env []string
}

// newClient trusts the server's CA and nobody else's. Credentials are given on the
// command line for brevity: they are the test's own.
func newClient(t *testing.T, server *git.Server) client {
	t.Helper()
	home := t.TempDir()
	ca := filepath.Join(home, "ca.crt")
	if err := os.WriteFile(ca, server.CA(), 0o600); err != nil {
		t.Fatal(err)
	}
	return client{t: t, dir: filepath.Join(home, "clone"), env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "GIT_SSL_CAINFO=" + ca, "GIT_TERMINAL_PROMPT=0", "LC_ALL=C", //nolint:forbidigo // git is found on the user's PATH
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org",
	}}
}

// useKey gives the client an SSH key and the host keys that it knows.
func (c client) useKey(knownHosts []byte) (client, ssh.PublicKey) {
	c.t.Helper()
	if _, err := exec.LookPath("ssh"); err != nil {
		skip.Missing(c.t, skip.SSH, err.Error())
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		c.t.Fatal(err)
	}
	dir := c.t.TempDir()
	identity, hosts := filepath.Join(dir, "identity"), filepath.Join(dir, "known_hosts")
	for file, content := range map[string][]byte{identity: pem.EncodeToMemory(block), hosts: knownHosts} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	c.env = append(c.env, "GIT_SSH_COMMAND=ssh -F none -i "+identity+" -o UserKnownHostsFile="+hosts+
		" -o GlobalKnownHostsFile=none -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes -o BatchMode=yes")
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		c.t.Fatal(err)
	}
	return c, key
}

// git runs git and gives what it says.
func (c client) git(args ...string) (string, error) { return c.gitFor(c.t.Context(), args...) }

func (c client) gitFor(ctx context.Context, args ...string) (string, error) {
	if args[0] != "clone" {
		args = append([]string{"-C", c.dir}, args...)
	}
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = c.env
	// Killing git alone would leave its helper, which holds the output open.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (c client) must(args ...string) string {
	c.t.Helper()
	out, err := c.git(args...)
	if err != nil {
		c.t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return out
}

// clone clones a repository and commits a change of a file of its own.
func (c client) clone(url string) {
	c.t.Helper()
	c.must("clone", "--quiet", url, c.dir)
	if err := os.WriteFile(filepath.Join(c.dir, "own.txt"), []byte("mine\n"), 0o644); err != nil {
		c.t.Fatal(err)
	}
	c.must("add", ".")
	c.must("commit", "--quiet", "--allow-empty", "-m", "own change")
}

// refused wants git to fail and to say why.
func (c client) refused(want string, args ...string) {
	c.t.Helper()
	if out, err := c.git(args...); err == nil || !strings.Contains(out, want) {
		c.t.Errorf("git %s: %v, %s; want a refusal with %q", args[0], err, out, want)
	}
}

// as puts a name and a password into a URL.
func as(url, user, password string) string {
	return strings.Replace(url, "https://", "https://"+user+":"+password+"@", 1)
}
