package scaffold

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/cloudcred"
	"github.com/kubeopera/platform/shared/runcontract"
)

const (
	// DefaultBranch is the branch of a repository that does not say.
	DefaultBranch = "main"
	// defaultUsername goes with a token whose user is not named: hosts that do not
	// look at the name take any.
	defaultUsername = "git"
	maxURL          = 1000
	maxBranch       = 200
)

const (
	userForm = `[A-Za-z0-9._][A-Za-z0-9._-]*`
	hostForm = `[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?`
	pathForm = `[A-Za-z0-9._~/@+%-]+`
)

var (
	httpsPath = regexp.MustCompile(`^/` + pathForm + `$`)
	hostname  = regexp.MustCompile(`^` + hostForm + `$`)
	username  = regexp.MustCompile(`^` + userForm + `$`)
	scpURL    = regexp.MustCompile(`^` + userForm + `@` + hostForm + `:[A-Za-z0-9._~/][A-Za-z0-9._~/@+%-]*$`)
	portForm  = regexp.MustCompile(`^[0-9]{1,5}$`)
)

// CheckRepositoryURL says what makes a text unfit to be the URL of a repository,
// or how it is reached. It ends up as an argument of git, in the run spec, in logs
// and on the target, so that nothing that could be another thing passes.
func CheckRepositoryURL(text string) (runcontract.RepositoryAuth, error) {
	const rule = "must be https://host/path, ssh://user@host/path or user@host:path, with letters, digits and . _ ~ / @ + % - in the path"
	if len(text) > maxURL {
		return "", fmt.Errorf("must have at most %d bytes", maxURL)
	}
	if scpURL.MatchString(text) && !strings.Contains(text, "..") {
		return runcontract.RepositoryAuthSSH, nil
	}
	u, err := url.Parse(text)
	if err != nil || strings.Trim(text, urlBytes) != "" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return "", errors.New(rule)
	}
	if _, password := u.User.Password(); password || u.Scheme != "ssh" && u.User != nil {
		return "", errors.New("must not hold a user or password, which would end up in logs: use the fields username and token")
	}
	if !hostname.MatchString(u.Hostname()) || u.Port() != "" && !portForm.MatchString(u.Port()) || !httpsPath.MatchString(u.EscapedPath()) || strings.Contains(u.Path, "..") {
		return "", errors.New(rule)
	}
	switch u.Scheme {
	case "https":
		return runcontract.RepositoryAuthToken, nil
	case "ssh":
		if !username.MatchString(u.User.Username()) {
			return "", errors.New("must name the user, which is git at most hosts: ssh://git@host/path")
		}
		return runcontract.RepositoryAuthSSH, nil
	case "http":
		return "", errors.New("must be https: over http anybody on the way could read the token and change the tree")
	}
	return "", errors.New(rule)
}

// CheckBranch says what makes a text unfit to be a branch (git help
// check-ref-format, and no byte that a shell or YAML could take for another).
func CheckBranch(name string) error {
	const rule = "must be the name of a branch: letters, digits and . _ / - +, at most 200, not beginning with a hyphen"
	if name == "" || len(name) > maxBranch || strings.Trim(name, branchBytes) != "" {
		return errors.New(rule)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasPrefix(part, "-") || strings.HasSuffix(part, ".lock") {
			return errors.New(rule + ", and no part of it empty, beginning with a dot or ending in .lock")
		}
	}
	if strings.Contains(name, "..") || strings.HasSuffix(name, ".") || name == "HEAD" || strings.HasPrefix(name, "refs/") {
		return errors.New(rule + ", without two dots in a row or one at the end, and neither HEAD nor refs/")
	}
	return nil
}

const (
	branchBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-+"
	urlBytes    = branchBytes + "~@%:"
)

// repository checks where the tree goes; nil is the platform's own.
func (c *checker) repository(r *api.ScaffoldRepository, secrets *api.ScaffoldSecrets) Repository {
	if r == nil {
		if !c.rules.Platform {
			c.addf("repository", "is required: the service has no repository of its own")
		}
		return Repository{Platform: true}
	}
	out := Repository{URL: r.URL, Branch: r.Branch, CredentialID: c.uuid("repository.credential_id", r.CredentialID, "a Git credential in auth-service")}
	auth, err := CheckRepositoryURL(r.URL)
	if err != nil {
		c.addf("repository.url", "%s", err)
	}
	out.Auth = auth
	if out.Branch == "" {
		out.Branch = DefaultBranch
	}
	if err := CheckBranch(out.Branch); err != nil {
		c.addf("repository.branch", "%s", err)
	}
	if err := cloudcred.CheckUsername(r.Username); err != nil {
		c.addf("repository.username", "%s", strings.TrimPrefix(err.Error(), "username "))
	}
	if err := cloudcred.CheckKnownHosts(r.KnownHosts); err != nil {
		c.addf("repository.known_hosts", "%s", strings.TrimPrefix(err.Error(), "known_hosts "))
	}
	c.access(r, auth)
	out.Username, out.KnownHosts = r.Username, r.KnownHosts
	secrets.Token = r.Token
	if r.Token != "" {
		if err := cloudcred.CheckToken(r.Token); err != nil {
			c.addf("repository.token", "%s", strings.TrimPrefix(err.Error(), "token "))
		}
		if out.Username == "" {
			out.Username = defaultUsername
		}
	}
	if r.SSHKey != "" {
		secrets.SSHKey = c.privateKey("repository.ssh_key", r.SSHKey)
	}
	return out
}

// access checks that there is one way in, and the one that the URL takes. With a
// URL that is none the rest is checked as far as it goes.
func (c *checker) access(r *api.ScaffoldRepository, auth runcontract.RepositoryAuth) {
	ways := 0
	for _, way := range []string{r.CredentialID, r.Token, r.SSHKey} {
		if way != "" {
			ways++
		}
	}
	switch {
	case ways > 1:
		c.addf("repository", "must have one of credential_id, token and ssh_key")
	case auth == runcontract.RepositoryAuthToken && ways == 0:
		c.addf("repository.token", "is required, or credential_id")
	case auth == runcontract.RepositoryAuthSSH && ways == 0:
		c.addf("repository.ssh_key", "is required, or credential_id")
	case auth == runcontract.RepositoryAuthToken && r.SSHKey != "":
		c.addf("repository.ssh_key", "is of no use for an https URL: give a token")
	case auth == runcontract.RepositoryAuthSSH && r.Token != "":
		c.addf("repository.token", "is of no use for an ssh URL: give an ssh_key")
	}
	if auth == runcontract.RepositoryAuthToken && r.KnownHosts != "" {
		c.addf("repository.known_hosts", "is of no use for an https URL; leave it out")
	}
	if r.Username != "" && r.Token == "" && r.CredentialID == "" {
		c.addf("repository.username", "is of no use without a token; leave it out")
	}
	if r.SSHKey != "" && auth != runcontract.RepositoryAuthToken && strings.TrimSpace(r.KnownHosts) == "" {
		c.addf("repository.known_hosts", "is required with ssh_key: without the server's host key anybody could be the server")
	}
}
