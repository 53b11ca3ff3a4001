package scaffold

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

func TestRepositoryURLs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]runcontract.RepositoryAuth{
		"https://git.example.com/acme/gitops.git":          runcontract.RepositoryAuthToken,
		"https://git.example.com:8443/a/b":                 runcontract.RepositoryAuthToken,
		"https://dev.azure.com/acme/my%20project/_git/x":   runcontract.RepositoryAuthToken,
		"https://git.example.com/~user/x.git":              runcontract.RepositoryAuthToken,
		"https://127.0.0.1:3000/x.git":                     runcontract.RepositoryAuthToken,
		"ssh://git@git.example.com/acme/gitops.git":        runcontract.RepositoryAuthSSH,
		"ssh://git@git.example.com:2222/acme/gitops.git":   runcontract.RepositoryAuthSSH,
		"git@git.example.com:acme/gitops.git":              runcontract.RepositoryAuthSSH,
		"APKAEIBAERJR2EXAMPLE@git-codecommit.example:v1/x": runcontract.RepositoryAuthSSH,
		"":                                                     "",
		"git.example.com/x":                                    "",
		"/etc":                                                 "",
		"file:///etc":                                          "",
		"git://git.example.com/x.git":                          "",
		"http://git.example.com/x.git":                         "",
		"ext::sh -c id":                                        "",
		"--upload-pack=id":                                     "",
		"-oProxyCommand=id@host:x":                             "",
		"git@-oProxyCommand=id:x":                              "",
		"git@git.example.com:-x":                               "",
		"git@git.example.com:../x":                             "",
		"ssh://git.example.com/x.git":                          "",
		"ssh://-oProxyCommand=id/x":                            "",
		"ssh://git@-oProxyCommand=id/x":                        "",
		"ssh://git:p@git.example.com/x.git":                    "",
		"https://u:p@git.example.com/x.git":                    "",
		"https://token@git.example.com/x.git":                  "",
		"https://git.example.com/x.git?a=b":                    "",
		"https://git.example.com/x.git#y":                      "",
		"https://git.example.com/%2e%2e/x":                     "",
		"https://git.example.com/a b":                          "",
		"https://git.example.com/x.git\n":                      "",
		"https://git.example.com":                              "",
		"https://git.example.com:port/x":                       "",
		"https:git.example.com/x":                              "",
		"https://git.example.com/" + strings.Repeat("a", 1000): "",
	} {
		got, err := CheckRepositoryURL(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestBranches(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"main": true, "feature/x-1": true, "v1.2": true, "no": true, "0123": true, "a+b": true,
		"": false, "-f": false, "a..b": false, "a/.b": false, "a.lock": false, "a.lock/b": false, "/a": false, "a/": false, "a//b": false, ".a": false,
		"a.": false, "HEAD": false, "refs/heads/main": false, "a b": false, "a~1": false, "a^": false, "a:b": false, "a?": false, "a*": false, "a[": false,
		"a@{0}": false, "a\nb": false, "ä": false, "x/-y": false, strings.Repeat("a", 201): false,
	} {
		if err := CheckBranch(name); (err == nil) != want {
			t.Errorf("%q: %v, want it taken: %t", name, err, want)
		}
	}
}

// FuzzRepositoryURL: what passes cannot be taken for an option, a password or
// another file.
func FuzzRepositoryURL(f *testing.F) {
	f.Add("https://git.example.com/acme/gitops.git")
	f.Add("git@git.example.com:acme/gitops.git")
	f.Add("ssh://git@git.example.com:2222/x")
	f.Fuzz(func(t *testing.T, text string) {
		auth, err := CheckRepositoryURL(text)
		if err != nil {
			return
		}
		if strings.HasPrefix(text, "-") || strings.ContainsAny(text, " \t\r\n\x00'\"`$\\;&|<>{}*?#") || strings.Contains(text, "..") || strings.Contains(text, "::") || strings.Contains(text, "@-") || strings.Contains(text, "//-") {
			t.Errorf("%q passes", text)
		}
		u, err := url.Parse(text)
		switch {
		case auth == runcontract.RepositoryAuthToken && (err != nil || u.Scheme != "https" || u.User != nil):
			t.Errorf("%q passes as https", text)
		case auth == runcontract.RepositoryAuthSSH && err == nil && u.Scheme != "ssh" && u.Scheme != "":
			t.Errorf("%q passes as ssh", text)
		}
	})
}

func TestMessagesRepeatNoValue(t *testing.T) {
	t.Parallel()
	const canary = "Canary-7f3a"
	req := api.ScaffoldRequest{
		Environment: canary, Domain: canary, Region: canary, Email: canary,
		Repository: &api.ScaffoldRepository{URL: canary, Branch: canary + "..", CredentialID: canary, Username: canary + ":", Token: canary + " ", SSHKey: canary, KnownHosts: canary},
		Target:     api.ScaffoldTarget{ProvisionID: canary, Kubeconfig: "{" + canary, CredentialID: canary, Certificate: canary},
		Services:   map[string]api.ScaffoldService{"gateway": {Hostname: canary}, canary: {}},
		Registry:   api.ScaffoldRegistry{Server: canary + "/", Username: canary + ":", Password: canary + "\x00"}, SigningKey: canary, Mode: canary,
	}
	_, problems := Validate(req, Rules{Services: []string{"gateway"}, Platform: true, Provisions: true})
	text, err := json.Marshal(problems)
	if err != nil {
		t.Fatal(err)
	}
	if len(problems) < 15 || strings.Contains(string(text), canary) {
		t.Errorf("%d problems: %s", len(problems), text)
	}
	if !slices.IsSortedFunc(problems, func(a, b api.FieldProblem) int { return strings.Compare(a.Location, b.Location) }) {
		t.Error("problems are in no order")
	}
}

func TestInlineSecretsAreNamedAndNotKept(t *testing.T) {
	t.Parallel()
	in, problems := Validate(api.ScaffoldRequest{
		Environment: "acme", Domain: "acme.example.com", Region: "eu-west-1", Email: "ops@acme.example.com",
		Repository: &api.ScaffoldRepository{URL: "https://git.example.com/x.git", Token: "canary"},
		Target:     api.ScaffoldTarget{ProvisionID: "0f8b7a52-2f3c-7b63-9a0e-0c1d2e3f4a5b"}, Registry: api.ScaffoldRegistry{Server: "r.example.com", Username: "u", Password: "canary"},
	}, Rules{Provisions: true})
	if len(problems) > 0 || !slices.Equal(in.Inline, []string{"registry_password", "token"}) {
		t.Errorf("inline %v, problems %+v", in.Inline, problems)
	}
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "canary") {
		t.Errorf("the inputs hold a secret: %s", text)
	}
}
