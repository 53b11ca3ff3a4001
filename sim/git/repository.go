package git

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Branch is the branch that every repository starts with.
const Branch = "main"

// Repository is a bare repository of the server.
type Repository struct {
	server *Server
	name   string
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
	return r, nil
}

// URL is where the repository is cloned from.
func (r *Repository) URL() string { return r.server.url + "/" + r.name + ".git" }

// Dir is the bare repository on disk.
func (r *Repository) Dir() string { return filepath.Join(r.server.dir, r.name+".git") }

// Commit replaces the files of the branch with those of the trees, each below
// the folder that it is named by ("." is the root), and gives the commit's id.
func (r *Repository) Commit(ctx context.Context, message string, trees map[string]fs.FS) (string, error) {
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
	if _, err := r.run(ctx, index, "--work-tree="+files, "add", "--all", "."); err != nil {
		return "", err
	}
	treeID, err := r.run(ctx, index, "write-tree")
	if err != nil {
		return "", err
	}
	args := []string{"commit-tree", treeID, "-m", message}
	if parent, err := r.run(ctx, "", "rev-parse", "--verify", "--quiet", "refs/heads/"+Branch); err == nil {
		args = append(args, "-p", parent)
	}
	commit, err := r.run(ctx, "", args...)
	if err != nil {
		return "", err
	}
	if _, err := r.run(ctx, "", "update-ref", "refs/heads/"+Branch, commit); err != nil {
		return "", err
	}
	return commit, nil
}

// Tag points a tag at a commit.
func (r *Repository) Tag(ctx context.Context, tag, commit string) error {
	_, err := r.run(ctx, "", "update-ref", "refs/tags/"+tag, commit)
	return err
}

// run runs git on the bare repository with nothing of the user's configuration.
func (r *Repository) run(ctx context.Context, env string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, r.server.git, append([]string{"--git-dir=" + r.Dir()}, args...)...)
	cmd.Env = []string{
		"HOME=" + r.server.dir, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=Simulator", "GIT_AUTHOR_EMAIL=simulator@kubeopera.invalid",
		"GIT_COMMITTER_NAME=Simulator", "GIT_COMMITTER_EMAIL=simulator@kubeopera.invalid",
	}
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
