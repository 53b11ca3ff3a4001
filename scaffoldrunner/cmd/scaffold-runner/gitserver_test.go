package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
)

const (
	gitUser  = "robot"
	gitToken = "canary-git-token-0001"
)

// gitServer is a bare repository behind git's own http-backend, over https and with
// a password.
type gitServer struct {
	*httptest.Server
	dir string // the bare repository

	sent atomic.Int64 // bytes to clients
	// beforePush is called before a push is carried out.
	beforePush func(n int)

	mu     sync.Mutex
	pushes int
}

func newGitServer(t *testing.T) *gitServer {
	t.Helper()
	execPath, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	s := &gitServer{dir: filepath.Join(t.TempDir(), "gitops.git")}
	s.git(t, nil, "init", "--quiet", "--bare", "--initial-branch=main", s.dir)
	s.git(t, nil, "config", "http.receivepack", "true")
	s.git(t, nil, "config", "uploadpack.allowFilter", "true")
	backend := &cgi.Handler{
		Path:   filepath.Join(strings.TrimSpace(string(execPath)), "git-http-backend"),
		Env:    []string{"GIT_PROJECT_ROOT=" + filepath.Dir(s.dir), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1"},
		Stderr: io.Discard,
	}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || user != gitUser || password != gitToken {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
			s.mu.Lock()
			s.pushes++
			n := s.pushes
			s.mu.Unlock()
			if s.beforePush != nil {
				s.beforePush(n)
			}
		}
		backend.ServeHTTP(counter{w, &s.sent}, r)
	}))
	t.Cleanup(s.Close)
	return s
}

type counter struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return c.ResponseWriter.Write(p)
}

func (s *gitServer) pushed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pushes
}

func (s *gitServer) url() string { return s.URL + "/" + filepath.Base(s.dir) }

// git runs git on the bare repository.
func (s *gitServer) git(t *testing.T, input []byte, args ...string) string {
	t.Helper()
	out, err := s.tryGit(context.WithoutCancel(t.Context()), input, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (s *gitServer) tryGit(ctx context.Context, input []byte, args ...string) (string, error) {
	if args[0] != "init" {
		args = append([]string{"--git-dir=" + s.dir}, args...)
	}
	cmd := exec.CommandContext(ctx, "git", args...)
	path, _ := os.LookupEnv("PATH")
	cmd.Env = []string{
		"PATH=" + path, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=else", "GIT_AUTHOR_EMAIL=else@example.org", "GIT_COMMITTER_NAME=else", "GIT_COMMITTER_EMAIL=else@example.org",
	}
	cmd.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %v: %w: %s", args, err, stderr.String())
	}
	return strings.TrimRight(string(out), "\n"), nil
}

// commit puts files on a branch, by somebody else.
func (s *gitServer) commit(t *testing.T, branch string, files map[string]string) string {
	t.Helper()
	commit, err := s.tryCommit(context.WithoutCancel(t.Context()), branch, files)
	if err != nil {
		t.Fatal(err)
	}
	return commit
}

func (s *gitServer) tryCommit(ctx context.Context, branch string, files map[string]string) (string, error) {
	var in bytes.Buffer
	fmt.Fprintf(&in, "commit refs/heads/%s\ncommitter else <else@example.org> now\ndata 5\nelse\n\n", branch)
	if parent, err := s.tryGit(ctx, nil, "rev-parse", "--verify", "--quiet", "refs/heads/"+branch); err == nil {
		fmt.Fprintf(&in, "from %s\n", parent)
	}
	for path, content := range files {
		fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", path, len(content), content)
	}
	in.WriteString("done\n")
	if _, err := s.tryGit(ctx, in.Bytes(), "fast-import", "--quiet", "--done", "--date-format=now"); err != nil {
		return "", err
	}
	return s.tryGit(ctx, nil, "rev-parse", "refs/heads/"+branch)
}

// hook installs a hook.
func (s *gitServer) hook(t *testing.T, name, script string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(s.dir, "hooks"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "hooks", name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
}

func (s *gitServer) head(t *testing.T) string {
	t.Helper()
	return s.git(t, nil, "rev-parse", "--verify", "refs/heads/main")
}

// log is the subjects of the branch, newest first.
func (s *gitServer) log(t *testing.T) []string {
	t.Helper()
	return strings.Split(s.git(t, nil, "log", "--format=%s", "refs/heads/main"), "\n")
}

// tree is the files of the branch.
func (s *gitServer) tree(t *testing.T) gitopsenv.Tree {
	t.Helper()
	tree := gitopsenv.Tree{}
	names := s.git(t, nil, "ls-tree", "-r", "-z", "--name-only", "main")
	for name := range strings.SplitSeq(strings.Trim(names, "\x00"), "\x00") {
		out, err := s.tryGit(t.Context(), nil, "cat-file", "blob", "main:"+name)
		if err != nil {
			t.Fatal(err)
		}
		tree[name] = []byte(out)
	}
	return tree
}

// blobs is all that the repository has, of whatever commit.
func (s *gitServer) blobs(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for line := range strings.Lines(s.git(t, nil, "cat-file", "--batch-check", "--batch-all-objects")) {
		if fields := strings.Fields(line); slices.Contains([]string{"blob", "commit"}, fields[1]) {
			all.WriteString(s.git(t, nil, "cat-file", fields[1], fields[0]))
		}
	}
	return all.String()
}
