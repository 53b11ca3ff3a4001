package git

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Branch is the branch that every repository starts with.
const Branch = "main"

// Repository is a bare repository of the server. Its methods may be called
// concurrently.
type Repository struct {
	server *Server
	name   string

	mu     sync.Mutex
	grants []Grant // nil: everybody may read
	faults []*Fault
}

// Create makes an empty repository.
func (s *Server) Create(ctx context.Context, name string) (*Repository, error) {
	r := &Repository{server: s, name: name}
	if err := os.MkdirAll(r.Dir(), 0o755); err != nil {
		return nil, err
	}
	if _, err := r.run(ctx, "", "init", "--quiet", "--bare", "--initial-branch="+Branch); err != nil {
		return nil, err
	}
	// Clients may ask for a commit that no branch or tag names, as a pinned ref is.
	if _, err := r.run(ctx, "", "config", "uploadpack.allowAnySHA1InWant", "true"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.repositories[name] = r
	s.mu.Unlock()
	return r, nil
}

// URL is where the repository is cloned from.
func (r *Repository) URL() string { return r.server.url + "/" + r.name + ".git" }

// Dir is the bare repository on disk.
func (r *Repository) Dir() string { return filepath.Join(r.server.dir, r.name+".git") }

// Commit replaces the files of the main branch with those of the trees, each below
// the folder that it is named by ("." is the root), and gives the commit's id.
func (r *Repository) Commit(ctx context.Context, message string, trees map[string]fs.FS) (string, error) {
	return r.CommitTo(ctx, Branch, message, trees)
}

// CommitTo does what Commit does on any branch; one that does not exist begins
// with this commit.
func (r *Repository) CommitTo(ctx context.Context, branch, message string, trees map[string]fs.FS) (string, error) {
	return r.commit(ctx, branch, message, trees, false)
}

// AddTo commits the files of a tree besides, or instead of, those of the same names
// that the branch has.
func (r *Repository) AddTo(ctx context.Context, branch, message string, tree fs.FS) (string, error) {
	return r.commit(ctx, branch, message, map[string]fs.FS{".": tree}, true)
}

func (r *Repository) commit(ctx context.Context, branch, message string, trees map[string]fs.FS, keep bool) (string, error) {
	work, err := os.MkdirTemp("", "sim-git-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	files := filepath.Join(work, "files")
	for folder, tree := range trees {
		if err := os.CopyFS(filepath.Join(files, folder), tree); err != nil {
			return "", fmt.Errorf("commit to %s: %w", r.name, err)
		}
	}
	index := "GIT_INDEX_FILE=" + filepath.Join(work, "index")
	parent, err := r.run(ctx, "", "rev-parse", "--verify", "--quiet", "refs/heads/"+branch)
	if err != nil {
		parent = "" // the branch's first commit
	}
	add := []string{"--work-tree=" + files, "add", "--all", "."}
	if keep {
		add = []string{"--work-tree=" + files, "add", "--ignore-removal", "."}
		if parent != "" {
			if _, err := r.run(ctx, index, "read-tree", parent); err != nil {
				return "", err
			}
		}
	}
	if _, err := r.run(ctx, index, add...); err != nil {
		return "", err
	}
	treeID, err := r.run(ctx, index, "write-tree")
	if err != nil {
		return "", err
	}
	var parents []string
	if parent != "" {
		parents = []string{parent}
	}
	return r.put(ctx, branch, treeID, message, parents...)
}

// put makes a commit of a tree and the branch point to it.
func (r *Repository) put(ctx context.Context, branch, tree, message string, parents ...string) (string, error) {
	args := []string{"commit-tree", tree, "-m", message}
	for _, parent := range parents {
		args = append(args, "-p", parent)
	}
	commit, err := r.run(ctx, "", args...)
	if err != nil {
		return "", err
	}
	if _, err := r.run(ctx, "", "update-ref", "refs/heads/"+branch, commit); err != nil {
		return "", err
	}
	return commit, nil
}

// Merge merges a branch into another one, as a hoster does with a pull request,
// and gives the merge's commit.
func (r *Repository) Merge(ctx context.Context, branch, into string) (string, error) {
	tree, err := r.run(ctx, "", "merge-tree", "--write-tree", "refs/heads/"+into, "refs/heads/"+branch)
	if err != nil {
		return "", err
	}
	return r.put(ctx, into, tree, "Merge "+branch+" into "+into, "refs/heads/"+into, "refs/heads/"+branch)
}

// Tag points a tag at a commit.
func (r *Repository) Tag(ctx context.Context, tag, commit string) error {
	_, err := r.run(ctx, "", "update-ref", "refs/tags/"+tag, commit)
	return err
}

// run runs git on the bare repository with nothing of the user's configuration.
func (r *Repository) run(ctx context.Context, env string, args ...string) (string, error) {
	cmd := r.command(ctx, args...)
	if env != "" {
		cmd.Env = append(cmd.Env, env)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s in %s: %w: %s", args[0], r.name, err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

func (r *Repository) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, r.server.git, append([]string{"--git-dir=" + r.Dir()}, args...)...)
	cmd.Env = []string{
		"HOME=" + r.server.dir, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=Simulator", "GIT_AUTHOR_EMAIL=simulator@kubeopera.invalid",
		"GIT_COMMITTER_NAME=Simulator", "GIT_COMMITTER_EMAIL=simulator@kubeopera.invalid",
	}
	return cmd
}
