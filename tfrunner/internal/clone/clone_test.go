package clone

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runcontract"
)

const (
	username = "deploy"
	password = "canary-pass'word"
)

// actAsHelper makes the test binary answer git's question as terraform-runner does.
const actAsHelper = "answer-git"

func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == actAsHelper {
		if err := Answer(os.Args[4], os.Args[2], os.Args[3], os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func getenv(key string) string {
	value, _ := os.LookupEnv(key)
	return value
}

// repository is a modules repository with a branch, a tag and an old commit.
type repository struct {
	dir        string // bare
	old, newer string // commits
}

func newRepository(t *testing.T) repository {
	t.Helper()
	work, bare := t.TempDir(), filepath.Join(t.TempDir(), "modules.git")
	git := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = work
		cmd.Env = []string{
			"PATH=" + getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	commit := func(file, content string) string {
		path := filepath.Join(work, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		git("add", ".")
		git("commit", "--quiet", "-m", file)
		return git("rev-parse", "HEAD")
	}
	git("init", "--quiet", "--initial-branch=main")
	r := repository{dir: bare}
	r.old = commit("modules/vpc/main.tf", "# old")
	git("tag", "-a", "-m", "first", "v1")
	commit("environments/development/main.tf", "# by hand")
	r.newer = commit("modules/vpc/main.tf", "# new")
	git("clone", "--quiet", "--bare", ".", bare)
	return r
}

func (r repository) config(t *testing.T, ref string) Config {
	t.Helper()
	return Config{
		URL: "file://" + r.dir, Ref: ref, Environment: "acme",
		Dir:    filepath.Join(t.TempDir(), "clone"),
		Getenv: getenv, Redactor: redact.New(password), Log: t.Logf,
		Attempts: 3, Pause: time.Millisecond,
	}
}

func TestClone_at_a_ref(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	tests := []struct{ name, ref, want, content string }{
		{"a branch", "main", r.newer, "# new"},
		{"a tag", "v1", r.old, "# old"},
		{"a full ref", "refs/heads/main", r.newer, "# new"},
		{"an old commit", r.old, r.old, "# old"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := r.config(t, tt.ref)
			// What an earlier attempt left behind.
			if err := os.MkdirAll(filepath.Join(cfg.Dir, ".git", "objects"), 0o755); err != nil {
				t.Fatal(err)
			}
			got, err := Clone(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("commit %s, want %s", got, tt.want)
			}
			content, err := os.ReadFile(filepath.Join(cfg.Dir, "modules", "vpc", "main.tf"))
			if err != nil || string(content) != tt.content {
				t.Errorf("content %q, %v", content, err)
			}
		})
	}
}

func TestClone_old_commit_of_a_server_that_gives_branches_only(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	cfg := r.config(t, r.old)
	asked := false
	cfg.Log = func(string, ...any) { asked = true }
	c, err := newCloner(cfg)
	if err != nil {
		t.Fatal(err)
	}
	// Protocol 0 refuses commits by id, as old servers do.
	for i, e := range c.env {
		if strings.HasPrefix(e, "GIT_CONFIG_COUNT=") {
			c.env[i] = "GIT_CONFIG_COUNT=0"
		}
	}
	c.env = append(c.env, "GIT_CONFIG_PARAMETERS='protocol.version=0'")
	got, err := c.attempt(t.Context())
	if err != nil || got != r.old || !asked {
		t.Errorf("commit %s, %v; asked for everything: %v", got, err, asked)
	}
}

func TestClone_refuses_an_environment_that_is_kept_by_hand(t *testing.T) {
	t.Parallel()
	cfg := newRepository(t).config(t, "main")
	cfg.Environment = "development"
	_, err := Clone(t.Context(), cfg)
	if !errors.Is(err, ErrEnvironmentExists) || Code(err).Exit() != runcontract.ExitEnvironmentExists {
		t.Errorf("error %v", err)
	}
}

func TestClone_refuses_what_cannot_be_meant(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*Config)
	}{
		{"no URL", func(c *Config) { c.URL = "" }},
		{"a URL that is an option", func(c *Config) { c.URL = "--upload-pack=touch /tmp/x" }},
		{"a URL that runs a command", func(c *Config) { c.URL = "ext::sh -c whoami" }},
		{"a credential in the URL", func(c *Config) { c.URL = "https://user:" + password + "@example.org/x.git" }},
		{"no ref", func(c *Config) { c.Ref = "" }},
		{"a ref that is an option", func(c *Config) { c.Ref = "--exec=x" }},
		{"a ref that is a refspec", func(c *Config) { c.Ref = "main:main" }},
		{"an environment that leaves its folder", func(c *Config) { c.Environment = "../modules" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := repository{dir: "/nowhere"}.config(t, "main")
			tt.change(&cfg)
			_, err := Clone(t.Context(), cfg)
			if !errors.Is(err, ErrInvalid) || Code(err).Exit() != runcontract.ExitInvalidSpec {
				t.Fatalf("error %v", err)
			}
			if strings.Contains(err.Error(), password) {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

// server serves a repository over https with a password. It refuses the first
// broken requests with 503.
type server struct {
	*httptest.Server

	requests atomic.Int64
	broken   atomic.Int64
}

func newServer(t *testing.T, r repository) *server {
	t.Helper()
	execPath, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{
		Path:   filepath.Join(strings.TrimSpace(string(execPath)), "git-http-backend"),
		Env:    []string{"GIT_PROJECT_ROOT=" + filepath.Dir(r.dir), "GIT_HTTP_EXPORT_ALL=1"},
		Stderr: &bytes.Buffer{},
	}
	s := &server{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.requests.Add(1)
		if s.broken.Add(-1) >= 0 {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		if user, pass, ok := req.BasicAuth(); !ok || user != username || pass != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, req)
	}))
	t.Cleanup(s.Close)
	return s
}

// config uses the server, its CA and a credential.
func (s *server) config(t *testing.T, r repository) Config {
	t.Helper()
	cfg := r.config(t, "main")
	cfg.URL = s.URL + "/" + filepath.Base(r.dir)
	dir := t.TempDir()
	cfg.CAFile, cfg.AuthDir = filepath.Join(dir, "ca.crt"), dir
	for path, content := range map[string]string{
		cfg.CAFile:                       string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})),
		filepath.Join(dir, usernameFile): username + "\n",
		filepath.Join(dir, passwordFile): password + "\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg.CredentialCommand = []string{self, actAsHelper, cfg.URL, cfg.AuthDir}
	return cfg
}

func TestClone_over_https_with_own_CA_and_password(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	s := newServer(t, r)
	got, err := Clone(t.Context(), s.config(t, r))
	if err != nil || got != r.newer {
		t.Errorf("commit %s, %v", got, err)
	}
}

func TestClone_tries_again_when_the_network_fails(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	s := newServer(t, r)
	s.broken.Store(2)
	if _, err := Clone(t.Context(), s.config(t, r)); err != nil {
		t.Errorf("error %v", err)
	}
}

func TestClone_fails_at_once_when_another_attempt_is_pointless(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	tests := []struct {
		name   string
		change func(*Config)
		says   string
	}{
		{"a wrong password", func(c *Config) {
			if err := os.WriteFile(filepath.Join(c.AuthDir, passwordFile), []byte("wrong-canary-password"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "Authentication failed"},
		{"an unknown CA", func(c *Config) { c.CAFile = "" }, "certificate"},
		{"a missing ref", func(c *Config) { c.Ref = "v9" }, "couldn't find remote ref"},
		{"a missing repository", func(c *Config) { c.URL = strings.TrimSuffix(c.URL, "modules.git") + "other.git" }, "not found"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, r)
			cfg := s.config(t, r)
			tt.change(&cfg)
			attempts := 1
			cfg.Log = func(string, ...any) { attempts++ }
			_, err := Clone(t.Context(), cfg)
			if err == nil || !strings.Contains(err.Error(), tt.says) || Code(err).Exit() != runcontract.ExitCloneFailed {
				t.Errorf("error %v", err)
			}
			if attempts != 1 {
				t.Errorf("%d attempts", attempts)
			}
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("the error shows a password: %v", err)
			}
		})
	}
}

func TestClone_gives_up_after_its_attempts(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	s := newServer(t, r)
	s.broken.Store(1000)
	cfg := s.config(t, r)
	if _, err := Clone(t.Context(), cfg); err == nil || s.requests.Load() != int64(cfg.Attempts) {
		t.Errorf("error %v after %d requests", err, s.requests.Load())
	}
}

func TestClone_ends_with_its_context(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	s := newServer(t, r)
	s.broken.Store(1000)
	cfg := s.config(t, r)
	cfg.Pause = time.Hour
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cfg.Log = func(string, ...any) { cancel(stop) }
	if _, err := Clone(ctx, cfg); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
}

func TestAnswer_has_a_user_name_of_its_own(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, passwordFile), []byte(password), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := Answer("get", "https://git.example.org/x.git", dir, strings.NewReader("protocol=https\nhost=git.example.org\n"), &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("username=git\npassword="+password+"\n", out.String()); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}
