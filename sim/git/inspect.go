package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Commit is a commit as a test looks at it.
type Commit struct {
	ID      string
	Parents []string
	Author  string // name <address>
	Message string // whole, without the line end
}

// Commits are those that a branch, tag or commit leads to, newest first.
func (r *Repository) Commits(ctx context.Context, revision string) ([]Commit, error) {
	out, err := r.run(ctx, "", "log", "--topo-order", "-z", "--format=%H%n%P%n%an <%ae>%n%B", revision)
	if err != nil {
		return nil, err
	}
	var commits []Commit
	for record := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		fields := strings.SplitN(record, "\n", 4)
		if len(fields) != 4 {
			return nil, fmt.Errorf("commits of %s: unexpected record %q", r.name, record)
		}
		commits = append(commits, Commit{
			ID: fields[0], Parents: strings.Fields(fields[1]), Author: fields[2], Message: strings.TrimSpace(fields[3]),
		})
	}
	return commits, nil
}

// Branches are the commits that branches point to, by their names.
func (r *Repository) Branches(ctx context.Context) (map[string]string, error) {
	out, err := r.run(ctx, "", "for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", "refs/heads/")
	if err != nil {
		return nil, err
	}
	branches := map[string]string{}
	for line := range strings.Lines(out) {
		name, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		branches[name] = id
	}
	return branches, nil
}

// Files are the files of a commit, by their paths from the root.
func (r *Repository) Files(ctx context.Context, revision string) (map[string][]byte, error) {
	out, err := r.run(ctx, "", "ls-tree", "-r", "-z", revision)
	if err != nil {
		return nil, err
	}
	paths := map[string][]string{}
	for entry := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		fields, path, _ := strings.Cut(entry, "\t") // mode, kind and id
		if parts := strings.Fields(fields); len(parts) == 3 {
			paths[parts[2]] = append(paths[parts[2]], path)
		}
	}
	var ids strings.Builder
	for id := range paths {
		ids.WriteString(id + "\n")
	}
	files := map[string][]byte{}
	err = r.read(ctx, strings.NewReader(ids.String()), func(o Object) error {
		for _, path := range paths[o.ID] {
			files[path] = o.Content
		}
		return nil
	}, "--batch")
	return files, err
}

// Object is an object of a repository.
type Object struct {
	ID      string
	Kind    string // blob, commit, tag or tree
	Content []byte
}

// Scan shows every object that the repository holds, whether or not a branch
// leads to it: what was pushed once can be fetched by who knows its id.
func (r *Repository) Scan(ctx context.Context, see func(Object) error) error {
	return r.read(ctx, strings.NewReader(""), see, "--batch", "--batch-all-objects", "--unordered")
}

// read hands git's answers about objects on.
func (r *Repository) read(ctx context.Context, ids io.Reader, see func(Object) error, args ...string) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := r.command(ctx, append([]string{"cat-file"}, args...)...)
	cmd.Stdin = ids
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			cancel() // it may have more to say
		}
		if wait := cmd.Wait(); err == nil && wait != nil {
			err = fmt.Errorf("read objects of %s: %w", r.name, wait)
		}
	}()
	reader := bufio.NewReaderSize(out, 1<<16)
	for {
		header, err := reader.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read objects of %s: %w", r.name, err)
		}
		fields := strings.Fields(header)
		if len(fields) != 3 {
			return fmt.Errorf("read objects of %s: %s", r.name, strings.TrimSpace(header))
		}
		size, err := strconv.Atoi(fields[2])
		if err != nil {
			return fmt.Errorf("read objects of %s: %w", r.name, err)
		}
		content := make([]byte, size+1) // a line end follows
		if _, err := io.ReadFull(reader, content); err != nil {
			return fmt.Errorf("read objects of %s: %w", r.name, err)
		}
		if err := see(Object{ID: fields[0], Kind: fields[1], Content: bytes.TrimSuffix(content, []byte("\n"))}); err != nil {
			return err
		}
	}
}
