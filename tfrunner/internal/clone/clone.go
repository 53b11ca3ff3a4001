// Package clone fetches the modules repository at a pinned ref for a run, with
// the git binary: one commit, no history, no tags, no hooks.
package clone

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runcontract"
	"github.com/kubeopera/platform/shared/runner/git"
)

// The ways in which a clone fails that the contract tells apart.
var (
	// ErrEnvironmentExists says that the repository already has the environment: it is kept by hand.
	ErrEnvironmentExists = errors.New("environment exists")
	// ErrInvalid says that the configuration cannot be meant.
	ErrInvalid = errors.New("invalid configuration")
)

// Config is what is cloned.
type Config struct {
	URL         string
	Ref         string // branch, tag or commit
	Environment string
	Dir         string // emptied first
	CAFile      string // PEM; used if it exists
	AuthDir     string // files username and password; used if they exist
	// CredentialCommand is this binary's command that answers git's questions.
	CredentialCommand []string
	Getenv            func(string) string
	Redactor          *redact.Redactor
	Log               func(format string, args ...any)

	Attempts       int           // 0: 5
	Pause          time.Duration // before the second attempt; doubles; 0: 1 s
	AttemptTimeout time.Duration // 0: 3 min
}

// Clone fetches the ref and returns the commit.
func Clone(ctx context.Context, cfg Config) (commit string, err error) {
	c, err := newCloner(cfg)
	if err != nil {
		return "", err
	}
	for attempt, pause := 1, c.Pause; ; attempt, pause = attempt+1, 2*pause {
		commit, err = c.attempt(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if attempt >= c.Attempts || permanent(err) {
			return "", err
		}
		c.Log("attempt %d of %d: %v", attempt, c.Attempts, err)
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(pause):
		}
	}
	if _, err := os.Lstat(filepath.Join(c.Dir, "environments", c.Environment)); err == nil {
		return "", fmt.Errorf("%w: environments/%s is kept in the modules repository; choose another name", ErrEnvironmentExists, c.Environment)
	}
	return commit, nil
}

type cloner struct {
	Config
	env []string
}

func newCloner(cfg Config) (*cloner, error) {
	if cfg.Attempts == 0 {
		cfg.Attempts = 5
	}
	if cfg.Pause == 0 {
		cfg.Pause = time.Second
	}
	if cfg.AttemptTimeout == 0 {
		cfg.AttemptTimeout = 3 * time.Minute
	}
	remote, err := url.Parse(cfg.URL)
	switch {
	case err != nil || cfg.URL == "":
		return nil, fmt.Errorf("%w: the URL of the modules repository is no URL", ErrInvalid)
	case remote.Scheme != "https" && remote.Scheme != "http" && remote.Scheme != "ssh" && remote.Scheme != "file":
		return nil, fmt.Errorf("%w: the URL of the modules repository has the scheme %q; https, http, ssh and file are possible", ErrInvalid, remote.Scheme)
	case remote.User != nil && remote.Scheme != "ssh":
		return nil, fmt.Errorf("%w: the URL of the modules repository must not hold a credential", ErrInvalid)
	case !refPattern().MatchString(cfg.Ref) || strings.Contains(cfg.Ref, ".."):
		return nil, fmt.Errorf("%w: the ref of the modules repository is no branch, tag or commit", ErrInvalid)
	case !environmentPattern().MatchString(cfg.Environment):
		return nil, fmt.Errorf("%w: the environment's name is no DNS label", ErrInvalid)
	}
	return &cloner{Config: cfg, env: gitEnv(cfg, remote)}, nil
}

func refPattern() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./+@-]*$`) }

func environmentPattern() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
}

func commitPattern() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`) }

// attempt clones once, from scratch.
func (c *cloner) attempt(ctx context.Context) (commit string, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.AttemptTimeout)
	defer cancel()
	if err := empty(c.Dir); err != nil {
		return "", err
	}
	steps := [][]string{
		{"init", "--quiet", "--template=", "."},
		{"remote", "add", "origin", c.URL},
	}
	for _, args := range steps {
		if _, err := c.git(ctx, args...); err != nil {
			return "", err
		}
	}
	fetched, err := c.fetch(ctx)
	if err != nil {
		return "", err
	}
	if _, err := c.git(ctx, "checkout", "--quiet", "--detach", fetched); err != nil {
		return "", err
	}
	return c.git(ctx, "rev-parse", "HEAD")
}

// fetch brings the one commit and says by which name it is known now. Servers
// that give commits only by name of a branch or tag are asked for everything instead.
func (c *cloner) fetch(ctx context.Context) (fetched string, err error) {
	_, err = c.git(ctx, "fetch", "--quiet", "--no-tags", "--depth=1", "origin", c.Ref)
	if err == nil {
		return "FETCH_HEAD", nil
	}
	if !commitPattern().MatchString(c.Ref) || !notAdvertised(err) {
		return "", err
	}
	c.Log("the server does not give commits by id; fetching all branches and tags")
	_, err = c.git(ctx, "fetch", "--quiet", "origin", "+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
	return c.Ref, err
}

func (c *cloner) git(ctx context.Context, args ...string) (string, error) {
	return git.Folder{Dir: c.Dir, Env: c.env, Redactor: c.Redactor}.Run(ctx, args...)
}

// empty removes what is in dir but not dir itself, which may be a mount point.
func empty(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("create the clone's folder: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read the clone's folder: %w", err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("empty the clone's folder: %w", err)
		}
	}
	return nil
}

// permanent tells failures that another attempt will not change.
func permanent(err error) bool { return git.Classify(err) != git.Passing }

// notAdvertised tells that a server does not give a commit by its id.
func notAdvertised(err error) bool {
	switch git.Classify(err) {
	case git.Unadvertised, git.Missing, git.Unsupported:
		return true
	default:
		return false
	}
}

// Secrets are the values that must not be shown.
func Secrets(authDir string) []string {
	data, err := os.ReadFile(filepath.Join(authDir, passwordFile))
	if err != nil {
		return nil
	}
	return []string{strings.TrimSpace(string(data))}
}

// Code is the contract's code for an error of Clone.
func Code(err error) runcontract.ErrorCode {
	switch {
	case errors.Is(err, ErrEnvironmentExists):
		return runcontract.CodeEnvironmentExists
	case errors.Is(err, ErrInvalid):
		return runcontract.CodeInvalidSpec
	}
	return runcontract.CodeCloneFailed
}
