package repository

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/kubeopera/platform/scaffoldrunner/gitopsenv"
	"github.com/kubeopera/platform/shared/runner/git"
)

// nextRef is where trees are put together.
const nextRef = "refs/scaffold/next"

// Commit makes a commit on top of a head, or the first one of a repository, and
// returns its id. It is in the local folder only.
func (r *Remote) Commit(ctx context.Context, head Head, changes []gitopsenv.Change, message string) (string, error) {
	if _, err := r.folder.Pipe(ctx, r.stream(head, changes), "fast-import", "--quiet", "--force", "--done", "--date-format=now"); err != nil {
		return "", err
	}
	tree, err := r.folder.Run(ctx, "rev-parse", "--verify", nextRef+"^{tree}")
	if err != nil {
		return "", err
	}
	args := []string{"commit-tree", tree, "-F", "-"}
	if head.Commit != "" {
		args = append(args, "-p", head.Commit)
	}
	if r.config.Sign {
		args = append(args, "-S")
	}
	name, email := person(r.config.AuthorName), person(r.config.AuthorEmail)
	folder := git.Folder{Dir: r.folder.Dir, Redactor: r.folder.Redactor, Env: append([]string{
		"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + email, "GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + email,
	}, r.folder.Env...)}
	out, err := folder.Pipe(ctx, strings.NewReader(message), args...)
	return strings.TrimSpace(string(out)), err
}

// stream is the tree in the form that git fast-import reads.
func (r *Remote) stream(head Head, changes []gitopsenv.Change) *bytes.Buffer {
	var b bytes.Buffer
	fmt.Fprintf(&b, "commit %s\ncommitter scaffold <> now\ndata 0\n", nextRef)
	if head.Commit != "" {
		fmt.Fprintf(&b, "from %s\n", head.Commit)
	}
	for _, c := range changes {
		if c.New == nil {
			fmt.Fprintf(&b, "D %s\n", quoted(c.Path))
			continue
		}
		fmt.Fprintf(&b, "M %s inline %s\ndata %d\n", cmp.Or(head.modes[c.Path], "100644"), quoted(c.Path), len(c.New))
		b.Write(c.New)
		b.WriteByte('\n')
	}
	b.WriteString("done\n")
	return &b
}

// quoted is a path as git fast-import reads it.
func quoted(path string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(path) {
		switch c := path[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c == 0x7f:
			b.WriteString(`\` + strconv.FormatUint(uint64(c)+0o1000, 8)[1:]) // three octal digits
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// person is a name or an address without what a commit's header gives a meaning.
func person(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == '<' || r == '>' || r == 0x7f {
			return -1
		}
		return r
	}, s)
}
