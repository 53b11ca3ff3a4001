package git_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runner/git"
)

const password = "canary-pass'word"

func getenv(key string) string {
	value, _ := os.LookupEnv(key)
	return value
}

func folder(t *testing.T, c git.Config) git.Folder {
	t.Helper()
	c.Getenv = getenv
	return git.Folder{Dir: t.TempDir(), Env: git.Env(c), Redactor: redact.New(password)}
}

func TestAnswer_is_for_the_repositorys_server_alone(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, operation, question, want string }{
		{"the server", "get", "protocol=https\nhost=git.example.org:8443\npath=x.git\n", "username=robot\npassword=" + password + "\n"},
		{"a server that it redirects to", "get", "protocol=https\nhost=evil.example.org\n", ""},
		{"another port", "get", "protocol=https\nhost=git.example.org\n", ""},
		{"no TLS", "get", "protocol=http\nhost=git.example.org:8443\n", ""},
		{"another question", "store", "protocol=https\nhost=git.example.org:8443\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			login := git.Login{Repository: "https://git.example.org:8443/x.git", Username: "robot", PasswordFile: file}
			if err := git.Answer(tt.operation, login, strings.NewReader(tt.question), &out); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnswer_refuses_what_would_be_another_line(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("one\nhost=evil.example.org"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	login := git.Login{Repository: "https://git.example.org/x.git", Username: "robot", PasswordFile: file}
	err := git.Answer("get", login, strings.NewReader("protocol=https\nhost=git.example.org\n"), &out)
	if err == nil || out.Len() > 0 || strings.Contains(err.Error(), "evil") {
		t.Errorf("error %v, answer %q", err, out.String())
	}
}

func TestEnv_has_nothing_of_anybodys_configuration(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte("[user]\nname = of-the-home\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := folder(t, git.Config{Protocols: []string{"https"}, Env: map[string]string{"HOME": home}, Settings: []git.Setting{{"user.email", "a@example.org"}}})
	if out, err := f.Run(t.Context(), "config", "user.name"); err == nil {
		t.Errorf("a user's configuration is read: %s", out)
	}
	if out, err := f.Run(t.Context(), "config", "user.email"); err != nil || out != "a@example.org" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := f.Run(t.Context(), "ls-remote", "file://"+t.TempDir()); git.Classify(err) != git.Unsupported {
		t.Errorf("a protocol that is not allowed: %v", err)
	}
	for _, entry := range f.Env {
		if name, _, _ := strings.Cut(entry, "="); slices.Contains([]string{"GIT_DIR", "SSH_AUTH_SOCK", "EDITOR"}, name) {
			t.Errorf("%s is inherited", name)
		}
	}
}

func TestFolder_masks_and_bounds_what_git_says(t *testing.T) {
	t.Parallel()
	f := folder(t, git.Config{})
	_, err := f.Run(t.Context(), "-c", "a.b=c", "log", "no-such-"+password)
	if err == nil || strings.Contains(err.Error(), "canary") || !strings.HasPrefix(err.Error(), "git log: ") {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	started := time.Now()
	_, err = f.Run(ctx, "-c", "alias.hang=!sleep 20", "hang")
	said, ok := errors.AsType[*git.Error](err)
	if !ok || said.Late == 0 || !strings.Contains(err.Error(), "no success in") || git.Classify(err) != git.Passing {
		t.Errorf("error %v", err)
	}
	if took := time.Since(started); took > 4*time.Second { // WaitDelay would be 5 s: what git started is gone with it
		t.Errorf("took %s", took)
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want git.Kind
	}{
		{"fatal: Authentication failed for 'https://git.example.org/x.git/'", git.Auth},
		{"git@git.example.org: Permission denied (publickey).\nfatal: Could not read from remote repository.", git.Auth},
		{"Host key verification failed.\nfatal: Could not read from remote repository.", git.Host},
		{"fatal: unable to access 'https://x/': server certificate verification failed. CAfile: none CRLfile: none", git.Host},
		{"remote: Permission to a/b.git denied to c.\nfatal: unable to access 'https://x/': The requested URL returned error: 403", git.Forbidden},
		{"ERROR: The key you are authenticating with has been marked as read only.", git.Forbidden},
		{"fatal: repository 'https://x/y.git/' not found", git.Missing},
		{"fatal: couldn't find remote ref v9", git.Missing},
		{"error: Server does not allow request for unadvertised object 0123", git.Unadvertised},
		{"fatal: dumb http transport does not support shallow capabilities", git.Unsupported},
		{"fatal: transport 'ext' not allowed", git.Unsupported},
		{"fatal: write error: No space left on device", git.Local},
		{"fatal: unable to access 'https://x/': Could not resolve host: x", git.Passing},
		{"fatal: the remote end hung up unexpectedly", git.Passing},
	}
	for _, tt := range tests {
		if got := git.Classify(&git.Error{Verb: "fetch", Text: tt.text, Err: errors.New("exit status 128")}); got != tt.want {
			t.Errorf("%s: kind %d, want %d", tt.text, got, tt.want)
		}
	}
	if got := git.Classify(errors.New("disk")); got != git.Local {
		t.Errorf("kind %d", got)
	}
}
