package scaffold

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand"
	"os/exec"
	"strings"
	"testing"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

func spec() runcontract.ScaffoldSpec {
	return runcontract.ScaffoldSpec{
		ID: "1", Kind: runcontract.KindScaffold, Operation: api.OperationScaffold,
		Inputs: runcontract.ScaffoldInputs{
			Environment: "acme", Domain: "acme.example.com", Region: "eu-west-1", Email: "ops@acme.example.com",
			Registry: runcontract.Registry{Server: "registry.example.com", Username: "robot"},
		},
		Repository: runcontract.Repository{
			URL: "https://git.example.com/acme.git", Branch: "main", Mode: api.PushDirect, Auth: runcontract.RepositoryAuthToken, Username: "git",
			AuthorName: "A", AuthorEmail: "a@example.com",
		},
		TimeoutSeconds: 1, GraceSeconds: 1, SealedSecretsTimeoutSeconds: 1, PollIntervalSeconds: 1,
	}
}

func TestCheckSpec(t *testing.T) {
	t.Parallel()
	ssh := func(url string) func(*runcontract.ScaffoldSpec) {
		return func(s *runcontract.ScaffoldSpec) {
			s.Repository.Auth, s.Repository.URL = runcontract.RepositoryAuthSSH, url
		}
	}
	url := func(url string) func(*runcontract.ScaffoldSpec) {
		return func(s *runcontract.ScaffoldSpec) { s.Repository.URL = url }
	}
	tests := []struct {
		name   string
		change func(*runcontract.ScaffoldSpec)
		says   string // empty: nothing
	}{
		{"a token", func(*runcontract.ScaffoldSpec) {}, ""},
		{"an ssh URL", ssh("ssh://git@git.example.com:2222/acme.git"), ""},
		{"an scp address", ssh("git@git.example.com:acme/x.git"), ""},
		{"a pull request", func(s *runcontract.ScaffoldSpec) {
			s.Repository.Mode, s.Repository.MergeBranch, s.MergeTimeoutSeconds = api.PushPullRequest, "scaffold/acme", 1
		}, ""},
		{"another operation", func(s *runcontract.ScaffoldSpec) { s.Operation = api.OperationApply }, "operation"},
		{"no id", func(s *runcontract.ScaffoldSpec) { s.ID = "" }, "id is empty"},
		{"inputs", func(s *runcontract.ScaffoldSpec) { s.Inputs.Environment = "../base" }, "inputs: environment"},
		{"no deadline", func(s *runcontract.ScaffoldSpec) { s.TimeoutSeconds = 0 }, "must be positive"},
		{"a variable of git's", func(s *runcontract.ScaffoldSpec) { s.Env = map[string]string{"GIT_SSH_COMMAND": "x"} }, "GIT_SSH_COMMAND"},
		{"a variable of ssh's", func(s *runcontract.ScaffoldSpec) { s.Env = map[string]string{"SSH_AUTH_SOCK": "x"} }, "SSH_AUTH_SOCK"},
		{"a proxy", func(s *runcontract.ScaffoldSpec) { s.Env = map[string]string{"HTTPS_PROXY": "http://proxy"} }, ""},
		{"a variable of the loader's", func(s *runcontract.ScaffoldSpec) { s.Env = map[string]string{"LD_PRELOAD": "x"} }, "LD_PRELOAD"},
		{"plain http", url("http://git.example.com/x"), "repository.url"},
		{"a file", url("file:///etc"), "repository.url"},
		{"a command", url("ext::sh -c id"), "repository.url"},
		{"a password", url("https://a:b@git.example.com/x"), "repository.url"},
		{"an option", ssh("-oProxyCommand=id:x"), "repository.url"},
		{"an option for a host", ssh("ssh://git@-oProxyCommand=id/x"), "repository.url"},
		{"an option for a user", ssh("ssh://-oProxyCommand=id@host/x"), "repository.url"},
		{"a password for ssh", ssh("ssh://git:x@git.example.com/x"), "repository.url"},
		{"another way in", func(s *runcontract.ScaffoldSpec) { s.Repository.Auth = "kerberos" }, "repository.auth"},
		{"another mode", func(s *runcontract.ScaffoldSpec) { s.Repository.Mode = "force" }, "repository.mode"},
		{"the branch itself", func(s *runcontract.ScaffoldSpec) {
			s.Repository.Mode, s.Repository.MergeBranch, s.MergeTimeoutSeconds = api.PushPullRequest, "main", 1
		}, "merge_branch"},
		{"nobody's commits", func(s *runcontract.ScaffoldSpec) { s.Repository.AuthorEmail = "" }, "author"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := spec()
			tt.change(&s)
			err := CheckSpec(s)
			if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want %q", err, tt.says)
			}
		})
	}
}

// What git takes for a branch is what we take, but for names that are not one as
// they stand.
func TestBranchIsGitsRule(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"main", "a/b", "release-1.2", "ümlaut", "#1", "a..b", "a.lock", "a.lock/b", "/a", "a/", "a//b", ".a", "a/.b", "a.", "@", "a@{b", "a b", "a~b", "a^", "a:b",
		"a?", "a*", "a[", `a\b`, "-a", "", "a\x7f", "a\tb", "HEAD",
	} {
		err := exec.CommandContext(t.Context(), "git", "check-ref-format", "refs/heads/"+name).Run()
		want := err == nil && name != "@" && !strings.HasPrefix(name, "-") // git knows those as something else, or as an option
		if got := branch(name); got != want {
			t.Errorf("%q: %t, git says %t", name, got, want)
		}
	}
}

func TestPackCutsWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	line := make([]byte, 60)
	var diff bytes.Buffer
	random := rand.New(rand.NewSource(1))
	for diff.Len() < 2<<20 {
		for i := range line {
			line[i] = byte('!' + random.Intn(90))
		}
		diff.Write(line)
		diff.WriteByte('\n')
	}
	packed, cut, err := pack(diff.Bytes())
	if err != nil || !cut || len(packed) > maxFiles {
		t.Fatalf("%d bytes, cut %t, %v", len(packed), cut, err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil || !bytes.HasPrefix(diff.Bytes(), text) || !bytes.HasSuffix(text, []byte("\n")) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if _, cut, err := pack([]byte("short\n")); cut || err != nil {
		t.Errorf("cut %t, %v", cut, err)
	}
}
