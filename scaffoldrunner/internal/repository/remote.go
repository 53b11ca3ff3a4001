package repository

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
	"github.com/kubeopera/platform/shared/redact"
	"github.com/kubeopera/platform/shared/runner/git"
)

// Config is which repository, and how it is reached.
type Config struct {
	URL string
	// Dir is a folder that is made anew.
	Dir string
	// Env is git's environment; see git.Env.
	Env      []string
	Redactor *redact.Redactor
	Log      func(format string, args ...any)

	// AuthorName and AuthorEmail are author and committer.
	AuthorName, AuthorEmail string
	// Sign says that commits are signed, as Env says.
	Sign bool

	Attempts     int           // of reading; 0: 4
	Pause        time.Duration // before the second one; doubles; 0: 1 s
	FetchTimeout time.Duration // of one attempt; 0: 10 min
	PushTimeout  time.Duration // 0: 5 min
}

// Remote is a repository on a server, with a local copy of what was read of it.
type Remote struct {
	config Config
	folder git.Folder
	depth  depth
	blobs  map[string][]byte // that were read already, by id
}

// depth is how much is fetched.
type depth int

const (
	newestFiltered depth = iota // the newest commit and its folders; files when they are read
	newest                      // the newest commit
	everything                  // with its history
)

func (d depth) flags() []string {
	switch d {
	case newestFiltered:
		return []string{"--depth=1", "--filter=blob:none"}
	case newest:
		return []string{"--depth=1"}
	case everything:
	}
	return nil
}

// Open makes the local folder. The server is not asked yet.
func Open(ctx context.Context, config Config) (*Remote, error) {
	if config.Attempts == 0 {
		config.Attempts = 4
	}
	if config.Pause == 0 {
		config.Pause = time.Second
	}
	if config.FetchTimeout == 0 {
		config.FetchTimeout = 10 * time.Minute
	}
	if config.PushTimeout == 0 {
		config.PushTimeout = 5 * time.Minute
	}
	r := &Remote{
		config: config,
		folder: git.Folder{Dir: config.Dir, Env: config.Env, Redactor: config.Redactor},
		blobs:  map[string][]byte{},
	}
	return r, r.reset(ctx)
}

// reset begins with an empty folder.
func (r *Remote) reset(ctx context.Context) error {
	if err := os.RemoveAll(r.config.Dir); err != nil {
		return fmt.Errorf("make the clone's folder: %w", err)
	}
	if err := os.MkdirAll(r.config.Dir, 0o700); err != nil {
		return fmt.Errorf("make the clone's folder: %w", err)
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--template=", "."},
		{"remote", "add", "origin", r.config.URL},
	} {
		if _, err := r.folder.Run(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// Head is the newest commit of a branch.
type Head struct {
	// Commit is its id; empty if the repository has no commits at all.
	Commit string
	// Tree is what gitopsenv reads of it.
	Tree gitopsenv.Tree
	// Message is the commit's, and Parents are the ids of those before it.
	Message string
	Parents []string

	modes map[string]string // of files, by path
}

// Branch reads the newest commit of a branch. A repository without any commit is no
// error: the branch is born with the first push. One that has others gives a
// *BranchMissingError.
func (r *Remote) Branch(ctx context.Context, branch string) (Head, error) {
	var head Head
	err := r.attempt(ctx, func(ctx context.Context) error {
		commit, err := r.newest(ctx, branch)
		if err != nil {
			return err
		}
		if commit == "" {
			head = Head{Tree: gitopsenv.Tree{}}
			return r.empty(ctx, branch)
		}
		head, err = r.read(ctx, branch)
		return err
	})
	return head, err
}

// Newest asks the server for the id of a branch's newest commit; empty if there is
// no such branch.
func (r *Remote) Newest(ctx context.Context, branch string) (commit string, err error) {
	err = r.attempt(ctx, func(ctx context.Context) error {
		commit, err = r.newest(ctx, branch)
		return err
	})
	return commit, err
}

// attempt does what reads from the server, and does it again if it is worthwhile.
func (r *Remote) attempt(ctx context.Context, read func(context.Context) error) error {
	for n, pause := 1, r.config.Pause; ; n, pause = n+1, 2*pause {
		attempt, cancel := context.WithTimeout(ctx, r.config.FetchTimeout)
		err := read(attempt)
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case n >= r.config.Attempts || !passing(err):
			return err
		}
		r.config.Log("attempt %d of %d: %v", n, r.config.Attempts, err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// passing tells failures that another attempt may not have.
func passing(err error) bool {
	_, ok := errors.AsType[*git.Error](err)
	return ok && git.Classify(err) == git.Passing
}

func (r *Remote) newest(ctx context.Context, branch string) (string, error) {
	// A pattern matches the ends of names.
	out, err := r.folder.Run(ctx, "ls-remote", "--quiet", "--heads", "origin", "refs/heads/"+branch)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		if commit, ref, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok && ref == "refs/heads/"+branch {
			return commit, nil
		}
	}
	return "", nil
}

// maxBranches is how many branches a message names.
const maxBranches = 8

// empty gives an error unless the repository has no branches.
func (r *Remote) empty(ctx context.Context, branch string) error {
	out, err := r.folder.Run(ctx, "ls-remote", "--quiet", "--heads", "origin")
	if err != nil {
		return err
	}
	missing := &BranchMissingError{Branch: branch}
	for line := range strings.Lines(out) {
		if _, ref, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			missing.Branches = append(missing.Branches, strings.TrimPrefix(ref, "refs/heads/"))
		}
	}
	if len(missing.Branches) == 0 {
		return nil
	}
	if len(missing.Branches) > maxBranches {
		missing.Branches = append(missing.Branches[:maxBranches], "…")
	}
	return missing
}

// read fetches and reads a branch that there is.
func (r *Remote) read(ctx context.Context, branch string) (Head, error) {
	ref := "refs/remotes/origin/" + branch
	for {
		err := r.fetch(ctx, branch, ref)
		if err == nil {
			var head Head
			if head, err = r.head(ctx, ref); err == nil {
				return head, nil
			}
		}
		if r.depth == everything || !lacking(err) {
			return Head{}, err
		}
		r.depth++
		r.config.Log("the server cannot do that, fetching more: %v", err)
		if err := r.reset(ctx); err != nil {
			return Head{}, err
		}
	}
}

// lacking tells a server that cannot give a part of a repository.
func lacking(err error) bool {
	switch git.Classify(err) {
	case git.Unsupported, git.Unadvertised:
		return true
	default:
		return false
	}
}

func (r *Remote) fetch(ctx context.Context, branch, ref string) error {
	args := slices.Concat(
		[]string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"},
		r.depth.flags(),
		[]string{"origin", "+refs/heads/" + branch + ":" + ref},
	)
	_, err := r.folder.Run(ctx, args...)
	return err
}

// Close removes the local folder.
func (r *Remote) Close() error { return os.RemoveAll(filepath.Clean(r.config.Dir)) }
