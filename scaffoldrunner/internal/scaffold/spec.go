package scaffold

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/kubeopera/platform/shared/api"
	"github.com/kubeopera/platform/shared/runcontract"
)

// scpForm is user@host:path.
var scpForm = regexp.MustCompile(`^[A-Za-z0-9._][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^-].*$`)

// CheckSpec refuses what this runner cannot do. Services check what they write;
// this is for those that are of another release, and for what git is given.
func CheckSpec(s runcontract.ScaffoldSpec) error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("run spec: "+format, args...))
	}
	if s.Operation != api.OperationScaffold && s.Operation != api.OperationDryRun {
		bad("operation %q is not available in this version", s.Operation)
	}
	if s.ID == "" {
		bad("id is empty")
	}
	if _, found := s.Inputs.Normalise(); len(found) > 0 {
		bad("inputs: %s %s", found[0].Location, found[0].Message)
	}
	if s.TimeoutSeconds <= 0 || s.GraceSeconds <= 0 || s.SealedSecretsTimeoutSeconds <= 0 || s.PollIntervalSeconds <= 0 {
		bad("timeout_seconds, grace_seconds, sealed_secrets_timeout_seconds and poll_interval_seconds must be positive")
	}
	for name := range s.Env {
		if runcontract.ReservedEnv(name) {
			bad("env: %s cannot be set for a run", name)
		}
	}
	r := s.Repository
	switch r.Auth {
	case runcontract.RepositoryAuthToken:
		if u, err := url.Parse(r.URL); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			bad("repository.url must be an https URL without a credential, for a token")
		}
		if r.Username == "" {
			bad("repository.username is empty")
		}
	case runcontract.RepositoryAuthSSH:
		u, err := url.Parse(r.URL)
		isURL := err == nil && u.Scheme == "ssh" && u.Host != "" && !strings.HasPrefix(u.Host, "-") && u.User != nil
		if isURL {
			_, password := u.User.Password()
			isURL = !password && !strings.HasPrefix(u.User.Username(), "-")
		}
		if !isURL && (!scpForm.MatchString(r.URL) || strings.Contains(r.URL, "://")) {
			bad("repository.url must be ssh://user@host/path or user@host:path, for an SSH key")
		}
	default:
		bad("repository.auth %q is not available in this version", r.Auth)
	}
	switch r.Mode {
	case api.PushDirect:
	case api.PushPullRequest:
		if !branch(r.MergeBranch) || r.MergeBranch == r.Branch {
			bad("repository.merge_branch is no branch, or is the one to merge into")
		}
		if s.MergeTimeoutSeconds <= 0 {
			bad("merge_timeout_seconds must be positive")
		}
	default:
		bad("repository.mode %q is not available in this version", r.Mode)
	}
	if !branch(r.Branch) {
		bad("repository.branch is no branch")
	}
	if r.AuthorName == "" || r.AuthorEmail == "" {
		bad("repository.author_name and author_email must be there")
	}
	return errors.Join(problems...)
}

// branch is git's own rule for names of branches.
func branch(name string) bool {
	if name == "" || name == "@" || name[0] == '-' || strings.HasSuffix(name, ".") || strings.Contains(name, "..") || strings.Contains(name, "@{") ||
		strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) }) {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}
