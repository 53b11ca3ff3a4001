package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner"
	"github.com/kubeopera/platform/shared/runner/runnertest"
)

// gitServer serves a modules repository over https to who knows the password.
func gitServer(t *testing.T, password string) *httptest.Server {
	t.Helper()
	root := t.TempDir()
	script := `
set -e
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
git init --quiet --initial-branch=main work
cd work
mkdir -p modules/vpc environments/development
echo '# vpc' > modules/vpc/main.tf
echo '# by hand' > environments/development/main.tf
git add .
git -c user.name=a -c user.email=a@example.org commit --quiet -m first
cd ..
git clone --quiet --bare work modules.git
git --exec-path
`
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("make a repository: %v", err)
	}
	backend := &cgi.Handler{
		Path:   filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env:    []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"},
		Stderr: &bytes.Buffer{},
	}
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pass, ok := r.BasicAuth(); !ok || pass != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv
}

func TestClone(t *testing.T) {
	t.Parallel()
	const password = "canary-git-password"
	srv := gitServer(t, password)
	tests := []struct {
		name        string
		environment string
		ref         string
		password    string
		want        runcontract.ExitCode
		code        runcontract.ErrorCode
		says        string
	}{
		{"a new environment", "acme", "main", password, runcontract.ExitOK, "", "modules at commit "},
		{"an environment that is kept by hand", "development", "main", password, runcontract.ExitEnvironmentExists, runcontract.CodeEnvironmentExists, "environments/development"},
		{"a wrong password", "acme", "main", "wrong-" + password, runcontract.ExitCloneFailed, runcontract.CodeCloneFailed, "Authentication failed"},
		{"a missing ref", "acme", "v9", password, runcontract.ExitCloneFailed, runcontract.CodeCloneFailed, "couldn't find remote ref v9"},
		{"no ref", "acme", "", password, runcontract.ExitInvalidSpec, runcontract.CodeInvalidSpec, "is no branch, tag or commit"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := &fixture{dir: t.TempDir()}
			f.write(t, "auth/username", "deploy")
			f.write(t, "auth/password", tt.password+"\n")
			f.write(t, "ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})))
			c := f.clone(t, "MODULES_REPOSITORY_URL="+srv.URL+"/modules.git", "MODULES_REPOSITORY_REF="+tt.ref, "ENVIRONMENT="+tt.environment)
			if code := c.wait(t); code != tt.want {
				t.Fatalf("exit code %d, want %d:\n%s", code, tt.want, c.output)
			}
			var result runcontract.Result
			if err := json.Unmarshal(f.terminationMessage(t), &result); err != nil {
				t.Fatal(err)
			}
			if result.ErrorCode != tt.code || !strings.Contains(result.Message, tt.says) {
				t.Errorf("termination message %+v", result)
			}
			_, err := os.Stat(filepath.Join(f.dir, "modules-repository", "modules", "vpc", "main.tf"))
			if tt.want == runcontract.ExitOK && err != nil {
				t.Error(err)
			}
			f.noPassword(t, c, password)
		})
	}
}

// clone starts the clone, with a git on PATH that notes how it is called.
func (f *fixture) clone(t *testing.T, env ...string) *child {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	spy := filepath.Join(f.dir, "bin", "git")
	f.write(t, "bin/git", fmt.Sprintf("#!/bin/sh\necho \"$@\" >> %[1]s/calls\nenv >> %[1]s/calls\nexec %[2]s \"$@\"\n", f.dir, git))
	if err := os.Chmod(spy, 0o700); err != nil {
		t.Fatal(err)
	}
	path, _ := os.LookupEnv("PATH")
	c := &child{output: &runnertest.Buffer{}}
	c.cmd = exec.CommandContext(t.Context(), os.Args[0], "init", "--", os.Args[0], "clone",
		"--dir="+filepath.Join(f.dir, "modules-repository"), "--auth-dir="+filepath.Join(f.dir, "auth"),
		"--ca-file="+filepath.Join(f.dir, "ca.crt"), "--termination-message="+filepath.Join(f.dir, "termination-log"))
	c.cmd.Stdout, c.cmd.Stderr = c.output, c.output
	c.cmd.Env = append(env, actAsRunner+"=1", runnertest.NoExitSleep, "PATH="+filepath.Dir(spy)+":"+path, "HOME="+f.dir)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// noPassword checks that the password is in no argument, environment, file or log.
func (f *fixture) noPassword(t *testing.T, c *child, password string) {
	t.Helper()
	if strings.Contains(c.output.String(), password) {
		t.Errorf("the log holds the password:\n%s", c.output)
	}
	err := filepath.WalkDir(f.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Dir(path) == filepath.Join(f.dir, "auth") {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(password)) {
			t.Errorf("%s holds the password:\n%s", path, data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		args           []string
		want           runcontract.ExitCode
		stdout, stderr string
	}{
		{"nothing", nil, runcontract.ExitInvalidSpec, "", "Usage:"},
		{"help", []string{"--help"}, runcontract.ExitOK, "Usage:", ""},
		{"help of run", []string{"run", "--help"}, runcontract.ExitOK, "-lock-timeout", ""},
		{"help of clone", []string{"clone", "--help"}, runcontract.ExitOK, "MODULES_REPOSITORY_REF", ""},
		{"help of init", []string{"init", "--help"}, runcontract.ExitOK, "COMMAND", ""},
		{"version", []string{"version"}, runcontract.ExitOK, "terraform-runner ", ""},
		{"an unknown command", []string{"destroy"}, runcontract.ExitInvalidSpec, "", `unknown command "destroy"`},
		{"an unknown flag", []string{"run", "--force"}, runcontract.ExitInvalidSpec, "", "-force"},
		{"an argument too many", []string{"run", "now"}, runcontract.ExitInvalidSpec, "", `unexpected argument "now"`},
		{"init without separator", []string{"init", "true"}, runcontract.ExitInvalidSpec, "", "init -- COMMAND"},
		{"init without command", []string{"init", "--"}, runcontract.ExitInvalidSpec, "", "init -- COMMAND"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr strings.Builder
			code := command(tt.args, runner.Process{Name: "terraform-runner", Getenv: func(string) string { return "" }, Stdout: &stdout, Stderr: &stderr})
			if code != tt.want {
				t.Errorf("exit code %d, want %d", code, tt.want)
			}
			if !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) {
				t.Errorf("stdout %q, stderr %q", stdout.String(), stderr.String())
			}
			if (tt.stdout == "") != (stdout.String() == "") || (tt.stderr == "") != (stderr.String() == "") {
				t.Errorf("on the wrong stream: stdout %q, stderr %q", stdout.String(), stderr.String())
			}
		})
	}
}
