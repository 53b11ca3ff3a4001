package repository

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
)

// maxFiles is how many files may be in what is read.
const maxFiles = 50_000

// entry is a file in a commit.
type entry struct{ mode, id, path string }

// head reads a commit that was fetched.
func (r *Remote) head(ctx context.Context, ref string) (Head, error) {
	commit, err := r.folder.Run(ctx, "rev-parse", "--verify", ref+"^{commit}")
	if err != nil {
		return Head{}, err
	}
	// As it is: git log hides the parents of a commit that is the newest of a shallow copy.
	text, err := r.folder.Run(ctx, "cat-file", "commit", commit)
	if err != nil {
		return Head{}, err
	}
	header, message, _ := strings.Cut(text, "\n\n")
	h := Head{Commit: commit, Message: message, Tree: gitopsenv.Tree{}, modes: map[string]string{}}
	for line := range strings.SplitSeq(header, "\n") {
		if parent, ok := strings.CutPrefix(line, "parent "); ok {
			h.Parents = append(h.Parents, parent)
		}
	}
	entries, err := r.list(ctx, commit)
	if err != nil {
		return Head{}, err
	}
	if err := r.download(ctx, commit); err != nil {
		return Head{}, err
	}
	if err := r.load(ctx, entries); err != nil {
		return Head{}, err
	}
	total := 0
	for _, e := range entries {
		h.Tree[e.path], h.modes[e.path] = r.blobs[e.id], e.mode
		if total += len(r.blobs[e.id]); total > gitopsenv.MaxTotal {
			return Head{}, tooLarge(e.path)
		}
	}
	return h, nil
}

func tooLarge(path string) error {
	return &ContentError{Reason: fmt.Sprintf("%s: more than %d MiB in one file, or %d MiB below %s, is more than manifests take",
		path, gitopsenv.MaxFile>>20, gitopsenv.MaxTotal>>20, strings.Join(gitopsenv.Roots(), " and "))}
}

// list lists the files that generating reads.
func (r *Remote) list(ctx context.Context, commit string) ([]entry, error) {
	out, err := r.folder.Pipe(ctx, nil, append([]string{"ls-tree", "-r", "-z", "--full-tree", commit, "--"}, gitopsenv.Roots()...)...)
	if err != nil {
		return nil, err
	}
	var entries []entry
	for line := range bytes.SplitSeq(out, []byte{0}) {
		if len(line) == 0 {
			continue
		}
		about, path, _ := strings.Cut(string(line), "\t")
		fields := strings.Fields(about) // mode, type, id
		if len(fields) != 3 {
			return nil, errors.New("git ls-tree says something that is no list of files")
		}
		switch fields[0] {
		case "100644", "100755", "100664":
		case "120000":
			return nil, &ContentError{Reason: path + " is a symbolic link: what is generated must not depend on where one leads"}
		default:
			return nil, &ContentError{Reason: path + " is no file: submodules cannot be generated from"}
		}
		if entries = append(entries, entry{fields[0], fields[2], path}); len(entries) > maxFiles {
			return nil, &ContentError{Reason: fmt.Sprintf("there are more than %d files below %s", maxFiles, strings.Join(gitopsenv.Roots(), " and "))}
		}
	}
	return entries, nil
}

// download brings the files that were left out of the fetch, all at once: git
// itself would ask the server for one after the other.
func (r *Remote) download(ctx context.Context, commit string) error {
	if r.depth != newestFiltered {
		return nil
	}
	out, err := r.folder.Run(ctx, append([]string{"ls-tree", "--full-tree", "--object-only", commit, "--"}, gitopsenv.Roots()...)...)
	if err != nil || out == "" {
		return err
	}
	out, err = r.folder.Run(ctx, append([]string{"rev-list", "--objects", "--no-object-names", "--missing=print"}, strings.Fields(out)...)...)
	if err != nil {
		return err
	}
	var missing strings.Builder
	for line := range strings.Lines(out) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "?"); ok {
			missing.WriteString(id + "\n")
		}
	}
	if missing.Len() == 0 {
		return nil
	}
	_, err = r.folder.Pipe(ctx, strings.NewReader(missing.String()),
		"-c", "fetch.negotiationAlgorithm=noop", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
		"--filter=blob:none", "--stdin", "origin")
	return err
}

// load reads the content of files that have not been read before.
func (r *Remote) load(ctx context.Context, entries []entry) error {
	var ids strings.Builder
	asked := map[string]bool{}
	var order []entry
	for _, e := range entries {
		if _, ok := r.blobs[e.id]; !ok && !asked[e.id] {
			asked[e.id] = true
			order = append(order, e)
			ids.WriteString(e.id + "\n")
		}
	}
	if len(order) == 0 {
		return nil
	}
	out, err := r.folder.Pipe(ctx, strings.NewReader(ids.String()), "cat-file", "--batch-check=%(objectsize)")
	if err != nil {
		return err
	}
	total := 0
	for i, line := range strings.Fields(string(out)) {
		size, err := strconv.Atoi(line)
		if err != nil || i >= len(order) {
			return errors.New("git cat-file says something that is no size")
		}
		if total += size; size > gitopsenv.MaxFile || total > gitopsenv.MaxTotal {
			return tooLarge(order[i].path)
		}
	}
	out, err = r.folder.Pipe(ctx, strings.NewReader(ids.String()), "cat-file", "--batch=%(objectsize)")
	if err != nil {
		return err
	}
	in := bufio.NewReader(bytes.NewReader(out))
	for _, e := range order {
		line, err := in.ReadString('\n')
		if err != nil {
			return fmt.Errorf("git cat-file ends early: %w", err)
		}
		size, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			return errors.New("git cat-file says something that is no size")
		}
		data := make([]byte, size+1) // a line feed follows
		if _, err := io.ReadFull(in, data); err != nil {
			return fmt.Errorf("git cat-file ends early: %w", err)
		}
		r.blobs[e.id] = data[:size:size]
	}
	return nil
}
